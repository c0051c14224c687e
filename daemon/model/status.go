package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// Name returns the name of the model in the configuration.
func (m *Model) Name() string { return m.name }

// Trainer returns the trainer, to configure it and to ask it for refits.
func (m *Model) Trainer() *Trainer { return m.trainer }

// Store returns the store of snapshots, nil without one.
func (m *Model) Store() *snapshot.Store { return m.trainer.versions.Store() }

// Progressive returns the losses of predictions made before their event was learned.
func (m *Model) Progressive() report.Progressive { return m.trainer.cycle.Progressive() }

// Lag returns the records below the log ends that have not been applied yet, without those of halted partitions.
func (m *Model) Lag() int64 { return m.reader.lag() }

// Rate returns the events applied a second, from the start of the model to its last one.
func (m *Model) Rate() float64 {
	reading := time.Duration(m.reader.reading.Load()).Seconds()
	if reading <= 0 {
		return 0
	}
	return float64(m.reader.applied.Load()) / reading
}

// Summary returns what the run came to. Call it when Run has returned.
func (m *Model) Summary() (report.RunModel, error) {
	state, err := m.state.store.State()
	if err != nil {
		return report.RunModel{}, ingest.StateError(err, m.state.dir)
	}
	v := m.trainer.versions
	return report.RunModel{
		State:            ingest.StateOf(m.name, state),
		Progressive:      m.Progressive(),
		VersionsPromoted: v.promoted,
		VersionsKept:     v.kept,
		Champion:         v.champion,
	}, nil
}

// Status is what the status page shows of the model.
func (m *Model) Status() web.ModelStatus {
	out := web.ModelStatus{
		Name:        m.name,
		NotReady:    m.NotReady(),
		Progressive: m.Progressive(),
		Events:      m.reader.applied.Load(),
		Standby:     m.reader.team.waits(),
	}
	if v := m.trainer.versions.serving.Load(); v != nil {
		out.Champion, out.Published = &v.version, v.at
	}
	if v := m.trainer.versions.judged.Load(); v != nil {
		out.Judged = &v.version
	}
	if at := m.trainer.refitted.Load(); at != nil {
		out.LastRefit = *at
	}
	if failure := m.trainer.failure.Load(); failure != nil {
		out.RefitFailure = *failure
	}
	accounts := make(map[consumer.TopicPartition]sketch.LedgerRow)
	for _, l := range m.state.store.Ledger() {
		accounts[consumer.TopicPartition{Topic: l.Topic, Partition: l.Partition}] = l
		out.Applied += l.Applied
	}
	for _, p := range m.reader.partitions() {
		out.Lag += p.Lag
		l := accounts[consumer.TopicPartition{Topic: p.Topic, Partition: p.Partition}]
		account := web.PartitionStatus{
			Topic:     p.Topic,
			Partition: p.Partition,
			Next:      p.Next,
			End:       p.HighWatermark,
			Lag:       p.Lag,
			Halted:    p.Halted,
			Applied:   l.Applied,
			Rejected:  l.Rejected,
			Gap:       l.Gap,
		}
		for _, n := range l.Rows {
			account.Rows += n
		}
		out.Partitions = append(out.Partitions, account)
		if p.Halted != "" {
			out.Halted = append(
				out.Halted,
				web.HaltedPartition{Topic: p.Topic, Partition: p.Partition, Offset: p.Next, Reason: p.Halted},
			)
		}
	}
	if m.scorer != nil {
		out.Scoring = m.scorer.Status()
	}
	rows, bytes := m.state.store.Size()
	for _, n := range rows {
		out.SampleRows += n
	}
	out.SampleBytes = bytes
	sample := &m.trainer.tuned.Load().Sample
	out.Sample = web.SampleStatus{
		Train:    rows[sketch.Train],
		Holdout:  out.SampleRows - rows[sketch.Train],
		Size:     sample.Size,
		Bytes:    bytes,
		MaxBytes: int64(sample.MaxBytes),
		Ages:     m.trainer.ages.Load(),
	}
	out.Ranking, out.Shards = m.ranking.status(), m.reader.team.shardStatus()
	out.Rejections, out.GateRejections = m.reader.refused.list(), m.trainer.cycle.Rejections()
	for field, path := range m.reader.absentFields() {
		out.AbsentFields = append(out.AbsentFields, fmt.Sprintf("%s (%s)", field, path))
	}
	if unit := m.reader.trueUnit.Load(); unit != nil {
		out.TimeUnit, out.TrueTimeUnit = m.reader.options.Settings.Schema.TimeUnit, *unit
	}
	out.TrainingDisabled = m.trainer.pause.reason()
	if m.live != nil && m.trainer.tuned.Load().Serve.Live {
		out.LiveHeldBack = string(m.live.heldBack())
	}
	if out.Champion == nil {
		out.Waiting = m.waiting(rows[sketch.Train], out.SampleRows)
	}
	return out
}

// waiting says why there is no version yet.
func (m *Model) waiting(train, rows int) string {
	if unread := m.trainer.versions.unread.Load(); unread != nil {
		return *unread
	}
	if disabled := m.trainer.pause.reason(); disabled != "" {
		return "no version yet: " + disabled
	}
	switch rejected := m.reader.rejected.Load(); {
	case rows == 0 && rejected > 0:
		return fmt.Sprintf(
			"no version yet: all of the %d records read were rejected, see refitd_events_rejected_total",
			rejected,
		)
	case rows == 0:
		return "no version yet: no event was read"
	case train == 0:
		return fmt.Sprintf("no version yet: all of the %d events read were held out", rows)
	}
	return fmt.Sprintf(
		"no version yet: %s to train on; no refit has ended with a version for consumers",
		report.Count(train, "event"),
	)
}

// Curves returns how the model has done over time.
func (m *Model) Curves() *curves.Ring { return m.curves }

// Calibration compares what was predicted over the window with what came.
func (m *Model) Calibration() report.Calibration { return m.trainer.cycle.Calibration() }

// Limits returns the bounds of requests, as last configured.
func (m *Model) Limits() web.Limits {
	serve := m.trainer.tuned.Load().Serve
	return web.Limits{MaxEvents: serve.MaxEvents, MaxItems: serve.MaxItems}
}

// Live returns what was learned up to about now as a model to score with, nil where serve.live is off. It returns
// snapshot.ErrNotFound before the first version, and a web.HeldBackError where consumers are better off with what they
// have.
func (m *Model) Live() (*snapshot.Model, error) {
	if !m.trainer.tuned.Load().Serve.Live {
		return nil, nil
	}
	return m.live.get()
}

// Derive returns what fills the derived fields of events from what this model has read, nil unless the fields of a
// version are those that it makes now. Where the state cannot be read, which ends reading, an event lacks them.
func (m *Model) Derive(s *snapshot.Schema) func(*event.Event) {
	now, pasts := &m.state.settings.Schema, m.reader.pasts
	if pasts == nil || !slices.Equal(s.Categorical, now.Categorical) || !slices.Equal(s.Multi, now.Multi) ||
		!slices.Equal(s.Derived, fitted.DerivedFields(now)) {
		return nil
	}
	return func(ev *event.Event) {
		if err := pasts.Fill(ev); err != nil {
			m.trainer.log.Error("derived fields not filled", "error", err)
		}
	}
}
