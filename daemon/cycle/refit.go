package cycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// coldStart returns whether the next refit starts from nothing. c.mu is held.
func (c *Cycle) nextStart() task.ColdStart {
	switch {
	case c.Cold:
		return task.ColdStart{Begins: true}
	case c.lineage.rejections == gate.ColdAfter:
		return task.ColdStart{Begins: true, Why: fmt.Sprintf("after %d rejections in a row", gate.ColdAfter)}
	case c.champion == nil:
		return task.ColdStart{}
	case c.lineage.failedFrom == c.champion.Model:
		return task.ColdStart{
			Begins: true,
			Why:    fmt.Sprintf("because a refit that continued from version %d failed", c.champion.Version.Version),
		}
	}
	why := refit.Unfit(c.champion, c.config)
	return task.ColdStart{Begins: why != "", Why: why}
}

// failed notes that a refit that continued from a champion failed: the next one from that champion starts from nothing.
func (l *lineage) failed(from *fitted.Fitted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failedFrom = from.Model
}

// StartsCold reports whether the next refit starts from nothing because one that continued from the champion failed.
func (l *lineage) StartsCold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.champion != nil && l.failedFrom == l.champion.Model
}

// Refit trains a challenger on a sample: Algorithm 1, warm from the live model mapped by name onto the sample's
// vocabulary, then, where the model is multilinear, the variational stage; the stage that scores better on the select
// rows wins. It compares the challenger with the champion on the gate rows and writes the decision into the Version,
// but installs nothing. It may run concurrently with Observe. It takes the sample's training rows: once they are
// decoded, the sample has them no more.
//
// When the time budget or ctx ends, the best model so far is returned with status time_budget or interrupted; without
// any model the error is that of such a context.
func (c *Cycle) Refit(ctx context.Context, sample *encode.Sample) (*fitted.Fitted, error) {
	start := c.now()
	c.mu.Lock()
	j := &task.Task{
		Rough:   true,
		Carries: true,
		Model:   c.config,
		Schema:  &c.schema,
		Start: task.Start{
			Champion:   c.champion,
			Fallback:   c.lineage.fallback,
			Updated:    c.publisher.published.Load() != nil && c.publisher.published.Load().IsUpdate(),
			Cold:       c.nextStart(),
			Rejections: c.lineage.rejections,
		},
		Process: task.Process{Workers: c.Workers, Now: c.now, Budget: new(task.Budget)},
		Guard:   &c.publisher.guard,
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: sample,
		},
		Criteria: task.Criteria{
			Paired: c.progress.progressive.Paired(evaluate.FoldIn, evaluate.Published),
		},
	}
	if j.Criteria.AlarmAge = math.Inf(1); c.watch.drift.Alarm > 0 {
		j.Criteria.AlarmAge = float64(c.watch.drift.Events - c.watch.drift.Alarm)
	}
	floods := c.ensemble.cap.Floods()
	c.mu.Unlock()
	if floods != nil && sample.Outcomes() == nil {
		copies := floods.Find(sample.Train, sample.Select, sample.Gate)
		sample.LeaveOut(copies[0], copies[1], copies[2])
	}
	budget := time.Duration(j.Model.Train.TimeBudget)
	if budget > 0 {
		j.Budget.Deadline = time.Now().Add(budget)
	}
	if c.Throttle != nil {
		j.Yield = c.Throttle(ctx, budget)
	}
	rows := len(sample.Train)
	if rows == 0 {
		return nil, encode.ErrNoRows
	}
	weighOpen(sample, j.Champion)
	challenger, err := runFrom(ctx, j, c)
	if err != nil {
		return nil, fmt.Errorf("%w (%d rows to train on, %d to select on, %d for the gate)", err, rows,
			len(sample.Select), len(sample.Gate))
	}
	challenger.Version.OutputLimit = guard.OutputLimit(challenger, sample.Gate, sample.Select)
	c.mu.Lock()
	c.ensemble.noteLive(challenger)
	c.mu.Unlock()
	c.lineage.judged(challenger.Cause)
	challenger.Version.TrainSeconds = report.Number(c.now().Sub(start).Seconds())
	return challenger, nil
}

// runFrom is run for a refit of a cycle, which notes a failure of one that continued from the champion, and a panic of
// it.
func runFrom(ctx context.Context, j *task.Task, c *Cycle) (ch *fitted.Fitted, err error) {
	ended := false
	defer func() {
		if failed := !ended || err != nil && !task.IsInterrupted(err) && !errors.Is(err, encode.ErrNoRows); failed &&
			j.Champion != nil &&
			!j.Cold.Begins {
			c.lineage.failed(j.Champion)
		}
	}()
	ch, err = refit.Run(ctx, j)
	ended = true
	return ch, err
}

// weighOpen has the rows of a sample whose label is not final count by the probability that an outcome would have come.
// How probable an outcome is at all the champion says, where its outputs are probabilities of one: so each refit
// corrects the next, as the steps of Chapelle's EM do. Before there is a champion, and for other tasks, it is the share
// of all events.
func weighOpen(s *encode.Sample, ch *fitted.Fitted) {
	if ch == nil || !s.HasOpen() || ch.Target.Link != format.Logistic || ch.Target.Outputs() != 1 {
		s.WeighOpen(nil)
		return
	}
	var ev event.Event
	names, output := make(rows.Interner), make([]float64, 1)
	work := make([]float64, 2*ch.Model.NumBasis)
	var index []int32
	var value, phi []float64
	s.WeighOpen(func(payload []byte) float64 {
		if rows.DecodeEvent(&ev, payload, names) != nil {
			return 0 // the refit finds it, too
		}
		s.Tables().Join(&ev)
		index, value = ch.Vocabulary.Encode(index[:0], value[:0], &ev)
		ch.Model.Predict(output, work, index, value)
		phi = ch.Vocabulary.AddMapped(output, ch.Model, ev.Numeric, phi)
		return 1 / (1 + math.Exp(-output[0]))
	})
}
