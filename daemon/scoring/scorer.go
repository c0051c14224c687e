// Package scoring scores the events of Kafka topics with the version that consumers have, and writes an answer for each
// offset to a topic (score.topic), in the order of its partition. Where the brokers have transactions, answers and the
// offsets of the group are written in one, so that each offset is answered exactly once whatever dies when; else an
// offset may be answered again after a failure. The topic is also the log of predictions with
// which labels are joined that come later.
package scoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	lookEvery   = 250 * time.Millisecond // for a version, until there is one
	pollTimeout = time.Second            // of one wait for events, so that the end of trouble is seen without events
	lagEvery    = 5 * time.Second        // between two looks at ends and offsets
	minBackoff  = 200 * time.Millisecond
	maxBackoff  = 30 * time.Second
	// for the answers in hand when the daemon stops; without them the next start answers those offsets
	grace      = 5 * time.Second
	maxRecords = 2000     // of one transaction
	maxBytes   = 16 << 20 // of the answers of one transaction, about
)

// Options of a Scorer. All are required.
type Options struct {
	Kafka    *config.Kafka
	Settings *config.Model // with a score.topic
	Group    string        // consumer group that keeps what is answered
	// Member is a name that no other process of the group has, and that stays when this one is started again: the
	// brokers then know that what it left unfinished can end, and do not wait for a time-out.
	Member  string
	Metrics *Metrics
	Log     *slog.Logger
}

// Scorer answers the events for one model. Make it with New, call Run once; its other methods are safe for concurrent
// use.
type Scorer struct {
	Options
	connect []kgo.Opt
	inexact bool // transactions were refused: of the goroutine of Run

	answered  atomic.Int64
	rejected  atomic.Int64
	lag       atomic.Int64
	guarantee atomic.Pointer[string]
	waiting   atomic.Pointer[string] // why nothing is scored although nothing failed, nil if there is no such reason
	trouble   atomic.Pointer[string] // why the last attempt to answer failed, nil if it did not
	unseen    atomic.Pointer[string] // why the lag is not known, nil if it is
}

// New returns a scorer, which connects when it runs. The error is one of the configuration, with its exit code.
func New(o Options) (*Scorer, error) {
	connect, err := cluster.ClientOptions(o.Kafka)
	if err != nil {
		return nil, err
	}
	o.Metrics.add(o.Settings.Name)
	s := &Scorer{Options: o, connect: connect}
	s.lag.Store(-1)
	return s, nil
}

// Run answers events until ctx is done; answers in hand are then written within a few seconds, or are left to the next
// start. champion returns what scores with the version that consumers have, as web.Server.Champion does. Failures are
// logged, counted and tried again.
func (s *Scorer) Run(ctx context.Context, champion func(last *web.Champion) *web.Champion) {
	working, stop := context.WithCancel(
		context.WithoutCancel(ctx),
	) // a transaction under way ends with an answer, if one comes soon
	defer stop()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(grace, stop)
		context.AfterFunc(working, func() { late.Stop() })
	})()
	for failures := 0; ctx.Err() == nil; {
		before := s.answered.Load()
		err := s.session(ctx, working, champion)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if s.answered.Load() > before {
			failures = 0
		}
		failures++
		pause := backoff.Wait(failures, minBackoff, maxBackoff)
		s.fail(err, pause)
		_ = backoff.Sleep(ctx, pause) // the end is looked for above
	}
}

// session answers events with one client until something fails or ctx is done. What was read and not answered is read
// again by the next one.
func (s *Scorer) session(ctx, working context.Context, champion func(last *web.Champion) *web.Champion) (err error) {
	a := &answerer{propensity: s.Settings.Score.Propensity}
	if a.champion = s.await(ctx, nil, champion); a.champion == nil {
		return nil
	}
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	watched, unwatch := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watchLag(watched, t.client())
	}()
	defer func() {
		unwatch()
		<-done
		t.close()
	}()
	next := make(map[string]map[int32]int64) // offset after the last one read, by topic and partition
	for {
		if a.champion = s.await(ctx, a.champion, champion); a.champion == nil {
			return nil
		}
		waiting, stop := context.WithTimeout(ctx, pollTimeout)
		most := min(maxRecords, max(1, maxBytes/int(a.champion.PredictionBytes())))
		fetches := t.poll(waiting, most)
		stop()
		if ctx.Err() != nil {
			return nil
		}
		s.look(fetches, next, t.client().CommittedOffsets())
		failed := s.failedFetch(fetches)
		if _, group := errors.AsType[*kgo.ErrGroupSession](failed); group || errors.Is(failed, kgo.ErrClientClosed) {
			return failed
		}
		if err := s.answer(working, t, a, fetches); err != nil {
			return err
		}
		if failed != nil {
			s.fail(failed, pollTimeout)
			_ = backoff.Sleep(ctx, pollTimeout) // the end is looked for above
			continue
		}
		s.clear()
	}
}

// await returns what scores now, and waits while there is nothing, nil if ctx is done.
func (s *Scorer) await(ctx context.Context, last *web.Champion,
	champion func(last *web.Champion) *web.Champion) *web.Champion {
	for ctx.Err() == nil {
		if now := champion(last); now != nil {
			if s.waiting.Swap(nil) != nil {
				s.Log.Info("scoring begins", "topic", s.Settings.Score.Topic, "version", now.Answered().Version)
			}
			return now
		}
		text := "waits for a version that consumers may use"
		if s.waiting.Swap(&text) == nil {
			s.Log.Info("scoring waits for a version", "topic", s.Settings.Score.Topic)
		}
		_ = backoff.Sleep(ctx, lookEvery) // the end is looked for above
	}
	return nil
}

// answer writes the answers for what was read, all of them together with the offsets. That none were written because
// partitions went to another member is no error: they are read again by the member that has them.
func (s *Scorer) answer(ctx context.Context, t transport, a *answerer, fetches kgo.Fetches) error {
	if fetches.NumRecords() == 0 {
		t.rest()
		return nil
	}
	partitions := int32(t.partitions())
	var answers []*kgo.Record
	scored, rejected := 0, 0
	for r := range fetches.RecordsAll() {
		if r.Attrs.IsControl() { // a marker of a transaction is no record, but its offset is behind us
			continue
		}
		value, ok, err := a.answer(r)
		if err != nil {
			return fmt.Errorf("scoring: topic %s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if ok {
			scored++
		} else {
			rejected++
		}
		answers = append(answers,
			&kgo.Record{Topic: s.Settings.Score.Topic, Partition: r.Partition % partitions, Key: r.Key, Value: value})
	}
	written, err := t.write(ctx, answers)
	if err != nil || !written {
		return err
	}
	s.answered.Add(int64(len(answers)))
	s.rejected.Add(int64(rejected))
	s.Metrics.records.WithLabelValues(s.Settings.Name, resultScored).Add(float64(scored))
	s.Metrics.records.WithLabelValues(s.Settings.Name, resultRejected).Add(float64(rejected))
	return nil
}

// fail counts a failure. It is logged when the reason is a new one: attempts continue for as long as the trouble lasts.
func (s *Scorer) fail(err error, pause time.Duration) {
	s.Metrics.failures.WithLabelValues(s.Settings.Name).Inc()
	text := s.explain(err)
	if old := s.trouble.Swap(&text); old == nil || *old != text {
		s.Log.Warn("events are not scored", "topic", s.Settings.Score.Topic, "reason", text, "next_try", pause)
	}
}

func (s *Scorer) clear() {
	if s.trouble.Swap(nil) != nil {
		s.Log.Info("events are scored again", "topic", s.Settings.Score.Topic)
	}
}

// Trouble says why events are not scored although there is a version, or "".
func (s *Scorer) Trouble() string {
	var list []string
	for _, t := range []*atomic.Pointer[string]{&s.trouble, &s.unseen} {
		if text := t.Load(); text != nil {
			list = append(list, *text)
		}
	}
	return strings.Join(list, "; ")
}

// Status is what the status page shows.
func (s *Scorer) Status() *statuspage.ScoringStatus {
	out := &statuspage.ScoringStatus{
		Topic:    s.Settings.Score.Topic,
		Group:    s.Group,
		Answered: s.answered.Load(),
		Rejected: s.rejected.Load(),
		Lag:      s.lag.Load(),
		Trouble:  s.Trouble(),
	}
	if text := s.waiting.Load(); text != nil {
		out.Waiting = *text
	}
	if text := s.guarantee.Load(); text != nil {
		out.Guarantee = *text
	}
	return out
}
