package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// laterLabels makes a model whose labels come in the topic clicks of a configuration of package daemontest.
var laterLabels = []string{
	"start: earliest}",
	"start: earliest, outcomes: {topics: [clicks], key: {impression: id, outcome: of}, window: 10m}}",
	"task: ordinal, label: rating, levels: 5", "task: binary, label: clicked",
}

// TestLaterLabels: a model learns who clicks what from two topics, its state is the same whichever of them was read
// first, and after a restart.
func TestLaterLabels(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "clicks", 2, 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	start := int64(1_700_000_000_000)
	var seen, clicked [][]byte
	for i := range int64(6000) {
		user, item, at := r.IntN(30), r.IntN(20), start+i*1000
		seen = append(seen, fmt.Appendf(nil, `{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, user, item, at))
		if click := map[bool]float64{true: 0.7, false: 0.1}[user%2 == item%2]; r.Float64() < click {
			clicked = append(clicked, fmt.Appendf(nil, `{"of":"e%d","ts":%d}`, i, at+int64(r.ExpFloat64()*100_000)))
		}
	}
	const half = 3000
	b.Produce(seen[:half]...)
	path := b.Configure("later", laterLabels...)
	if o := b.Run(path); o.Err == nil || daemontest.Balanced(t, o.State(t)) != half || o.State(t).Outcomes.Open != half {
		t.Errorf("without outcomes: %+v, %v", o.Summary, o.Err)
	}
	b.ProduceTo("clicks", clicked...)
	b.Produce(seen[half:]...)
	o := b.Run(path)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	state := o.State(t)
	of := state.Outcomes
	if of == nil || of.Joined == 0 || of.Open == 0 || of.Delays.P90 < 50 || of.Rate < 0.3 || of.Rate > 0.5 {
		t.Fatalf("%+v", of)
	}
	again := b.Run(path)
	other := b.Run(b.Configure("other", laterLabels...)) // both topics at once
	for name, o := range map[string]daemontest.Outcome{"restarted": again, "anew": other} {
		if o.Err != nil || o.State(t).SampleDigest != state.SampleDigest || *o.State(t).Outcomes != *of {
			t.Errorf("%s: %+v, %v, want %+v", name, o.State(t), o.Err, state)
		}
	}
	d, stop := b.Start(b.Configure("shown", append(laterLabels, "every_events: 0", "every_events: 1000")...))
	var metrics string
	daemontest.Within(t, daemontest.Patience, "the outcomes in the metrics", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_outcomes_total") == float64(len(clicked)) &&
			strings.Contains(metrics, "refitd_outcome_rate{")
	})
	stop()
	shown := families(t, metrics)
	for name, labels := range documentedMetrics(t) {
		if strings.HasPrefix(name, "refitd_outcome") && shown[name] != labels {
			t.Errorf("%s is %q, in configs/metrics.json %q", name, shown[name], labels)
		}
	}
	m, err := snapshot.Open(filepath.Join(b.Dir, "store-later"), "ratings", snapshot.Selector{Alias: pointer.Champion})
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, item := range []string{"i1", "i2"} {
		p, err := m.Predict(&format.Input{Categorical: []string{"u1", item}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Probabilities[1])
	}
	if slices.IndexFunc(all, func(p float64) bool { return p < 0 || p > 1 }) >= 0 || all[0] < 0.5 || all[1] > 0.3 {
		t.Errorf("a pair that is clicked 7 times of 10 has %.2f, one that is 1 time of 10 %.2f", all[0], all[1])
	}
	if m.Manifest().Schema.Label != "clicked" {
		t.Errorf("the label of the version is %q", m.Manifest().Schema.Label)
	}
}
