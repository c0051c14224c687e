// Package verify proves a state against its topics: an independent Kafka client reads again what the ledger says was
// read, the sample is recomputed from it in memory, and accounts, digests and rows are compared. It changes neither.
// What the brokers no longer hold is unverifiable; the checkpoints of the ledger say where proving can begin.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/daemon/progress"
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
	// CheckState, if not nil, looks at the directory first, in another process: damage may end the process that finds
	// it.
	CheckState func(ctx context.Context, dir string) error
	Log        *slog.Logger    // required; says where and how state and topic differ
	Progress   *progress.Meter // nil shows none
}

// Result is what verify prints.
type Result struct {
	Partitions []report.VerifyPartition // by topic and partition
	Summary    report.VerifySummary
}

// Run verifies one state. Memory holds the sample once more. A difference is no error but in the result; errors carry
// their exit codes: 5 if the state is in use, absent or damaged, 3 for the brokers, 2 if the configuration is not that
// of the state, 1 if ctx ends it or a shard has taken up a part of what it is to be.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	ctx = sketch.WithProgress(ctx, o.Progress.Pass)
	o.Progress.Stage("checking the files", "", 0)
	if o.CheckState != nil {
		if err := o.CheckState(ctx, o.Dir); err != nil {
			if ctx.Err() != nil {
				return nil, interrupted(ctx)
			}
			return nil, err
		}
	}
	o.Progress.Stage("opening the state", "", 0)
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
	if err := o.wholeState(store); err != nil {
		return nil, err
	}
	o.Progress.Stage("checking the rows", "", 0)
	if err := store.Check(); err != nil {
		return nil, o.stateError(err)
	}
	o.Progress.Stage("adding the rows up", "", 0)
	state, err := store.State()
	if err != nil {
		return nil, o.stateError(err)
	}
	for _, b := range store.Rollbacks() {
		o.Log.Warn("state is behind its witness",
			"note", "the daemon reads the difference again", "topic", b.Topic, "partition",
			b.Partition, "next", b.Next, "witnessed", b.Witnessed)
	}
	v := &verification{Options: o, state: state, store: store, hasher: hasher{pasts.Given(o.Model)},
		result: &Result{Summary: report.VerifySummary{SampleDigest: state.SampleDigest.String()}}}
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
	key, err := binding.Translate(err)
	return &report.ExitError{Code: report.ExitState, Err: err, Path: o.Dir, Key: key}
}

// wholeState returns an error for the state of a shard whose process ended while it took up what others had been
// (sketch.Store.Taken): rows and accounts of some of them are there, and need not fit.
func (o *Options) wholeState(store *sketch.Store) error {
	if !o.Model.Shard.IsShard() {
		return nil
	}
	_, _, taking, err := store.Merged()
	switch {
	case err != nil:
		return o.stateError(err)
	case taking:
		return &report.ExitError{
			Code: report.ExitNo,
			Path: o.Dir,
			Err: fmt.Errorf("verify: the state in %s is not whole: its process ended while it took "+
				"partitions up from the topic of other shards; start the shard again, which takes them up anew, and verify then",
				o.Dir),
		}
	}
	return nil
}

// interrupted is not exit code 0, which is a proof.
func interrupted(ctx context.Context) error {
	return report.Exitf(report.ExitNo, "verify: stopped before anything was proved: %w", ctx.Err())
}

// account returns a partition as the ledger has it, before any comparison.
func account(l *sketch.LedgerRow) report.VerifyPartition {
	p := report.VerifyPartition{
		Topic:       l.Topic,
		Partition:   l.Partition,
		Start:       l.Start,
		CheckedFrom: l.Start,
		Next:        l.Next,
		Rejected:    l.Rejected,
		Control:     l.Control,
		Aborted:     l.Aborted,
		Holes:       l.Holes,
		Gap:         l.Gap,
		Digest:      digestOK,
	}
	for _, n := range l.Rows {
		p.Rows += n
	}
	if l.Halted != "" {
		p.Halted = &l.Halted
	}
	return p
}

// verification is one run: the result belongs to the partitions of state by index.
type verification struct {
	Options
	state   *sketch.State
	store   *sketch.Store
	hasher  hasher
	rows    rows // of the state
	result  *Result
	differs bool // some account does
	thinned bool // compaction took records out of a table, maybe rejected ones
}

// derives reports whether rows have derived fields that the log does not give again where it is read from a later
// beginning.
func (v *verification) derives() bool { return len(v.Model.Schema.Derived) > 0 }

// recompute reads every partition of the ledger again into a sample in memory and compares.
func (v *verification) recompute(ctx context.Context, store *sketch.Store) (err error) {
	if hash := v.Model.SampleHash(); hash != v.state.ConfigHash {
		err := fmt.Errorf(
			"verify: %s was last written with another configuration: name, input, schema and sample of model %s have the "+
				"digest %s, "+
				"those of the state %s; use the file the daemon ran with, and its build, or --offline; a run of this build "+
				"takes the state over",
			v.Dir,
			v.Model.Name,
			hash,
			v.state.ConfigHash,
		)
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--config.file"}
	}
	options := ingest.StoreOptions(v.Model)
	options.Seed, options.DrawSeed, options.Lineage, options.Forgotten = store.Seed(), false, store.Lineage(),
		v.state.Forgotten
	memory, err := sketch.NewMemory(options)
	if err != nil {
		return report.Exit(report.ExitUsage, err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	if v.rows, err = v.hasher.rowsOf(store, v.state.Partitions, v.Progress); err != nil {
		return err
	}
	complete, err := v.read(ctx, store, memory)
	if err != nil {
		return err
	}
	// Without a partition's rows the sample of the others is another one; so it is where the state had more to choose
	// from than the log.
	switch {
	case !complete:
		v.result.Summary.NotRecomputed = "the log does not hold all of it any more"
		return nil
	case len(v.state.Archived) > 0:
		v.result.Summary.NotRecomputed = "rows of a topic that was made anew are in it, and that topic is gone"
		return nil
	case v.derives() && len(v.state.Forgotten) > 0:
		v.result.Summary.NotRecomputed = "a subject was forgotten, of which derived fields of other events knew"
		return nil
	case !v.state.OfLog:
		v.result.Summary.NotRecomputed = "it is not of the log alone: it began at a checkpoint, had a subject forgotten " +
			"under a cap, " +
			"or was kept by other rules before"
		return nil
	}
	v.Progress.Stage("comparing the samples", "", 0)
	memory.SetProgress(v.Progress.Pass)
	if err := memory.Align(store); err != nil { // an under-filled sample has fewer rows than the log would give
		return fmt.Errorf("verify: %w", err)
	}
	again, err := memory.State()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	digest := again.SampleDigest.String()
	v.result.Summary.RecomputedDigest = &digest
	if !v.thinned && !maps.Equal(again.RejectedByReason, v.state.RejectedByReason) {
		v.Log.Error("rejections differ by reason", "state", v.state.RejectedByReason, "topic", again.RejectedByReason)
		v.result.Summary.OK = false
	}
	if again.SampleDigest == v.state.SampleDigest {
		return nil
	}
	v.result.Summary.OK = false
	if v.differs { // the rows differ because the accounts do
		return nil
	}
	return v.compareRows(memory)
}

// read feeds what the ledger covers of each partition to memory, as the daemon did, and compares as it goes. complete
// is false if some of a partition could not be read again.
func (v *verification) read(ctx context.Context, store, memory *sketch.Store) (complete bool, err error) {
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
	r.progress = v.Progress
	defer r.close()
	total, done := int64(0), int64(0)
	for i := range v.state.Partitions {
		total += v.state.Partitions[i].Next - v.state.Partitions[i].Start
	}
	v.Progress.Stage("reading the log", "records", total)
	if err := formats.CopySchemas(memory, store); err != nil { // the log is read by these, whatever a registry says now
		return false, v.stateError(err)
	}
	sink := ingest.New(v.Model, memory, nil)
	complete = true
	for i := range v.state.Partitions {
		l := &v.state.Partitions[i]
		checkpoints, err := store.Checkpoints(l.Topic, l.Partition)
		if err != nil {
			return false, v.stateError(err)
		}
		if err := memory.BeginAt(l.AtStart()); err != nil {
			return false, fmt.Errorf("verify: %w", err)
		}
		whole, err := v.partition(ctx, r, memory, sink, i, checkpoints)
		if err != nil {
			return false, err
		}
		complete = complete && whole
		done += l.Next - l.Start // also what the log no longer has
		v.Progress.Set(done, total)
	}
	return complete, nil
}

// proof is that of one partition, interval by interval between the accounts that the state has of it: that of its
// start, its checkpoints and the ledger's. Each interval is proved separately, so that what the log no longer holds
// does not put the rest in doubt.
type proof struct {
	*verification
	reader *reader
	memory *sketch.Store
	sink   *ingest.Ingest
	into   consumer.Sink // sink, or what looks at records before it

	ledger    *sketch.LedgerRow
	out       *report.VerifyPartition
	log       *slog.Logger // with topic and partition
	logStart  int64
	missing   *unreadableError // why the stretch at hand cannot be read, nil if it can
	from      int64            // what comes after it is proved
	whole     bool             // every stretch was read
	tables    *tableSink       // of a table; nil of events
	compacted bool             // it is of a table, and compaction took records out of a stretch that was read
	count     tally            // of the stretch at hand
	altered   int64            // rows that are not what the log has at their offsets
	derived   bool             // derived fields are known: the partition was read whole so far
	err       error            // of a row that cannot be decoded
}

// partition proves one partition. whole is false if not every stretch was read.
func (v *verification) partition(ctx context.Context, r *reader, memory *sketch.Store, sink *ingest.Ingest, i int,
	checkpoints []sketch.LedgerRow) (whole bool, err error) {
	l := &v.state.Partitions[i]
	p := &proof{
		verification: v,
		reader:       r,
		memory:       memory,
		sink:         sink,
		into:         sink,
		ledger:       l,
		out:          &v.result.Partitions[i],
		from:         l.Start,
		whole:        true,
		log:          v.Log.With("topic", l.Topic, "partition", l.Partition),
	}
	for j := range v.state.Archived {
		if old := &v.state.Archived[j]; old.Topic == l.Topic && old.Partition == l.Partition {
			p.out.Unverifiable += old.Next - old.Start
		}
	}
	p.logStart, err = r.extent(ctx, l.Topic, l.Partition, l.Next)
	missing, isGone := errors.AsType[*unreadableError](err)
	if err != nil && !isGone {
		return false, err
	}
	if table := v.Model.TableOf(l.Topic); table >= 0 {
		t := &v.Model.Tables[table]
		p.tables = &tableSink{Sink: sink, name: t.Name, hasHistory: t.HasHistory(), rejected: make(map[sketch.Digest]int64)}
		p.into = p.tables
	}
	sink.OnPart = func(part *sketch.Part) {
		if p.count.add(part); p.tables != nil {
			p.tables.note(part)
		}
		altered, err := v.hasher.check(v.rows, part, p.derived)
		p.altered, p.err = p.altered+altered, cmp.Or(p.err, err)
	}
	p.derived = v.state.OfLog && len(v.state.Archived)+len(v.state.Forgotten) == 0 && !r.compacts(l.Topic)
	if sink.Bounds, err = ingest.BoundsOf(v.store, l.Topic, l.Partition); err != nil {
		return false, v.stateError(err)
	}
	accounts := append(append([]sketch.LedgerRow{l.AtStart()}, checkpoints...), *l)
	for k := 0; k+1 < len(accounts) && !isGone; k++ {
		if begin, end := &accounts[k], &accounts[k+1]; begin.Next < end.Next {
			if err := cmp.Or(p.stretch(ctx, begin, end), p.err); err != nil {
				return false, err
			}
		}
	}
	if isGone {
		p.log.Warn("partition cannot be verified", "reason", missing.reason)
		p.whole, p.from, p.out.Digest = false, l.Next, digestUnverifiable
	}
	if p.tables != nil && p.whole {
		if err := p.table(); err != nil {
			return false, err
		}
	}
	p.finish()
	return p.whole, nil
}

// stretch reads the log between two accounts again and compares.
func (p *proof) stretch(ctx context.Context, begin, end *sketch.LedgerRow) error {
	found, lost, double := gone, int64(0), int64(0)
	p.derived = p.derived && p.whole && begin.Next >= p.logStart
	if low := max(begin.Next, p.logStart); low < end.Next {
		// Where the log begins inside a stretch, its rows can be compared all the same.
		if err := p.memory.AcceptGap(end.Topic, end.Partition, low); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		p.count.row = *begin
		p.sink.ResumeAt(end.Topic, end.Partition, begin.Watermark)
		err := p.reader.read(ctx, end.Topic, end.Partition, low, end.Next, p.logStart, p.into)
		unread, ok := errors.AsType[*unreadableError](err)
		switch {
		case ok:
			p.missing, p.logStart = unread, max(p.logStart, unread.logStart)
		case err != nil:
			return err
		case low == begin.Next:
			found, lost, double = p.count.judge(end, p.reader.compacts(end.Topic))
		}
	}
	switch {
	case found == proved:
		return nil
	case found == compacted && p.tables != nil:
		p.compacted, p.thinned, p.from = true, true, end.Next
		return nil
	}
	if found == different {
		p.log.Error("account differs", "from", begin.Next, "to", end.Next, "state", counts(end), "log",
			counts(&p.count.row))
		p.out.Lost, p.out.Double, p.out.Digest, p.differs = p.out.Lost+lost, p.out.Double+double, digestMismatch, true
		return nil
	}
	attributes := []any{"from", begin.Next, "to", end.Next, "reason", "the log no longer holds every record that was read",
		"records", end.Records() - p.count.row.Records()}
	if found == gone {
		reason := fmt.Sprintf("the log starts at offset %d", p.logStart)
		if end.Gap > begin.Gap {
			reason = "part of it was declared lost"
		}
		if p.missing != nil {
			reason = p.missing.reason
		}
		attributes = []any{"from", begin.Next, "to", end.Next, "reason", reason}
	}
	p.log.Warn("stretch cannot be verified", attributes...)
	p.whole, p.from, p.missing = false, end.Next, nil
	return nil
}

// finish fills in what has been proved.
func (p *proof) finish() {
	l := p.ledger
	switch {
	case p.out.Digest != digestOK:
	case p.altered > 0:
		p.log.Error("rows are not what the log has at their offsets", "rows", p.altered)
		p.out.Digest = digestMismatch
	case p.from == l.Next && l.Next > l.Start && !p.compacted:
		p.out.Digest = digestUnverifiable
	}
	p.out.Unverifiable += p.from - l.Start
	p.out.CheckedFrom = p.from
	if p.out.Digest != digestOK {
		p.out.CheckedFrom = min(max(l.Start, p.logStart), l.Next)
	}
}

// counts is what an account differs in, for the log.
func counts(l *sketch.LedgerRow) slog.Value {
	return slog.GroupValue(slog.Int64("applied", l.Applied), slog.Int64("rejected", l.Rejected),
		slog.Int64("control", l.Control), slog.Int64("aborted", l.Aborted), slog.Int64("holes", l.Holes),
		slog.Int64("gap", l.Gap), slog.String("digest", l.Digest.String()))
}

// compareRows finds the rows in which two samples of the same accounts differ: a row of the topic that the state lacks
// is lost, a row of the state that the topic does not give is double, one whose content differs is a mismatch alone.
func (v *verification) compareRows(memory *sketch.Store) error {
	have := v.rows
	want, err := v.hasher.rowsOf(memory, v.state.Partitions, v.Progress)
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
