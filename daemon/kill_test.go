package daemon_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestKilledRunsEndAlike: whenever it is killed while it reads, state and scored events are those of an undisturbed run
// over the same topic, also where it refits and publishes at the same time. Without refits before the end the first
// payload is the same, too.
func TestKilledRunsEndAlike(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	n, kills := tier.Size(15_000, 40_000), tier.Size(2, 5)
	b := daemontest.New(t)
	b.ProduceRatings(3, n)
	quick := append(slices.Clone(derivedFields), daemontest.Simple...) // the refits are not what is tested
	want := b.Run(b.Configure("calm", quick...))
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("kill seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for name, edit := range map[string]string{"quiet": "every_events: 0", "refitting": "every_events: 3000"} {
		t.Run(name, func(t *testing.T) {
			// Small fetches make many transactions, between any two of which a kill may fall.
			path := b.Configure(
				name,
				append(quick, "every_events: 0", edit, "fetch_max_wait: 100ms",
					"fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB")...)
			reading := 0
			for range kills {
				if daemontest.KillAfter(t, path, 1+r.IntN(n/(2*kills))) {
					reading++
				}
			}
			if t.Logf("%d of %d kills while there was more to read", reading, kills); reading == 0 {
				t.Error("no kill came in time: produce more events")
			}
			got := endsAlike(t, path, &want, n)
			if a, b := payloads(&got), payloads(&want); name == "quiet" && !reflect.DeepEqual(a, b) {
				t.Errorf("payloads %v, undisturbed %v", a, b)
			}
		})
	}
}

// TestKilledRunsOfEveryAlgorithm: the same for refits by each algorithm, warm from what the killed process had kept,
// and for degree 3; and what was published before and after the kill is reproduced to the byte.
func TestKilledRunsOfEveryAlgorithm(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	n, every := tier.Size(1200, 4000), tier.Size("every_events: 400", "every_events: 1000")
	b := daemontest.New(t)
	b.ProduceRatings(5, n)
	for name, edits := range map[string][]string{
		"default":    {"every_events: 0", every},
		"convex-fm":  {"every_events: 0", every + ", algorithm: convex_fm"},
		"coordinate": {"every_events: 0", every + ", algorithm: coordinate_descent"},
		"svm": {"every_events: 0, max_basis: 4", every + ", algorithm: frank_wolfe_svm", "task: ordinal",
			"task: multiclass", "levels: 5",
			`classes: ["1", "2", "3", "4", "5"]`},
		"degree-3": {"every_events: 0", every + ", degree: 3, kernel: homogeneous"},
	} {
		t.Run(name, func(t *testing.T) {
			edits = append(slices.Clone(edits), "update_every: 0s", "update_every: 0s, keep_sample: true")
			want := b.Run(b.Configure(name+"-calm", edits...))
			if want.Err != nil {
				t.Fatal(want.Err)
			}
			path := b.Configure(
				name,
				append(edits, "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB")...)
			if !daemontest.KillAfter(t, path, n/2) {
				t.Log("the kill came late: nothing was left to read")
			}
			got := endsAlike(t, path, &want, n)
			if len(payloads(&got)) == 0 || got.Summary.Models[0].Champion == nil {
				t.Error("no version")
			}
			reproduced(t, filepath.Join(b.Dir, "store-"+name))
		})
	}
}

// reproduced repeats every refit in a store from its kept sample.
func reproduced(t *testing.T, store string) {
	t.Helper()
	list, err := publish.NewStore(store).Versions("ratings")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d versions: %v", len(list), err)
	}
	for _, v := range list {
		m, err := snapshot.Open(store, "ratings", snapshot.Selector{Version: v})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := reproduce.Version(t.Context(), store, m, 1); err != nil || out.Got != out.Want {
			t.Errorf("version %d: %+v, %v", v, out, err)
		}
	}
}

// TestKilledRunsOfChoices: the state knows choices alone, and the negatives that a refit adds are drawn anew after
// each kill. They are those of an undisturbed run, row by row, and so is the version.
func TestKilledRunsOfChoices(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	n, kills := tier.Size(5_000, 40_000), tier.Size(2, 5)
	b := daemontest.New(t)
	b.ProduceRatings(7, n) // whatever their level, users chose items
	edits := append([]string{"task: ordinal, label: rating, levels: 5", "task: implicit",
		"start: earliest", "start: earliest, negatives: {of: item, per_event: 3}"}, daemontest.Simple...)
	calm := b.Configure("chosen-calm", edits...)
	want := b.Run(calm)
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	rows := sampleOf(t, calm)
	if negatives := len(rows.Train) - int(want.State(t).Rows.Train); negatives < 2*int(want.State(t).Rows.Train) {
		t.Fatalf("%d negatives of %d choices", negatives, want.State(t).Rows.Train)
	}
	for name, edit := range map[string]string{"quiet": "every_events: 0", "refitting": tier.Size("every_events: 1500",
		"every_events: 3000")} {
		path := b.Configure(
			"chosen-"+name,
			append(slices.Clone(edits), "every_events: 0", edit, "fetch_max_wait: 100ms",
				"fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB")...)
		reading := 0
		for range kills {
			if daemontest.KillAfter(t, path, n/(2*kills)) {
				reading++
			}
		}
		if t.Logf("%s: %d of %d kills while there was more to read", name, reading, kills); reading == 0 {
			t.Error("no kill came in time: produce more events")
		}
		cmd, stderr := daemontest.ChildOf(t, path)
		out, err := cmd.Output()
		exit, ended := errors.AsType[*exec.ExitError](err)
		untrained := ended && exit.ExitCode() == report.ExitNo &&
			name == "refitting" // refits are off for a while after two deaths in them
		if err != nil && !untrained {
			t.Fatalf("%v\n%s", err, stderr)
		}
		got := daemontest.Parse(t, out, nil)
		if a, b := got.State(t), want.State(t); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: after kills\n%+v\nundisturbed\n%+v", name, a, b)
		}
		if !reflect.DeepEqual(sampleOf(t, path), rows) {
			t.Errorf("%s: other negatives after kills", name)
		}
		if a, b := payloads(&got), payloads(&want); len(b) == 0 || name == "quiet" && !reflect.DeepEqual(a, b) {
			t.Errorf("%s: payloads %v, undisturbed %v", name, a, b)
		}
		if p := got.Summary.Models[0].Progressive; p.N < int64(n) { // and the negatives that were drawn as events came
			t.Errorf("%s: %d events scored, %d came", name, p.N, n)
		}
	}
}

// sampleOf returns what a refit of the state of a configuration would learn from, without what differs between two
// copies.
func sampleOf(t *testing.T, path string) *encode.Sample {
	t.Helper()
	_, m, dir := daemontest.Load(t, path)
	store, err := sketch.OpenExisting(t.Context(), dir, daemontest.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	sample, err := ingest.TakeSample(m, store, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	sample.Lineage = ""
	return sample
}

// endsAlike runs a configuration to the log ends after kills and compares state and scored events with those of an
// undisturbed run over n events.
func endsAlike(t *testing.T, path string, want *daemontest.Outcome, n int) daemontest.Outcome {
	t.Helper()
	cmd, stderr := daemontest.ChildOf(t, path)
	out, err := cmd.Output()
	// Two kills during refits switch training off, and a run without a refit says so by its code.
	if err != nil && !strings.Contains(fmt.Sprint(stderr), "training disabled") {
		t.Fatalf("%v\n%s", err, stderr)
	}
	got := daemontest.Parse(t, out, nil)
	if a, b := got.State(t), want.State(t); !reflect.DeepEqual(a, b) {
		t.Errorf("after kills\n%+v\nundisturbed\n%+v", a, b)
	}
	if got := daemontest.Balanced(t, got.State(t)); got != int64(n) {
		t.Errorf("%d events applied, want %d", got, n)
	}
	if p := got.Summary.Models[0].Progressive; p.N != int64(n) {
		t.Errorf("%d events scored, want %d", p.N, n)
	}
	return got
}

// payloads returns the payload digests of the versions in order.
func payloads(o *daemontest.Outcome) (digests []any) {
	for _, l := range o.Lines {
		if l["type"] == "version" {
			digests = append(digests, l["payload_digest"])
		}
	}
	return digests
}

// TestKilledRunsOfTables: a table that comes late, after kills while events were read, and one that was there from the
// beginning leave the same state, rows of the table included, and the same version, which its record gives again.
func TestKilledRunsOfTables(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	n := tier.Size(4000, 20_000)
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "items", 2, 0); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(9, n)
	edits := append(slices.Clone(tables), "update_every: 0s", "update_every: 0s, keep_sample: true")
	slow := append(slices.Clone(edits), "fetch_max_wait: 100ms",
		"fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB")
	late, killed := b.Configure("tables-late", slow...), b.Configure("tables-killed", slow...)
	if !daemontest.KillAfter(t, late, n/8) {
		t.Skip("the first kill came late: a version was made without the table")
	}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			value := fmt.Appendf(nil, `{"genre":"g%d","in_stock":%t,"price":%d}`, i%7, i%2 == 0, i%50)
			switch i % 9 {
			case 7:
				value = nil
			case 8:
				value = []byte(`{"genre":[]}`)
			}
			putItem(b, fmt.Sprint("i", i*7%60), value)
		}
	}
	put(0, 150)
	for range tier.Size(1, 4) {
		daemontest.KillAfter(t, killed, n/8)
		daemontest.KillAfter(t, late, n/8)
	}
	put(150, 300)
	calm := b.Configure("tables-calm", edits...)
	want := b.Run(calm)
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	set := sampleOf(t, calm).Tables()
	rows := set.AppendRecord(nil)
	if n, _ := set.Count(0); n < 30 {
		t.Fatalf("%d rows", n)
	}
	for _, path := range []string{late, killed} {
		got := b.Run(path)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if a, b := got.State(t), want.State(t); !reflect.DeepEqual(a, b) {
			t.Errorf("%s\n%+v, undisturbed\n%+v", path, a, b)
		}
		if a, b := payloads(&got), payloads(&want); len(b) != 1 || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: payloads %v, undisturbed %v", path, a, b)
		}
		if !slices.Equal(sampleOf(t, path).Tables().AppendRecord(nil), rows) {
			t.Errorf("%s: other rows of the table", path)
		}
	}
	reproduced(t, filepath.Join(b.Dir, "store-tables-late"))
}
