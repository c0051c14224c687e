package shard_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestTeamOfLaterLabels: events and their outcomes, which other shards read than those of the events, are joined at the
// trainer as one process joins them: of three shards, of a process that a group gives all shards, and of one that takes
// its place without a state, as its trainer has lost its own. Events whose label is not final are open everywhere, and
// are joined when their outcome comes.
func TestTeamOfLaterLabels(t *testing.T) {
	t.Parallel()
	n := tier.Size(3000, 100_000)
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "clicks", 5, 0); err != nil {
		t.Fatal(err)
	}
	in := func(name, team string) string {
		models := "models:"
		if team != "" {
			models = team + "\nmodels:"
		}
		return b.Configure(name, "group_id: g-"+name, "group_id: g-"+team[:min(1, len(team))], "models:", models,
			"start: earliest}", "start: earliest, outcomes: {topics: [clicks], key: {impression: id, outcome: of}, window: 8h}}",
			"task: ordinal, label: rating, levels: 5", "task: binary, label: clicked", "size: 20000", fmt.Sprint("size: ", 2*n),
			"lambda: auto", "lambda: 3", "max_basis: 4", "max_basis: 1", "fetch_max_wait: 100ms", "fetch_max_wait: 50ms")
	}
	whole := in("whole", "")
	trainer := in("trainer", "role: trainer\nshard: {count: 3, topic: merge}")
	var team []string
	for i := range 3 {
		team = append(team, in(fmt.Sprint("shard", i), fmt.Sprintf("role: shard\nshard: {count: 3, topic: merge, index: %q}",
			fmt.Sprint(i))))
	}
	const group = "role: shard\nshard: {group: held, topic: merge-g}"
	held := in("trainer-g", "role: trainer\nshard: {group: held, topic: merge-g}")
	r := rand.New(rand.NewPCG(1, 1))
	start := int64(1_700_000_000_000)
	step := int64(4*3_600_000) / int64(n) // all of them are within half of the window
	var seen, early, late [][]byte
	for i := range n {
		at := start + int64(i)*step
		seen = append(seen, fmt.Appendf(nil, `{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, r.IntN(30), r.IntN(20), at))
		click := fmt.Appendf(nil, `{"of":"e%d","ts":%d}`, i, at+1000)
		switch r.IntN(10) {
		case 0, 1:
			early = append(early, click)
		case 2, 3, 4:
			late = append(late, click)
		}
	}
	run := func(what string, open int, grouped string) {
		t.Helper()
		one := b.Run(whole)
		if one.Err != nil {
			t.Fatalf("%s: %v", what, one.Err)
		}
		of := one.State(t).Outcomes
		if of.Open != open || of.Joined != n-open {
			t.Fatalf("%s: %+v of one process, want %d open of %d", what, of, open, n)
		}
		for _, path := range append(team, trainer, grouped, held) {
			out := b.Run(path)
			if out.Err != nil {
				t.Fatalf("%s: %s: %v", what, path, out.Err)
			}
			if path != trainer && path != held {
				continue
			}
			compare(t, what+": "+filepath.Base(path), out, one)
			if got := out.State(t).Outcomes; *got != *of {
				t.Errorf("%s: %s has %+v, one process %+v", what, path, got, of)
			}
		}
	}
	b.Produce(seen...)
	b.ProduceTo("clicks", early...)
	run("most are open", n-len(early), in("grouped", group))
	if err := os.RemoveAll(filepath.Join(b.Dir, "state-trainer-g")); err != nil {
		t.Fatal(err)
	}
	b.ProduceTo("clicks", late...)
	run("taken up", n-len(early)-len(late), in("moved", group))
}
