package state_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// operated is a model whose partitions 1 and 2 have halted before a gap.
type operated struct {
	*daemontest.Bench
	path, dir string
	gap       state.Gap
	said      bytes.Buffer
	ends      []int64 // of the logs
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{Bench: daemontest.New(t)}
	o.ProduceRatings(71, 1000)
	o.path = o.Configure("operated", daemontest.Simple...)
	if first := o.Run(o.path); first.Err != nil {
		t.Fatal(first.Err)
	}
	o.ProduceRatings(72, 1000)
	_, o.ends = daemontest.LogRange(t, daemontest.Client(t, o.Addr), daemontest.Topic, 4)
	cut := kadm.Offsets{}
	for _, partition := range []int32{1, 2} {
		cut.Add(kadm.Offset{Topic: daemontest.Topic, Partition: partition, At: o.ends[partition] - 10})
	}
	if _, err := kadm.NewClient(o.Kafka).DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if halted := o.Run(o.path); report.CodeOf(halted.Err) != report.ExitHalted {
		t.Fatal(halted.Err)
	}
	conf, model, dir := daemontest.Load(t, o.path)
	o.dir = dir
	o.gap = state.Gap{Dir: dir, Model: model.Name, Topic: daemontest.Topic, Why: "test", Log: daemontest.Quiet(),
		LogStarts: state.LogStarts(conf, model,
			daemontest.Quiet()), LogEnds: state.LogEnds(conf, model, daemontest.Quiet())}
	return o
}

// accept declares a gap of a partition up to an offset, 0 for the start of the log.
func (o *operated) accept(partition int32, to int64) error {
	g := o.gap
	g.Partition, g.To = partition, to
	return g.Accept(o.T.Context(), report.NewEmitter(&o.said, true))
}

func (o *operated) undo(partition int32) error {
	g := o.gap
	g.Partition = partition
	return g.Undo(o.T.Context(), report.NewEmitter(&o.said, true))
}

// stored is all that the state says of itself.
func (o *operated) stored() *sketch.State {
	o.T.Helper()
	store, err := sketch.OpenExisting(o.T.Context(), o.dir, daemontest.Quiet())
	if err != nil {
		o.T.Fatal(err)
	}
	s, err := store.State()
	if closeErr := store.Close(); err != nil || closeErr != nil {
		o.T.Fatal(err, closeErr)
	}
	return s
}

// refused checks that a verb ended with an exit code and a text, and that the state is what it was.
func (o *operated) refused(what string, err error, code int, text string, before *sketch.State) {
	o.T.Helper()
	if report.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		o.T.Errorf("%s: exit code %d, %v, want %d and %q", what, report.CodeOf(err), err, code, text)
	}
	if !reflect.DeepEqual(o.stored(), before) {
		o.T.Errorf("%s: the state has changed", what)
	}
}

// TestAcceptTooMuch (J16): records that are still to come, and those of a partition that did not halt, are not declared
// lost.
func TestAcceptTooMuch(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	o.ProduceRatings(73, 400)
	_, o.ends = daemontest.LogRange(t, daemontest.Client(t, o.Addr), daemontest.Topic, 4)
	before := o.stored()
	o.refused("behind the end", o.accept(1, o.ends[1]+1), report.ExitUsage,
		fmt.Sprintf("behind the end of ratings/1, which is %d", o.ends[1]), before)
	o.refused("far behind it", o.accept(1, 1<<50), report.ExitUsage, "behind the end", before)
	o.refused("a partition that reads on", o.accept(0, o.ends[0]), report.ExitNo, "has not halted", before)
	o.refused("the same far behind its end", o.accept(0, 1<<50), report.ExitNo, "has not halted", before)
	o.refused("one that reads on, without --to", o.accept(0, 0), report.ExitNo, "no gap", before)
	if err := o.accept(1, o.ends[1]); err != nil {
		t.Errorf("to the end: %v", err)
	}
}

// TestUndo (J16): an acceptance is taken back, to the same state, until the next start; the partition then halts as
// before.
func TestUndo(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	before := o.stored()
	o.refused("nothing to undo", o.undo(1), report.ExitNo, "nothing to undo", before)
	for _, order := range [][]int32{{1, 2}, {2, 1}} {
		for _, partition := range []int32{1, 2} {
			if err := o.accept(partition, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, partition := range order {
			if err := o.undo(partition); err != nil {
				t.Fatal(err)
			}
		}
		o.refused("undone again", o.undo(order[0]), report.ExitNo, "nothing to undo", before)
	}
	next := before.Partitions[1].Next
	want := fmt.Sprintf(`{"type":"undone","model":"ratings","topic":"ratings","partition":1,"next":%d,"halted":"`, next)
	if !strings.Contains(o.said.String(), want) {
		t.Errorf("said %s, want %s", &o.said, want)
	}
	if halted := o.Run(o.path); report.CodeOf(halted.Err) != report.ExitHalted || halted.Count("halt") != 2 {
		t.Errorf("after all was undone: %v, %d halts", halted.Err, halted.Count("halt"))
	}

	// Two of one partition, in the reverse order.
	before = o.stored()
	if err := o.accept(1, next+1); err != nil {
		t.Fatal(err)
	}
	if halted := o.stored().Partitions[1].Halted; halted != "" {
		t.Errorf("halted after it was accepted: %s", halted)
	}
	once := o.stored()
	if err := o.accept(1, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []*sketch.State{once, before} {
		if err := o.undo(1); err != nil || !reflect.DeepEqual(o.stored(), want) {
			t.Errorf("%v, state\n%+v, want\n%+v", err, o.stored(), want)
		}
	}
	for _, partition := range []int32{1, 2} {
		if err := o.accept(partition, 0); err != nil {
			t.Fatal(err)
		}
	}
	if run := o.Run(o.path); run.Err != nil {
		t.Fatal(run.Err)
	}
	o.refused("after a start", o.undo(1), report.ExitNo, "nothing to undo", o.stored())
}

// TestUndoRecreated (J16): the acceptance of a topic that was made anew is taken back, too, and is in the way of what
// was accepted before it.
func TestUndoRecreated(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	before := o.stored()
	if err := o.accept(1, 0); err != nil {
		t.Fatal(err)
	}
	once := o.stored()
	admin := kadm.NewClient(o.Kafka)
	if _, err := admin.DeleteTopic(t.Context(), daemontest.Topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 6, 1, nil, daemontest.Topic); err != nil {
		t.Fatal(err)
	}
	store, err := sketch.OpenExisting(t.Context(), o.dir, daemontest.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	// What the daemon would find, without a start that makes the first acceptance final.
	if err := store.Halt(daemontest.Topic, 0, "log end 0 is below our position: the topic was made anew"); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	halted := o.stored()
	g := o.gap
	g.Recreated = true
	out := report.NewEmitter(&o.said, true)
	if err := g.AcceptRecreated(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	accepted := o.stored()
	if len(accepted.Partitions) != 6 || len(accepted.Archived) != 4 {
		t.Fatalf("accepted: %+v", accepted)
	}
	o.refused("the gap of the old topic", o.undo(1), report.ExitNo, "state has changed since", accepted)
	if err := g.Undo(t.Context(), out); err != nil || !reflect.DeepEqual(o.stored(), halted) {
		t.Fatalf("%v, state\n%+v, want\n%+v", err, o.stored(), halted)
	}
	if err := o.undo(1); err != nil {
		t.Fatal(err)
	}
	got := o.stored()
	got.Partitions[0].Halted = ""
	if reflect.DeepEqual(once, before) || !reflect.DeepEqual(got, before) {
		t.Errorf("state\n%+v, want\n%+v", got, before)
	}
}
