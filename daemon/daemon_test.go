package daemon_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/twmb/franz-go/pkg/kadm"
)

func TestRunUntilEnd(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(1, 6000)
	path := b.Configure("a", "every_events: 0", "every_events: 1500")
	first := b.Run(path)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	state := first.State(t)
	if got := daemontest.Balanced(t, state); got != 6000 || state.Rows.Train+state.Rows.Holdout != 6000 ||
		state.Rows.Holdout < 400 ||
		state.Rows.Holdout > 800 {
		t.Errorf("%d events applied, want 6000; %+v rows, one in ten held out", got, state.Rows)
	}
	for _, p := range state.Partitions {
		if p.Start != 0 || p.Applied != p.Next || p.Rows != p.Applied {
			t.Errorf("partition %d: %+v", p.Partition, p)
		}
	}
	m := first.Summary.Models[0]
	if m.VersionsPromoted < 1 || m.Champion == nil || first.Count("version") != m.VersionsPromoted+m.VersionsKept {
		t.Errorf("%d promoted, %d kept, champion %v, %d printed", m.VersionsPromoted, m.VersionsKept, m.Champion,
			first.Count("version"))
	}
	if last := len(first.Lines) - 1; first.Lines[0]["type"] != "ready" || first.Lines[last]["type"] != "summary" ||
		first.Count("summary") != 1 {
		t.Errorf("lines from %v to %v", first.Lines[0]["type"], first.Lines[last]["type"])
	}
	model, err := snapshot.Open(filepath.Join(b.Dir, "store-a"), "ratings", snapshot.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	if v := model.Manifest().Version; m.Champion == nil || v != *m.Champion {
		t.Errorf("the store's champion is %d, the summary's %v", v, m.Champion)
	}
	held := map[string]bool{}
	for _, p := range model.Manifest().Parts {
		held[p.Name] = p.InVersions
	}
	if mixture, ok := held["stack"]; held["fold_in"] == held["fold_in_gaussian"] || !held["refit"] || !ok ||
		mixture ||
		model.Manifest().Live == nil {
		t.Errorf("the manifest does not say what of the live prediction it holds: live %+v, parts %+v",
			model.Manifest().Live, model.Manifest().Parts)
	}
	in, err := model.Schema().InputFromMap(map[string]any{"user": "u6", "item": "i2"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := model.Predict(&in); err != nil || p.Value < 1 || p.Value > 5 || len(p.Unseen) > 0 {
		t.Errorf("prediction %+v, error %v", p, err)
	}

	// A run that finds nothing new changes nothing.
	again := b.Run(path)
	if again.Err != nil {
		t.Fatal(again.Err)
	}
	if got := again.State(t); !reflect.DeepEqual(got, state) {
		t.Errorf("without a new event\n%+v\nbecame\n%+v", state, got)
	}
	if p, was := again.Summary.Models[0].Progressive, m.Progressive; p.N != 6000 || p.NoModel != was.NoModel ||
		!reflect.DeepEqual(p.All, was.All) {
		t.Errorf("without a new event progressive %+v became %+v", was, p)
	}

	// One that finds some takes the champion up and continues with the sums.
	b.ProduceRatings(2, 500)
	more := b.Run(path)
	if more.Err != nil {
		t.Fatal(more.Err)
	}
	if got := daemontest.Balanced(t, more.State(t)); got != 6500 {
		t.Errorf("%d events applied, want 6500", got)
	}
	if p := more.Summary.Models[0].Progressive; p.N != 6500 || p.NoModel != m.Progressive.NoModel ||
		p.All.Published.N != 6500-p.NoModel ||
		p.All.Live.N != 6500 {
		t.Errorf("progressive %+v after %+v", p, m.Progressive)
	}
	if v := more.Lines[1]; v["type"] != "version" || v["warm"] != true || v["parent"] == nil {
		t.Errorf("the refit after the restart is not warm: %v", v)
	}
}

// TestRestartKeepsTheLiveModel: what was learned before a restart is folded in again from the sample, with a champion
// and without one.
func TestRestartKeepsTheLiveModel(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(10, 5000)
	for name, edit := range map[string]string{"with": "every_events: 0", "without": "every_events: 1000000"} {
		path := b.Configure(name, "every_events: 0", edit)
		if o := b.Run(path); o.Err != nil {
			t.Fatal(o.Err)
		}
		if name == "without" { // as if it had been killed before its first version
			if err := os.RemoveAll(b.Dir + "/store-without"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.ProduceRatings(11, 1000)
	for _, name := range []string{"with", "without"} {
		o := b.Run(b.Configure(name, "every_events: 0", "every_events: 0"))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		// With the champion's basis .44. Without one only biases can be learned: .85 if they are taken up, .88 if they
		// start from nothing.
		limit := map[string]float64{"with": 0.5, "without": 0.865}[name]
		if p := o.Summary.Models[0].Progressive; p.WindowN != 1000 || float64(*p.Window.Live.RMSE) > limit {
			t.Errorf("%s a champion: live rmse %.3f over the %d events after the restart, want at most %g", name,
				*p.Window.Live.RMSE, p.WindowN, limit)
		}
	}
}

// TestFirstPayloadIsReproducible: with no schedule the only refit of an empty state is the last one, and has the same
// bytes each time.
func TestFirstPayloadIsReproducible(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(4, 3000)
	digest := func(name string) any {
		o := b.Run(b.Configure(name))
		if o.Err != nil || o.Count("version") != 1 {
			t.Fatalf("%d versions, error %v", o.Count("version"), o.Err)
		}
		return o.Lines[1]["payload_digest"]
	}
	if one, two := digest("one"), digest("two"); one != two || one == "" {
		t.Errorf("payloads %v and %v", one, two)
	}
}

func TestStateGuards(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(7, 200)
	path := b.Configure("g")
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(t.Context(),
		daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(io.Discard, true), Log: daemontest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if locked := b.Run(path); report.CodeOf(locked.Err) != report.ExitState ||
		!strings.Contains(locked.Err.Error(), "in use by pid") {
		t.Errorf("locked state: %v", locked.Err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if full := b.Run(b.Configure("g", "1MiB", "1024GiB")); report.CodeOf(full.Err) != report.ExitState ||
		!strings.Contains(full.Err.Error(), "storage.min_free_bytes") {
		t.Errorf("too little space: %v", full.Err)
	}
	if other := b.Run(b.Configure("g", "seed: 42", "seed: 43")); report.CodeOf(other.Err) != report.ExitUsage ||
		!strings.Contains(other.Err.Error(), "sample.seed") {
		t.Errorf("another seed: %v", other.Err)
	}
}

// TestGapHaltsItsPartition: retention that passed the ledger stops one partition, in words, run after run; the others
// continue.
func TestGapHaltsItsPartition(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(8, 2000)
	path := b.Configure("r")
	if first := b.Run(path); first.Err != nil {
		t.Fatal(first.Err)
	}
	b.ProduceRatings(9, 2000)
	admin := kadm.NewClient(b.Kafka)
	ends, err := admin.ListEndOffsets(t.Context(), daemontest.Topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(daemontest.Topic, 1)
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: daemontest.Topic, Partition: 1, At: end.Offset - 10})
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o := b.Run(path)
		if e, ok := errors.AsType[*report.ExitError](o.Err); !ok || e.Code != report.ExitHalted ||
			o.Count("halt") != 1 {
			t.Fatalf("%d halts, error %v", o.Count("halt"), o.Err)
		}
		for _, p := range o.State(t).Partitions {
			if p.Partition == 1 {
				if p.Halted == nil || !strings.Contains(*p.Halted, "gap of") {
					t.Errorf("partition 1 is halted by %v", p.Halted)
				}
			} else if p.Halted != nil || p.Applied < 800 {
				t.Errorf("partition %d: %d applied, halted %v", p.Partition, p.Applied, p.Halted)
			}
		}
		daemontest.Balanced(t, o.State(t))
	}
	accepted := b.Run(b.Configure("r", "start: earliest", "start: earliest, on_gap: record"))
	if accepted.Err != nil {
		t.Fatal(accepted.Err)
	}
	for _, p := range accepted.State(t).Partitions {
		if p.Partition == 1 && (p.Gap == 0 || p.Halted != nil || p.Next != end.Offset) {
			t.Errorf("after on_gap: record: %+v", p)
		}
	}
	daemontest.Balanced(t, accepted.State(t))
}

// TestCloseWithoutRun: what New opened is given back without a run, too: the state, the address and every goroutine,
// however often it is closed.
func TestCloseWithoutRun(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(9, 200)
	conf, _, dir := daemontest.Load(t, b.Configure("closed", daemontest.Simple...))
	for range 2 {
		d, err := daemon.New(t.Context(),
			daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: daemontest.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		l, err := net.Listen("tcp", d.Addr())
		if err != nil {
			t.Fatalf("the address is still in use: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		lock, err := sketch.LockDir(dir)
		if err != nil {
			t.Fatalf("the state is still in use: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if o := b.Run(b.Configure("closed", daemontest.Simple...)); o.Err != nil || o.State(t).Partitions[0].Applied == 0 {
		t.Errorf("a run after it: %v", o.Err)
	}
}
