// Package verify proves a state against its topics: an independent Kafka client reads again what the ledger says was read, the sample is
// recomputed from it in memory, and accounts, digests and rows are compared. It changes neither.
package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// The values of report.VerifyPartition.Digest.
const (
	digestOK           = "ok"
	digestMismatch     = "mismatch"
	digestUnverifiable = "unverifiable"
)

// Options say which state to verify, and against which brokers.
type Options struct {
	Model *config.Model
	Dir   string        // the model's state directory; nothing else may have it open
	Kafka *config.Kafka // nil checks the state directory alone
	// CheckState, if not nil, looks at the directory first, in another process: damage may end the process that finds it.
	CheckState func(ctx context.Context, dir string) error
	Log        *slog.Logger // required; says where and how state and topic differ
}

// Result is what verify prints.
type Result struct {
	Partitions []report.VerifyPartition // by topic and partition
	Summary    report.VerifySummary
}

// Run verifies one state. Memory holds the sample once more. A difference is no error but in the result; errors carry their exit codes:
// 5 if the state is in use, absent or damaged, 3 for the brokers, 2 if the configuration is not that of the state, 1 if ctx ends it.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if o.CheckState != nil {
		if err := o.CheckState(ctx, o.Dir); err != nil {
			if ctx.Err() != nil {
				return nil, interrupted(ctx)
			}
			return nil, err
		}
	}
	store, err := sketch.OpenExisting(ctx, o.Dir, o.Log)
	if err != nil {
		if ctx.Err() != nil {
			return nil, interrupted(ctx)
		}
		return nil, o.stateError(err)
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = o.stateError(closeErr)
		}
	}()
	if err := store.Check(); err != nil {
		return nil, o.stateError(err)
	}
	state, err := store.State()
	if err != nil {
		return nil, o.stateError(err)
	}
	for _, b := range store.Rollbacks() {
		o.Log.Warn("state is behind its witness: the daemon reads the difference again", "topic", b.Topic, "partition", b.Partition,
			"next", b.Next, "witnessed", b.Witnessed)
	}
	v := &verification{Options: o, state: state, result: &Result{Summary: report.VerifySummary{SampleDigest: state.SampleDigest.String()}}}
	for i := range state.Partitions {
		v.result.Partitions = append(v.result.Partitions, account(&state.Partitions[i]))
	}
	v.result.Summary.OK = true
	if o.Kafka != nil {
		if err := v.recompute(ctx, store); err != nil {
			return nil, err
		}
	}
	v.conclude()
	return v.result, nil
}

func (o *Options) stateError(err error) error {
	return &report.ExitError{Code: report.ExitState, Err: err, Path: o.Dir}
}

// interrupted is not exit code 0, which is a proof.
func interrupted(ctx context.Context) error {
	return report.Exitf(report.ExitNo, "verify: stopped before anything was proved: %w", ctx.Err())
}

// account returns a partition as the ledger has it, before any comparison.
func account(l *sketch.LedgerRow) report.VerifyPartition {
	p := report.VerifyPartition{Topic: l.Topic, Partition: l.Partition, Start: l.Start, CheckedFrom: l.Start, Next: l.Next,
		Rejected: l.Rejected, Control: l.Control, Aborted: l.Aborted, Holes: l.Holes, Gap: l.Gap, Digest: digestOK}
	for _, n := range l.Rows {
		p.Rows += n
	}
	return p
}

// verification is one run: the result belongs to the partitions of state by index.
type verification struct {
	Options
	state  *sketch.State
	result *Result
}

// recompute reads every partition of the ledger again into a sample in memory and compares.
func (v *verification) recompute(ctx context.Context, store *sketch.Store) (err error) {
	if hash := v.Model.SampleHash(); hash != v.state.ConfigHash {
		err := fmt.Errorf("verify: %s was last written with another configuration: name, input, schema and sample of model %s have the digest %s, those of the state %s; use the file the daemon ran with, or --offline",
			v.Dir, v.Model.Name, hash, v.state.ConfigHash)
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--config.file"}
	}
	options := ingest.StoreOptions(v.Model)
	options.Seed, options.DrawSeed, options.Lineage, options.Forgotten = store.Seed(), false, store.Lineage(), v.state.Forgotten
	memory, err := sketch.NewMemory(options)
	if err != nil {
		return report.Exit(report.ExitUsage, err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()

	complete, err := v.read(ctx, memory)
	if err != nil {
		return err
	}
	if !v.state.OfLog {
		v.Log.Warn("the rows cannot be recomputed: some are of a topic that was made again, or a subject was forgotten under a cap")
		complete = false
	}
	if err := memory.Align(store); err != nil { // an under-filled sample has fewer rows than the log would give
		return fmt.Errorf("verify: %w", err)
	}
	again, err := memory.State()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	same := v.compare(again)
	if !complete {
		return nil // without a partition's rows the sample of the others is another one
	}
	digest := again.SampleDigest.String()
	v.result.Summary.RecomputedDigest = &digest
	if !maps.Equal(again.RejectedByReason, v.state.RejectedByReason) {
		v.Log.Error("rejections differ by reason", "state", v.state.RejectedByReason, "topic", again.RejectedByReason)
		v.result.Summary.OK = false
	}
	if again.SampleDigest == v.state.SampleDigest {
		return nil
	}
	v.result.Summary.OK = false
	if !same { // the rows differ because the accounts do
		return nil
	}
	return v.compareRows(store, memory)
}

// read feeds what the ledger covers of each partition to memory, as the daemon did. complete is false if a partition could not be read
// from its start to its next; it is then unverifiable.
func (v *verification) read(ctx context.Context, memory *sketch.Store) (complete bool, err error) {
	var topics []string
	for i := range v.state.Partitions {
		if t := v.state.Partitions[i].Topic; len(topics) == 0 || topics[len(topics)-1] != t {
			topics = append(topics, t)
		}
	}
	if len(topics) == 0 {
		return true, nil
	}
	r, err := newReader(ctx, v.Kafka, topics)
	if err != nil {
		return false, err
	}
	defer r.close()
	sink := ingest.New(v.Model, memory, nil)
	complete = true
	for i := range v.state.Partitions {
		l, p := &v.state.Partitions[i], &v.result.Partitions[i]
		if err := memory.BeginAt(l.AtStart()); err != nil {
			return false, fmt.Errorf("verify: %w", err)
		}
		err := r.read(ctx, l.Topic, l.Partition, l.Start, l.Next, sink)
		if gone, ok := errors.AsType[*unreadableError](err); ok {
			v.Log.Warn("partition cannot be verified", "topic", l.Topic, "partition", l.Partition, "reason", gone.reason)
			p.Digest, p.CheckedFrom, complete = digestUnverifiable, max(l.Start, gone.logStart), false
			v.result.Summary.OK = false
			continue
		}
		if err != nil {
			return false, err
		}
	}
	return complete, nil
}

// compare compares the accounts of the partitions that were read and reports whether all of them are the same. again has the partitions
// of the state in the same order. Rows are left to the sample's digest.
func (v *verification) compare(again *sketch.State) (same bool) {
	same = true
	for i := range v.state.Partitions {
		p := &v.result.Partitions[i]
		if p.Digest == digestUnverifiable {
			same = false
			continue
		}
		have, want := v.state.Partitions[i], again.Partitions[i]
		lost := want.Applied - have.Applied
		p.Lost, p.Double = max(0, lost), max(0, -lost)
		// What follows is not of the log: who halted, and the rows, which depend on every partition.
		have.Halted, have.Rows = "", want.Rows
		if have != want {
			v.Log.Error("account differs", "topic", p.Topic, "partition", p.Partition, "state", counts(&have), "log", counts(&want))
			p.Digest, same = digestMismatch, false
		}
	}
	return same
}

// counts is what an account differs in, for the log.
func counts(l *sketch.LedgerRow) slog.Value {
	return slog.GroupValue(slog.Int64("applied", l.Applied), slog.Int64("rejected", l.Rejected), slog.Int64("control", l.Control),
		slog.Int64("aborted", l.Aborted), slog.Int64("holes", l.Holes), slog.Int64("gap", l.Gap), slog.String("digest", l.Digest.String()))
}

// compareRows finds the rows in which two samples of the same accounts differ: a row of the topic that the state has not got is lost, a
// row of the state that the topic does not give is double, one whose content differs is a mismatch alone.
func (v *verification) compareRows(store, memory *sketch.Store) error {
	have, err := rowsOf(store)
	if err != nil {
		return err
	}
	want, err := rowsOf(memory)
	if err != nil {
		return err
	}
	for i := range v.result.Partitions {
		p := &v.result.Partitions[i]
		of := partition{p.Topic, p.Partition}
		for offset, row := range want[of] {
			if other, ok := have[of][offset]; !ok {
				p.Lost++
			} else if other != row {
				p.Digest = digestMismatch
			}
		}
		for offset := range have[of] {
			if _, ok := want[of][offset]; !ok {
				p.Double++
			}
		}
		if p.Lost+p.Double > 0 {
			p.Digest = digestMismatch
		}
	}
	return nil
}

type partition struct {
	topic  string
	number int32
}

// A row is what the sample keeps of an event.
type row struct {
	role    sketch.Role
	time    int64
	weight  float64
	payload string
}

// rowsOf returns the rows of a store by partition and offset.
func rowsOf(s *sketch.Store) (map[partition]map[int64]row, error) {
	sample, err := s.Sample()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	out := make(map[partition]map[int64]row)
	for role, rows := range map[sketch.Role][]sketch.Row{sketch.Train: sample.Train, sketch.Select: sample.Select, sketch.Gate: sample.Gate} {
		for _, r := range rows {
			of := partition{r.Topic, r.Partition}
			if out[of] == nil {
				out[of] = make(map[int64]row)
			}
			out[of][r.Offset] = row{role, r.Time, r.Weight, string(r.Payload)}
		}
	}
	return out, nil
}

// conclude adds the partitions up.
func (v *verification) conclude() {
	s := &v.result.Summary
	for i := range v.result.Partitions {
		p := &v.result.Partitions[i]
		s.Lost += p.Lost
		s.Double += p.Double
		s.Gap += p.Gap
		s.OK = s.OK && p.Digest == digestOK
	}
	s.OK = s.OK && s.Lost == 0 && s.Double == 0
}
