package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/metrics"
)

// text is what a scrape of the series of one model shows, without help.
func text(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := m.GetGauge().GetValue()
			if m.Counter != nil {
				v = m.GetCounter().GetValue()
			}
			out.WriteString(strings.TrimPrefix(f.GetName(), "refitd_watch_"))
			for _, l := range m.GetLabel() {
				out.WriteString(" " + l.GetValue())
			}
			out.WriteString(" " + time.Duration(v*float64(time.Second)).String() + "\n")
		}
	}
	return out.String()
}

func TestCollector(t *testing.T) {
	var a, b snapshot.Status
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.New(func() snapshot.Status { return a }, prometheus.Labels{"model": "a"}),
		metrics.New(func() snapshot.Status { return b }, prometheus.Labels{"model": "b"}))
	empty := func(model string) string {
		text := ""
		for _, name := range []string{"delta", "deltas_applied_total", "deltas_failing", "deltas_refused_total", "expired",
			"failing", "loads_total", "refused_total",
			"version"} {
			text += name + " " + model + " 0s\n"
		}
		return text
	}
	want := func(what, want string) {
		t.Helper()
		got := ""
		for line := range strings.Lines(text(t, r)) {
			if strings.Contains(line, " a ") {
				got += line
			} else if !strings.Contains(empty("b"), line) {
				t.Errorf("%s: %q of the other watcher", what, line)
			}
		}
		if got != want {
			t.Errorf("%s:\n%swant\n%s", what, got, want)
		}
	}
	want("before the first version", empty("a"))
	at := func(seconds float64) time.Time { return time.UnixMilli(int64(1000 * seconds)) }
	a = snapshot.Status{
		Version:       7,
		Created:       at(1),
		Watermark:     at(2),
		Checked:       at(12),
		Renewed:       at(11),
		Loads:         3,
		Refused:       2,
		Err:           errors.New("damaged"),
		Expired:       true,
		Position:      snapshot.Position{Sequence: 5, Created: at(10.25), Watermark: at(9)},
		DeltasApplied: 8,
		DeltasRefused: 4,
		DeltaErr:      errors.New("gap"),
	}
	want("all there is", "checked_timestamp_seconds a 12s\ncreated_timestamp_seconds a 10.25s\ndelta a 5s\n"+
		"deltas_applied_total a 8s\ndeltas_failing a 1s\ndeltas_refused_total a 4s\nexpired a 1s\nfailing a "+
		"1s\nloads_total a 3s\n"+
		"refused_total a 2s\nrenewed_timestamp_seconds a 11s\nversion a 7s\nwatermark_timestamp_seconds a 9s\n")

	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// What a watcher does is what is shown.
func TestWatcher(t *testing.T) {
	w, err := snapshot.Watch(snapshot.DirSource{Dir: "../testdata/v1"}, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := w.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.New(w.Status, prometheus.Labels{"model": "ratings"}))
	created := "created_timestamp_seconds ratings " + time.Duration(m.Manifest().Created.UnixMilli()*int64(
		time.Millisecond)).
		String() +
		"\n"
	for deadline := time.Now().Add(time.Minute); !strings.Contains(text(t, r), "loads_total ratings 1s\n"); time.Sleep(
		time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not loaded")
		}
	}
	for _, want := range []string{created, "version ratings 1s\n", "failing ratings 0s\n"} {
		if got := text(t, r); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
