package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"
)

// TestExemplars: a scraper that asks for OpenMetrics sees which version and which trace a slow answer was of. One
// that asks for protobuf sees a native histogram, too, and one that asks for neither what it always saw.
func TestExemplars(t *testing.T) {
	const traced = "4bf92f3577b34da6a3ce929d0e0e4736"
	b := newBench(t)
	// The traced one comes last: a bucket has the exemplar of its newest duration.
	for _, parent := range []string{"none", "00-" + strings.ToUpper(traced) + "-00f067aa0ba902b7-01", "00-" + traced +
		"-00f067aa0ba902b7-01"} {
		b.want(http.StatusOK, nil, "POST", "/v1/models/ratings/score",
			`{"events":[{"user":"u1","item":"i1","age":3,"tags":[]}]}`, "traceparent", parent)
	}
	scrape := func(accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = "localhost"
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		return w
	}
	if text := scrape("application/openmetrics-text;version=1.0.0").Body.String(); !strings.Contains(text, `# {trace_id="`+
		traced+`",version="1"}`) &&
		!strings.Contains(text, `# {version="1",trace_id="`+traced+`"}`) ||
		!strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("no exemplar in OpenMetrics: %.2000s", text)
	}
	if text := scrape("").Body.String(); strings.Contains(text, traced) || strings.Contains(text, "# {") ||
		!strings.Contains(text, "refitd_score_duration_seconds_bucket") {
		t.Errorf("plain text: %.2000s", text)
	}
	w := scrape("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	native, found := false, false
	for {
		var family dto.MetricFamily
		if err := protodelim.UnmarshalFrom(w.Body, &family); err != nil {
			break
		}
		if family.GetName() != "refitd_score_duration_seconds" {
			continue
		}
		for _, m := range family.Metric {
			h := m.Histogram
			native = native || h.GetSampleCount() == 3 && len(h.PositiveSpan) > 0 && len(h.Bucket) > 0
			for _, e := range h.Bucket {
				for _, l := range e.GetExemplar().GetLabel() {
					found = found || l.GetName() == "version" && l.GetValue() == "1"
				}
			}
		}
	}
	if !native || !found {
		t.Errorf("protobuf: native histogram %v, exemplar %v", native, found)
	}
}
