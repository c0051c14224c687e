package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// gappyVisit is an event in which half lack the city, half the price and half the tags; absent or null.
func gappyVisit(r *rand.Rand) string {
	fields := []string{fmt.Sprintf(`"user":"u%d","age":%d,"rating":%d,"ts":1`, r.IntN(20), 20+r.IntN(40), 1+r.IntN(5))}
	for _, f := range []string{fmt.Sprintf(`"city":"c%d"`, r.IntN(5)), fmt.Sprintf(`"price":%.2f`, 1000+r.Float64()),
		`"tags":["a","b"]`} {
		switch r.IntN(4) {
		case 0:
			name, _, _ := strings.Cut(f, ":")
			fields = append(fields, name+":null")
		case 1:
		default:
			fields = append(fields, f)
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// TestAbsentFields: events that lack optional fields are learned from and counted, those that lack others are rejected,
// and the published version says the same of an event in the library, over HTTP and in refitd score, which refuse
// alike.
func TestAbsentFields(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(24, 1))
	want := map[string]float64{"city": 0, "price": 0, "tags": 0}
	var values [][]byte
	for range 1500 {
		v := gappyVisit(r)
		for field := range want {
			if !strings.Contains(v, `"`+field+`":`) || strings.Contains(v, `"`+field+`":null`) {
				want[field]++
			}
		}
		values = append(values, []byte(v))
	}
	values = append(values, []byte(`{"user":"u1","rating":3,"ts":1}`),
		[]byte(`{"age":null,"user":"u1","rating":3,"ts":1,"city":"c1"}`))
	b.Produce(values...)
	path := b.Configure(
		"gaps",
		append([]string{"categorical: [user, item]", "categorical: [user, {name: city, optional: true}], " +
			"numeric: [age, {name: price, optional: true}], multi: [{name: tags, optional: true}]"}, daemontest.Simple...)...)
	if o := b.Run(path); o.Err != nil || o.State(t).RejectedByReason["missing_field"] != 2 ||
		daemontest.Balanced(t, o.State(t)) != 1500 {
		t.Fatalf("%+v, %v", o.Summary, o.Err)
	}
	b.Produce(values...)
	d, stop := b.Start(path)
	defer stop()
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "the gaps are counted", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		for field, n := range want {
			if !strings.Contains(metrics,
				fmt.Sprintf("refitd_events_absent_fields_total{field=%q,model=\"ratings\"} %g\n", field, n)) {
				return false
			}
		}
		return strings.Contains(metrics,
			`refitd_events_rejected_total{field="age",model="ratings",reason="missing_field"} 2`+"\n") &&
			!strings.Contains(metrics, `{field="city",model="ratings",reason="missing_field"}`)
	})
	store := filepath.Join(b.Dir, "store-gaps")
	version, err := snapshot.Open(store, "ratings", snapshot.Selector{Alias: pointer.Champion})
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for range 50 {
		events = append(events, gappyVisit(r))
	}
	var out bytes.Buffer
	ref := offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: "ratings"}, Alias: pointer.Champion}
	if err := evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{}, strings.NewReader(strings.Join(events, "\n")),
		report.NewEmitter(&out, true)); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Outputs []float64
		Absent  []string
		Reason  string
		Field   string
	}
	var served struct{ Predictions []answer }
	response, err := http.Post(base+"/v1/models/ratings/score", "application/json",
		strings.NewReader(`{"events":[`+strings.Join(events, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || json.Unmarshal(body, &served) != nil || len(served.Predictions) != len(events) {
		t.Fatalf("%s, %v", body, err)
	}
	lines := json.NewDecoder(&out)
	for i, text := range events {
		var scored answer
		var fields map[string]any
		if err := lines.Decode(&scored); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		in, err := version.Schema().InputFromMap(fields)
		if err != nil {
			t.Fatal(err)
		}
		p, err := version.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		for o, v := range p.Outputs {
			if math.Abs(scored.Outputs[o]-v) > 1e-12*(1+math.Abs(v)) ||
				scored.Outputs[o] != served.Predictions[i].Outputs[o] {
				t.Fatalf("%s: score says %v, HTTP %v, the library %v", text, scored.Outputs,
					served.Predictions[i].Outputs, p.Outputs)
			}
		}
		if got := fmt.Sprint(p.Absent); got != fmt.Sprint(scored.Absent) ||
			got != fmt.Sprint(served.Predictions[i].Absent) {
			t.Errorf("%s: absent %s in the library, %v, %v", text, got, scored.Absent, served.Predictions[i].Absent)
		}
	}
	out.Reset()
	err = evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{}, strings.NewReader(`{"user":"u1","price":3}`),
		report.NewEmitter(&out, true))
	if report.CodeOf(err) != report.ExitNo {
		t.Errorf("score without age: %v", err)
	}
	var refused answer
	if err := json.NewDecoder(&out).Decode(&refused); err != nil || refused.Reason != "missing_field" ||
		refused.Field != "age" {
		t.Errorf("score without age: %+v, %v", refused, err)
	}
	if _, err := version.Schema().InputFromMap(map[string]any{"user": "u1", "price": 3.0}); err == nil ||
		!strings.Contains(err.Error(), `"age"`) {
		t.Errorf("the library without age: %v", err)
	}
}

// TestMappedFieldAbsent: a mapping names a field that no event has. A metric and an alert report it with its path
// after a thousand events, whether the model can do without it or not. A field that a single event has is not
// reported.
func TestMappedFieldAbsent(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(64, 900)
	b.Produce([]byte(`{"user":"u1","item":"i1","rating":3,"ts":1,"rare":{"price":2}}`))
	d, stop := b.Start(
		b.Configure(
			"nowhere",
			append([]string{"start: earliest", "start: earliest, mapping: {fields: [{name: price, path: rare.price}, " +
				"{name: city, path: payload.city}]}", "[user, item]", "[user, item, {name: city, optional: true}], numeric: " +
				"[{name: price, optional: true}]"},
				daemontest.Simple...)...),
	)
	defer stop()
	base := "http://" + d.Addr()
	look := func() (metrics, status string) {
		_, metrics = daemontest.Get(t, base+"/metrics")
		_, status = daemontest.Get(t, base+"/v1/status")
		return metrics, status
	}
	daemontest.Within(t, daemontest.Patience, "901 events", func() bool {
		metrics, _ := look()
		return strings.Contains(metrics, `refitd_mapping_missing_total{field="city",model="ratings"} 901`+"\n")
	})
	if metrics, status := look(); strings.Contains(metrics, "refitd_mapping_field_absent{") ||
		strings.Contains(status, "RefitdMappedFieldAbsent") {
		t.Error("a field is reported before a thousand events")
	}
	b.ProduceRatings(65, 200)
	daemontest.Within(t, daemontest.Patience, "the field is reported", func() bool {
		metrics, status := look()
		return strings.Contains(metrics, `refitd_mapping_field_absent{field="city",model="ratings"} 1`+"\n") &&
			strings.Contains(status, "RefitdMappedFieldAbsent") &&
			strings.Contains(status, "city (payload.city)")
	})
	if metrics, status := look(); strings.Contains(metrics, `refitd_mapping_field_absent{field="price"`) ||
		strings.Contains(status, "rare.price") {
		t.Error("a field that one event has is reported")
	}
}

// TestEventTimesOfAnotherUnit: seconds that are read as milliseconds are learned from, and said in the log, once, by a
// metric and among the alerts.
func TestEventTimesOfAnotherUnit(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	for i := range 20 {
		b.Produce(fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":3,"ts":%d}`, i%4, i%5, 1_700_000_000+i))
	}
	b.Produce([]byte(`{"user":"u1","item":"i1","rating":3,"ts":1700000000000}`))
	d, stop := b.Start(b.Configure("seconds", daemontest.Simple...))
	defer stop()
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "21 events, and 20 of another unit", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		_, status := daemontest.Get(t, base+"/v1/status")
		return strings.Contains(metrics, `refitd_event_times_wrong_unit_total{model="ratings"} 20`+"\n") &&
			strings.Contains(status, "RefitdEventTimesWrongUnit") && strings.Contains(status, "of our days in s")
	})
}
