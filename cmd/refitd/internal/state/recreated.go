package state

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// AcceptRecreated continues with a topic that was deleted and made anew. The accounts of the old one are closed, and
// the next run reads the new one from its first records, as another incarnation of the topic. Rows of the old one
// stay in the sample. Partition and To are not used. Exit code 1 if no partition of the topic has halted for that, 5
// if the state is in use, 6 without a state.
func (g *Gap) AcceptRecreated(ctx context.Context, out *report.Emitter) error {
	g.Partition = recreatedPartition
	return withStore(ctx, g.Dir, g.Log, func(store *sketch.Store) error { return g.acceptRecreated(ctx, store, out) })
}

func (g *Gap) acceptRecreated(ctx context.Context, store *sketch.Store, out *report.Emitter) error {
	old, halted := make(map[int32]sketch.LedgerRow), ""
	for _, l := range store.Ledger() {
		if l.Topic == g.Topic {
			old[l.Partition] = l
			if strings.Contains(l.Halted, consumer.MadeAnew) {
				halted = l.Halted
			}
		}
	}
	if len(old) == 0 {
		return &report.ExitError{Code: report.ExitUsage, Key: "--topic", Topic: g.Topic,
			Err: fmt.Errorf("state: the state of model %s has no topic %s: refitd inspect lists those that it has",
				g.Model, g.Topic)}
	}
	if halted == "" {
		return &report.ExitError{Code: report.ExitNo, Topic: g.Topic,
			Err: fmt.Errorf("state: no partition of topic %s has halted because the topic was recreated: "+
				"the records of one that is the same would count twice; refitd inspect shows why it halted, --partition accepts "+
				"a gap", g.Topic)}
	}
	starts, err := g.LogStarts(ctx, g.Topic)
	if err != nil {
		return err
	}
	if len(starts) == 0 {
		return &report.ExitError{Code: report.ExitUsage, Key: "--topic", Topic: g.Topic,
			Err: fmt.Errorf("state: the brokers have no topic %s: create it first", g.Topic)}
	}
	d := decided(time.Now(), "accept-gap", g.Why, "topic %s was made anew with %d partitions; it had halted: %q",
		g.Topic, len(starts), halted)
	if err := d.write(g.Dir); err != nil {
		return err
	}
	if err := g.undoably(store, func() error { return store.RaiseIncarnation(g.Topic, starts) }); err != nil {
		return ingest.StateError(err, g.Dir)
	}
	for _, l := range store.Ledger() {
		if start, ok := starts[l.Partition]; l.Topic == g.Topic && ok {
			line := report.Recreated{
				Model:       g.Model,
				Topic:       l.Topic,
				Partition:   l.Partition,
				Incarnation: l.Incarnation,
				Start:       start,
			}
			if before, ok := old[l.Partition]; ok {
				line.Was = &before.Next
			}
			if err := out.Emit("recreated", line); err != nil {
				return err
			}
		}
	}
	return out.Emit("summary", report.Empty{})
}
