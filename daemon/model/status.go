package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/role"
	"github.com/refitd/refitd/daemon/model/train"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// Name returns the name of the model in the configuration.
func (m *Model) Name() string { return m.name }

// Settings returns the model's settings as the daemon has started with them.
func (m *Model) Settings() *config.Model { return m.state.Settings }

// HasBegun reports whether the model has begun to read a partition, in this run or before it.
func (m *Model) HasBegun() bool { return m.state.HasBegun() }

// Trainer returns the trainer, to configure it and to ask it for refits.
func (m *Model) Trainer() *train.Trainer { return m.trainer }

// Store returns the store of snapshots, nil without one.
func (m *Model) Store() *publish.Store { return m.versions.Store() }

// Refit lets the model be refitted now, or as soon as the refit under way has ended. The error says which process does
// that if it is not this one.
func (m *Model) Refit() error {
	if err := m.role.MayRefit(); err != nil {
		return err
	}
	m.trainer.Refit()
	return nil
}

// Progressive returns the losses of predictions made before their event was learned.
func (m *Model) Progressive() report.Progressive { return m.cycle.Progressive() }

// Lag returns the records below the log ends that have not been applied yet, without those of halted partitions.
func (m *Model) Lag() int64 { return m.reader.Lag() }

// Rate returns the events applied a second, from the start of the model to its last one.
func (m *Model) Rate() float64 { return m.reader.Rate() }

// Summary returns what the run came to. Call it when Run has returned.
func (m *Model) Summary() (report.RunModel, error) {
	state, err := m.state.Store.State()
	if err != nil {
		return report.RunModel{}, ingest.StateError(err, m.state.Dir)
	}
	shown := ingest.StateOf(m.name, state)
	if shown.Outcomes, err = ingest.OutcomesOf(m.state.Settings, m.state.Store, m.reader.Behind()); err != nil {
		return report.RunModel{}, ingest.StateError(err, m.state.Dir)
	}
	promoted, kept, champion := m.versions.Tally()
	return report.RunModel{
		State:            shown,
		Progressive:      m.Progressive(),
		VersionsPromoted: promoted,
		VersionsKept:     kept,
		Champion:         champion,
	}, nil
}

// Status is what the status page shows of the model.
func (m *Model) Status() statuspage.ModelStatus {
	out := statuspage.ModelStatus{
		Name:        m.name,
		NotReady:    m.NotReady(),
		Progressive: m.Progressive(),
		Events:      m.reader.Applied.Load(),
		Standby:     m.role.Waits(),
	}
	if c := m.reader.CatchUp(); c != nil {
		out.CatchingUp = c.String()
	}
	out.Champion, out.Published = m.versions.Serving()
	out.Judged = m.versions.Judged()
	if at := m.trainer.Refitted(); at != nil {
		out.LastRefit = *at
	}
	out.RefitFailure = m.trainer.Failure()
	accounts := make(map[consumer.TopicPartition]sketch.LedgerRow)
	for _, l := range m.state.Store.Ledger() {
		accounts[consumer.TopicPartition{Topic: l.Topic, Partition: l.Partition}] = l
		out.Applied += l.Applied
	}
	for _, p := range m.reader.Partitions() {
		out.Lag += p.Lag
		l := accounts[consumer.TopicPartition{Topic: p.Topic, Partition: p.Partition}]
		account := statuspage.PartitionStatus{
			Topic:     p.Topic,
			Partition: p.Partition,
			Next:      p.Next,
			End:       p.HighWatermark,
			Lag:       p.Lag,
			Halted:    p.Halted,
			Paused:    p.Paused,
			Applied:   l.Applied,
			Rejected:  l.Rejected,
			Gap:       l.Gap,
		}
		for _, n := range l.Rows {
			account.Rows += n
		}
		out.Partitions = append(out.Partitions, account)
		if p.Halted != "" {
			out.Halted = append(out.Halted,
				statuspage.HaltedPartition{Topic: p.Topic, Partition: p.Partition, Offset: p.Next, Reason: p.Halted})
		}
	}
	if m.scorer != nil {
		out.Scoring = m.scorer.Status()
	}
	if m.vectors != nil {
		out.VectorsTrouble = report.WithoutPackages(m.vectors.Trouble())
	}
	rows, bytes := m.state.Store.Size()
	for _, n := range rows {
		out.SampleRows += n
	}
	out.SampleBytes = bytes
	sample := &m.trainer.Settings().Sample
	out.Sample = statuspage.SampleStatus{
		Train:    rows[sketch.Train],
		Holdout:  out.SampleRows - rows[sketch.Train],
		Size:     sample.Size,
		Bytes:    bytes,
		MaxBytes: int64(sample.MaxBytes),
		Ages:     m.trainer.Ages(),
	}
	out.Ranking, out.Shards = m.ranking.Status(), shardStatus(m.role.Shards())
	out.Tables = m.tableStatus()
	out.Rejections, out.GateRejections = m.reader.Refused(), m.cycle.Rejections()
	out.SchemaTrouble = m.reader.Schemas().Trouble()
	for field, id := range m.reader.Schemas().Lost() {
		out.LostFields = append(out.LostFields, fmt.Sprintf("%s (%s)", field, id))
	}
	slices.Sort(out.LostFields)
	for field, path := range m.reader.AbsentFields() {
		out.AbsentFields = append(out.AbsentFields, fmt.Sprintf("%s (%s)", field, path))
	}
	if unit := m.reader.TrueUnit(); unit != "" {
		out.TimeUnit, out.TrueTimeUnit = m.state.Settings.Schema.TimeUnit, unit
	}
	out.TrainingDisabled = m.trainer.Disabled()
	if m.live != nil && m.trainer.Settings().Serve.Live {
		out.LiveHeldBack = string(m.live.HeldBack())
	}
	if out.Champion == nil {
		out.Waiting = m.waiting(rows[sketch.Train], out.SampleRows)
	}
	return out
}

// shardStatus is what the page shows of shards.
func shardStatus(shards []role.ShardStatus) (list []statuspage.ShardStatus) {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	for i := range shards {
		s := &shards[i]
		list = append(list, statuspage.ShardStatus{Shard: i, Host: s.Host, Merged: at(s.Seen), Lag: s.Lag, Refused: s.Refused,
			Learned: at(s.Forwarded)})
	}
	return list
}

// waiting says why there is no version yet.
func (m *Model) waiting(train, rows int) string {
	if unread := m.versions.Unread(); unread != "" {
		return unread
	}
	if disabled := m.trainer.Disabled(); disabled != "" {
		return "no version yet: " + disabled
	}
	switch rejected := m.reader.Rejected(); {
	case rows == 0 && rejected > 0:
		return fmt.Sprintf("no version yet: all of the %d records read were rejected, see refitd_events_rejected_total",
			rejected)
	case rows == 0:
		return "no version yet: no event was read"
	case train == 0:
		return fmt.Sprintf("no version yet: all of the %d events read were held out", rows)
	}
	return fmt.Sprintf("no version yet: %s to train on; no refit has ended with a version for consumers",
		report.Count(train, "event"))
}

// Curves returns how the model has done over time.
func (m *Model) Curves() *curves.Ring { return m.curves }

// Rejected returns the last records that were no events, newest first.
func (m *Model) Rejected() []statuspage.RejectedRecord { return m.reader.RefusedRecords() }

// Calibration compares what was predicted over the window with what came.
func (m *Model) Calibration() report.Calibration { return m.cycle.Calibration() }

// Limits returns the bounds of requests, as last configured.
func (m *Model) Limits() web.Limits {
	serve := m.trainer.Settings().Serve
	return web.Limits{MaxEvents: serve.MaxEvents, MaxItems: serve.MaxItems}
}

// Live returns what was learned up to about now as a model to score with, nil where serve.live is off. It returns
// snapshot.ErrNotFound before the first version, and a web.HeldBackError where consumers are better off with what they
// have.
func (m *Model) Live() (*snapshot.Model, error) {
	if !m.trainer.Settings().Serve.Live {
		return nil, nil
	}
	return m.live.Get()
}

// Derive returns what fills the derived fields of events from what this model has read, nil unless the fields of a
// version are those that it makes now. Where the state cannot be read, which ends reading, an event lacks them.
func (m *Model) Derive(s *snapshot.Schema) func(*event.Event) {
	now, pasts := &m.state.Settings.Schema, m.reader.Pasts
	if pasts == nil || !slices.Equal(s.Categorical, now.Categorical) || !slices.Equal(s.Multi, now.Multi) ||
		!slices.Equal(s.Derived, fitted.DerivedFields(now)) {
		return nil
	}
	return func(ev *event.Event) {
		if err := pasts.Fill(ev); err != nil {
			m.log.Error("derived fields not filled", "error", err)
		}
	}
}

// Rank looks at choices, where events are, with the version that consumers have, until ctx is done.
func (m *Model) Rank(ctx context.Context, version func() *snapshot.Model) {
	if m.ranking != nil {
		m.ranking.Run(ctx, version)
	}
}

// tableStatus says which share of events tables know; nothing of a shard, which learns nothing.
func (m *Model) tableStatus() (list []statuspage.TableStatus) {
	if m.cycle == nil {
		return nil
	}
	for i, known := 0, m.cycle.Tables(); i < known.NumTables(); i++ {
		rows, _ := known.Count(i)
		table := statuspage.TableStatus{Table: known.Config(i).Name, Of: known.Config(i).Of, Rows: rows}
		if share, ok := known.Coverage(i); ok {
			table.Coverage = report.Known(share)
		}
		list = append(list, table)
	}
	return list
}

// Vectors keeps the table of vectors in step with the version that consumers have, where there is one, until ctx is
// done. Of several trainers the one that leads does it.
func (m *Model) Vectors(ctx context.Context, version func() *snapshot.Model) {
	if m.vectors != nil {
		role.WhileLeading(ctx, m.role, func(ctx context.Context) { m.vectors.Run(ctx, version) })
	}
}

// Score answers events in the topic of scores, where there is one, until ctx is done. champion is as in
// scoring.Scorer.Run.
func (m *Model) Score(ctx context.Context, champion func(last *web.Champion) *web.Champion) {
	if m.scorer != nil {
		m.scorer.Run(ctx, champion)
	}
}
