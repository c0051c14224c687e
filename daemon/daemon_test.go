package daemon_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// balanced checks the accounting identity of every partition and returns the sum of applied.
func balanced(t *testing.T, s report.State) (applied int64) {
	t.Helper()
	for _, p := range s.Partitions {
		if p.Applied+p.Rejected+p.Control+p.Aborted+p.Holes+p.Gap != p.Next-p.Start {
			t.Errorf("partition %d does not add up: %+v", p.Partition, p)
		}
		applied += p.Applied
	}
	return applied
}

func TestRunUntilEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(1, 6000)
	path := b.configure("a", "every_events: 0", "every_events: 1500")
	first := b.run(path)
	if first.err != nil {
		t.Fatal(first.err)
	}
	state := first.state(t)
	if got := balanced(t, state); got != 6000 || state.Rows.Train+state.Rows.Holdout != 6000 || state.Rows.Holdout < 400 || state.Rows.Holdout > 800 {
		t.Errorf("%d events applied, want 6000; %+v rows, one in ten held out", got, state.Rows)
	}
	for _, p := range state.Partitions {
		if p.Start != 0 || p.Applied != p.Next || p.Rows != p.Applied {
			t.Errorf("partition %d: %+v", p.Partition, p)
		}
	}
	m := first.summary.Models[0]
	if m.VersionsPromoted < 1 || m.Champion == nil || first.count("version") != m.VersionsPromoted+m.VersionsKept {
		t.Errorf("%d promoted, %d kept, champion %v, %d printed", m.VersionsPromoted, m.VersionsKept, m.Champion, first.count("version"))
	}
	if last := len(first.lines) - 1; first.lines[0]["type"] != "ready" || first.lines[last]["type"] != "summary" || first.count("summary") != 1 {
		t.Errorf("lines from %v to %v", first.lines[0]["type"], first.lines[last]["type"])
	}
	model, err := snapshot.Open(filepath.Join(b.dir, "store-a"), "ratings", snapshot.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	if v := model.Manifest().Version; m.Champion == nil || v != *m.Champion {
		t.Errorf("the store's champion is %d, the summary's %v", v, m.Champion)
	}
	in, err := model.Schema().InputFromMap(map[string]any{"user": "u6", "item": "i2"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := model.Predict(&in); err != nil || p.Value < 1 || p.Value > 5 || len(p.Unseen) > 0 {
		t.Errorf("prediction %+v, error %v", p, err)
	}

	// A run that finds nothing new changes nothing.
	again := b.run(path)
	if again.err != nil {
		t.Fatal(again.err)
	}
	if got := again.state(t); !reflect.DeepEqual(got, state) {
		t.Errorf("without a new event\n%+v\nbecame\n%+v", state, got)
	}
	if p, was := again.summary.Models[0].Progressive, m.Progressive; p.N != 6000 || p.NoModel != was.NoModel || !reflect.DeepEqual(p.All, was.All) {
		t.Errorf("without a new event progressive %+v became %+v", was, p)
	}

	// One that finds some takes the champion up and goes on with the sums.
	b.produceRatings(2, 500)
	more := b.run(path)
	if more.err != nil {
		t.Fatal(more.err)
	}
	if got := balanced(t, more.state(t)); got != 6500 {
		t.Errorf("%d events applied, want 6500", got)
	}
	if p := more.summary.Models[0].Progressive; p.N != 6500 || p.NoModel != m.Progressive.NoModel || p.All.Published.N != 6500-p.NoModel || p.All.Live.N != 6500 {
		t.Errorf("progressive %+v after %+v", p, m.Progressive)
	}
	if v := more.lines[1]; v["type"] != "version" || v["warm"] != true || v["parent"] == nil {
		t.Errorf("the refit after the restart is not warm: %v", v)
	}
}

// TestRestartKeepsTheLiveModel: what was learned before a restart is folded in again from the sample, with a champion and without one.
func TestRestartKeepsTheLiveModel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(10, 5000)
	for name, edit := range map[string]string{"with": "every_events: 0", "without": "every_events: 1000000"} {
		path := b.configure(name, "every_events: 0", edit)
		if o := b.run(path); o.err != nil {
			t.Fatal(o.err)
		}
		if name == "without" { // as if it had been killed before its first version
			if err := os.RemoveAll(b.dir + "/store-without"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.produceRatings(11, 1000)
	for _, name := range []string{"with", "without"} {
		o := b.run(b.configure(name, "every_events: 0", "every_events: 0"))
		if o.err != nil {
			t.Fatal(o.err)
		}
		// With the champion's basis .44. Without one only biases can be learned: .85 if they are taken up, .88 if they start from nothing.
		limit := map[string]float64{"with": 0.5, "without": 0.865}[name]
		if p := o.summary.Models[0].Progressive; p.WindowN != 1000 || float64(*p.Window.Live.RMSE) > limit {
			t.Errorf("%s a champion: live rmse %.3f over the %d events after the restart, want at most %g", name, *p.Window.Live.RMSE, p.WindowN, limit)
		}
	}
}

// TestFirstPayloadIsReproducible: with no schedule the only refit of an empty state is the last one, and has the same bytes each time.
func TestFirstPayloadIsReproducible(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(4, 3000)
	digest := func(name string) any {
		o := b.run(b.configure(name))
		if o.err != nil || o.count("version") != 1 {
			t.Fatalf("%d versions, error %v", o.count("version"), o.err)
		}
		return o.lines[1]["payload_digest"]
	}
	if one, two := digest("one"), digest("two"); one != two || one == "" {
		t.Errorf("payloads %v and %v", one, two)
	}
}

func TestStateGuards(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(7, 200)
	path := b.configure("g")
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(t.Context(), daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(io.Discard, true), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if locked := b.run(path); report.CodeOf(locked.err) != report.ExitState || !strings.Contains(locked.err.Error(), "in use by pid") {
		t.Errorf("locked state: %v", locked.err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if full := b.run(b.configure("g", "1MiB", "1024GiB")); report.CodeOf(full.err) != report.ExitState || !strings.Contains(full.err.Error(), "storage.min_free_bytes") {
		t.Errorf("too little space: %v", full.err)
	}
	if other := b.run(b.configure("g", "seed: 42", "seed: 43")); report.CodeOf(other.err) != report.ExitUsage || !strings.Contains(other.err.Error(), "sample.seed") {
		t.Errorf("another seed: %v", other.err)
	}
}

// TestGapHaltsItsPartition: retention that passed the ledger stops one partition, in words, run after run; the others go on.
func TestGapHaltsItsPartition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(8, 2000)
	path := b.configure("r")
	if first := b.run(path); first.err != nil {
		t.Fatal(first.err)
	}
	b.produceRatings(9, 2000)
	admin := kadm.NewClient(b.kafka)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 1)
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: topic, Partition: 1, At: end.Offset - 10})
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o := b.run(path)
		if e, ok := errors.AsType[*report.ExitError](o.err); !ok || e.Code != report.ExitHalted || o.count("halt") != 1 {
			t.Fatalf("%d halts, error %v", o.count("halt"), o.err)
		}
		for _, p := range o.state(t).Partitions {
			if p.Partition == 1 {
				if p.Halted == nil || !strings.Contains(*p.Halted, "gap of") {
					t.Errorf("partition 1 is halted by %v", p.Halted)
				}
			} else if p.Halted != nil || p.Applied < 800 {
				t.Errorf("partition %d: %d applied, halted %v", p.Partition, p.Applied, p.Halted)
			}
		}
		balanced(t, o.state(t))
	}
	accepted := b.run(b.configure("r", "start: earliest", "start: earliest, on_gap: record"))
	if accepted.err != nil {
		t.Fatal(accepted.err)
	}
	for _, p := range accepted.state(t).Partitions {
		if p.Partition == 1 && (p.Gap == 0 || p.Halted != nil || p.Next != end.Offset) {
			t.Errorf("after on_gap: record: %+v", p)
		}
	}
	balanced(t, accepted.state(t))
}
