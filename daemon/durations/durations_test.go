package durations

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestObserve: a duration is in the fixed buckets and in the native ones, with the labels of its exemplar that have a
// value.
func TestObserve(t *testing.T) {
	h := prometheus.NewHistogramVec(Options("a_seconds", "A.", []float64{1, 10}), []string{"model"}).
		WithLabelValues("m")
	Observe(h, 2*time.Second, prometheus.Labels{"version": "7", "trace_id": ""})
	Observe(h, 20*time.Second, prometheus.Labels{"trace_id": ""})
	var m dto.Metric
	if err := h.(prometheus.Metric).Write(&m); err != nil {
		t.Fatal(err)
	}
	got := m.Histogram
	if got.GetSampleCount() != 2 || got.GetSampleSum() != 22 || len(got.Bucket) < 2 ||
		got.Bucket[0].GetCumulativeCount() != 0 ||
		got.Bucket[1].GetCumulativeCount() != 1 {
		t.Errorf("fixed buckets: %v", got)
	}
	if len(got.PositiveDelta) != 2 || got.GetSchema() != 3 { // 2^(1/8) is the widest growth of at most 1.1
		t.Errorf("native buckets: schema %d, %v", got.GetSchema(), got.PositiveDelta)
	}
	exemplar := got.Bucket[1].Exemplar
	if exemplar == nil || len(exemplar.Label) != 1 || exemplar.Label[0].GetName() != "version" ||
		exemplar.Label[0].GetValue() != "7" ||
		exemplar.GetValue() != 2 {
		t.Errorf("exemplar %v", exemplar)
	}
	for _, b := range got.Bucket[2:] {
		if b.Exemplar != nil {
			t.Errorf("an exemplar without labels: %v", b.Exemplar)
		}
	}
}
