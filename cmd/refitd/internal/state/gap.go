package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
)

// Gap says which offsets of a stopped daemon's state to declare lost.
type Gap struct {
	Dir       string // state directory of the model
	Model     string
	Topic     string
	Partition int32
	Recreated bool // all partitions of a topic that was made anew
	// To is the first offset that is not lost, of a partition that halted and not behind the end of its log; 0 asks
	// LogStarts.
	To int64
	// LogStarts returns the first offset that the brokers hold of each partition of a topic, and LogEnds the one behind
	// the last.
	LogStarts, LogEnds func(ctx context.Context, topic string) (map[int32]int64, error)
	Why                string
	Log                *slog.Logger
}

// Accept declares the offsets from the ledger's next to To lost, so that the next run reads on behind them. Exit code
// 1 if there is no gap, 5 if the state is in use, 6 without a state.
func (g *Gap) Accept(ctx context.Context, out *report.Emitter) error {
	return withStore(ctx, g.Dir, g.Log, func(store *sketch.Store) error { return g.accept(ctx, store, out) })
}

// withStore opens the state in dir for f and closes it again.
func withStore(ctx context.Context, dir string, log *slog.Logger, f func(*sketch.Store) error) (err error) {
	var store *sketch.Store
	if err = statedir.Finish(dir, log); err == nil {
		store, err = sketch.OpenExisting(ctx, dir, log)
	}
	if err != nil {
		return ingest.StateError(err, dir)
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = ingest.StateError(closeErr, dir)
		}
	}()
	return f(store)
}

func (g *Gap) accept(ctx context.Context, store *sketch.Store, out *report.Emitter) error {
	next, ok := store.Position(g.Topic, g.Partition)
	if !ok {
		return &report.ExitError{Code: report.ExitUsage, Key: "--partition", Topic: g.Topic, Partition: &g.Partition,
			Err: fmt.Errorf(
				"state: the state of model %s has no partition %s/%d: refitd inspect lists those that it has", g.Model,
				g.Topic, g.Partition)}
	}
	halted := ""
	for _, l := range store.Ledger() {
		if l.Topic == g.Topic && l.Partition == g.Partition {
			halted = l.Halted
		}
	}
	to, err := g.end(ctx, next, halted)
	if err != nil {
		return err
	}
	if to <= next {
		text := fmt.Sprintf("state: no gap in %s/%d: offset %d is needed next, and the gap would end at %d", g.Topic,
			g.Partition, next, to)
		if halted != "" {
			text += "; it halted for another reason: " + halted
		}
		return &report.ExitError{
			Code:      report.ExitNo,
			Topic:     g.Topic,
			Partition: &g.Partition,
			Offset:    &next,
			Err:       errors.New(text),
		}
	}
	d := decided(time.Now(), "accept-gap", g.Why, "%s/%d: offsets %d to %d declared lost; it had halted: %q", g.Topic,
		g.Partition, next, to-1, halted)
	if err := d.write(g.Dir); err != nil {
		return err
	}
	if err := g.undoably(store, func() error { return store.AcceptHalt(g.Topic, g.Partition, to) }); err != nil {
		return ingest.StateError(err, g.Dir)
	}
	line := report.Gap{Model: g.Model, Topic: g.Topic, Partition: g.Partition, From: next, To: to, Lost: to - next}
	return errors.Join(out.Emit("gap", line), out.Emit("summary", report.Empty{}))
}

// end returns the first offset that is not lost. The error carries its exit code.
func (g *Gap) end(ctx context.Context, next int64, halted string) (int64, error) {
	ask, what := g.LogStarts, "name the end of the gap with --to"
	if g.To != 0 {
		ask, what = g.LogEnds, "create it first"
	}
	if g.To > next && halted == "" {
		return 0, &report.ExitError{
			Code:      report.ExitNo,
			Key:       "--to",
			Topic:     g.Topic,
			Partition: &g.Partition,
			Offset:    &next,
			Err: fmt.Errorf(
				"state: %s/%d has not halted: what it would read next, from offset %d on, is not declared lost; "+
					"without --to a gap at the start of the log is accepted",
				g.Topic,
				g.Partition,
				next,
			),
		}
	}
	if g.To != 0 && g.To <= next {
		return g.To, nil // no gap
	}
	limits, err := ask(ctx, g.Topic)
	if err != nil {
		return 0, err
	}
	limit, ok := limits[g.Partition]
	switch {
	case !ok:
		return 0, report.Exitf(report.ExitUsage, "state: the brokers have no %s/%d: %s", g.Topic, g.Partition, what)
	case g.To == 0:
		return limit, nil
	case g.To > limit:
		return 0, &report.ExitError{
			Code:      report.ExitUsage,
			Key:       "--to",
			Topic:     g.Topic,
			Partition: &g.Partition,
			Offset:    &limit,
			Err: fmt.Errorf(
				"state: --to %d is behind the end of %s/%d, which is %d: records that are still to come are not declared lost",
				g.To,
				g.Topic,
				g.Partition,
				limit,
			),
		}
	}
	return g.To, nil
}
