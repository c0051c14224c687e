package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/space"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/failpoint"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// failuresFile lists, in the state directory, when storage errors ended the daemon: one RFC 3339 time a line.
const failuresFile = "storage-errors"

// A disk that fails again and again is not tried for ever: every try may write to it.
const (
	maxFailures   = 3
	failureWindow = 10 * time.Minute
)

// State is what a model keeps on disk: sample and ledger, the space they need, what their witnesses say, and how often
// storage has failed.
type State struct {
	Settings *config.Model
	Log      *slog.Logger
	Dir      string
	Store    *sketch.Store // sample, ledger, and rows for dead letters; safe for concurrent use
	Guard    *space.Guard  // free space of the disk; training waits while it is low
	Counters *Counters     // numbers of versions, as a witness against a store that is lost

	Empty     bool         // when it was opened
	Rollbacks int64        // offsets that were applied once and have to be read again
	Published []format.Cut // of the newest version in the store; of the trainer's goroutine
	Before    string       // how far the topics had been read for that version, empty if none was cut from them

	fresh   atomic.Bool // it is empty, and nobody has asked the group
	begun   atomic.Bool // it was not empty, or is known to be the first one
	counted atomic.Bool // a storage error of this run
	closed  bool        // of the goroutine that closes
}

// Open opens the state of a model, unless its storage has failed too often. The error carries its exit code.
func Open(ctx context.Context, o *part.Options) (_ *State, err error) {
	dir, storage := o.Config.StatePath(o.Settings), &o.Config.Storage
	options := ingest.StoreOptions(o.Settings)
	options.Dir, options.Logger = dir, o.Log
	options.MinFreeBytes, options.AllowNetwork = int64(storage.MinFreeBytes), storage.AllowNetwork
	if dead := &o.Settings.Input.DeadLetter; dead.Topic != "" {
		options.OutboxRows = dead.MaxRows
	}
	team := &o.Settings.Shard
	options.Mirror, options.Merges = team.IsShard(), team.IsTrainer() || team.From.Topic != "" || team.IsGiven()
	s := &State{Settings: o.Settings, Log: o.Log, Guard: space.New(dir, options.MinFreeBytes, o.Log), Dir: dir}
	if err := clearNotes(dir, o.Log); err != nil {
		return nil, ingest.StateError(err, dir)
	}
	// Before anything is written.
	if err := failedOften(dir, time.Now()); err != nil {
		return nil, err
	}
	// A restore or rebuild that was cut short is ended first: until then the directory is neither the old nor the new
	// one.
	if err := statedir.Finish(dir, o.Log); err != nil {
		return nil, ingest.StateError(err, dir)
	}
	if o.CheckState != nil {
		err = o.CheckState(ctx, dir)
	}
	if err == nil {
		err = binding.CheckSchema(dir, o.Settings)
	}
	if errors.Is(
		err,
		config.ErrModelFileDamaged,
	) { // it guards against another schema, which is the configuration's to know
		o.Log.Error(
			"settings of the state cannot be read",
			"note", "those of the configuration are taken for them and written in their place",
			"error",
			err,
		)
		err = nil
	}
	if err == nil {
		s.Store, err = sketch.Open(ctx, options)
	}
	if err != nil {
		return nil, ingest.StateError(err, dir)
	}
	// Subjects that were erased while this process did not run are removed before a row is read.
	forgotten := ingest.Forgotten{Dir: dir, Model: o.Settings, Log: o.Log}
	if err = forgotten.Recall(ctx, s.Store, dir); err == nil {
		err = forgotten.Keep(s.Store)
	}
	if err == nil && !options.Mirror { // what a shard keeps for its merge topic is of no use to others
		err = s.Store.Unmirror()
	}
	if err == nil {
		err = s.settle()
	}
	if err != nil {
		return nil, ingest.StateError(errors.Join(err, s.Store.Close()), dir)
	}
	s.Counters = readCounters(dir, o.Log)
	statedir.Warn(dir, o.Log)
	s.Guard.Look()
	s.Empty = len(s.Store.Ledger()) == 0
	s.fresh.Store(s.Empty)
	s.begun.Store(!s.Empty)
	for _, r := range s.Store.Rollbacks() {
		s.Rollbacks += r.Offsets()
	}
	return s, nil
}

// settle makes what operators have accepted final.
func (s *State) settle() error {
	if err := os.Remove(filepath.Join(s.Dir, config.AcceptedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// Close closes the store. It may be called again.
func (s *State) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.Store.Close()
}

// CompareWith looks at the newest version in the store of snapshots, which is a witness outside the state directory: an
// older copy of that directory brings its own WITNESS along.
func (s *State) CompareWith(versions *publish.Store) {
	if versions == nil {
		return
	}
	name := s.Settings.Name
	latest, err := versions.Alias(name, snapshot.Latest)
	var manifest snapshot.Manifest
	switch {
	case err == nil:
		manifest, err = versions.Manifest(name, latest.Version)
	case errors.Is(err, snapshot.ErrSignature):
		if manifest, err = versions.Newest(name, nil); err != nil {
			return
		}
		latest.Version = manifest.Version
	default:
		return // nothing was published, or what there is cannot be read, which the first publication says
	}
	if err := s.Counters.Note(publish.Numbers{Version: latest.Version, Sequence: latest.Sequence}); err != nil {
		s.Log.Error("numbers of the versions not kept", "error", err)
	}
	var cut []format.Cut
	if err == nil {
		cut, err = versions.Cut(&manifest)
	}
	if err != nil {
		s.Log.Warn("newest version cannot be read: state is not compared with it", "version", latest.Version, "error",
			err)
		return
	}
	s.Published = cut
	for _, c := range cut {
		if slices.Contains(s.Settings.AllTopics(), c.Topic) && c.Next > 0 {
			s.Before = fmt.Sprintf("version %d in %s was cut at %s/%d: %d", latest.Version, s.Settings.Publish.Store,
				c.Topic, c.Partition, c.Next)
		}
	}
	behind, partitions, first := int64(0), 0, ""
	// A topic that was deleted and made again has offsets from 0: they say nothing of a cut of the one before.
	incarnation := make(map[string]uint32)
	for _, l := range s.Store.Ledger() {
		incarnation[l.Topic] = max(incarnation[l.Topic], l.Incarnation)
	}
	for _, c := range cut {
		if incarnation[c.Topic] > 0 {
			continue // which topic of that name was cut is not said
		}
		if next, ok := s.Store.Position(c.Topic, c.Partition); ok && next < c.Next {
			behind += c.Next - next
			if partitions++; first == "" {
				first = fmt.Sprintf("%s/%d is at offset %d, the version was cut at %d", c.Topic, c.Partition, next,
					c.Next)
			}
		}
	}
	if behind > 0 {
		s.Log.Warn("state is behind the newest version", "note", "offsets are read again before the next one is published",
			"version", latest.Version, "partitions", partitions, "offsets", behind, "first", first)
	}
	s.Rollbacks = max(s.Rollbacks, behind)
}

// BehindPublished says where the state, or the cut of a refit that was taken before the state had caught up, is behind
// the newest version, or is empty: published cuts only grow. cut is nil for an update. ends are those of the logs, -1
// where unknown: a log that ends below a cut is not the one that was cut.
func (s *State) BehindPublished(cut []report.Cut, ends map[consumer.TopicPartition]int64) string {
	seen := make(map[consumer.TopicPartition]int64, len(cut))
	for _, own := range cut {
		seen[consumer.TopicPartition{Topic: own.Topic, Partition: own.Partition}] = own.Next
	}
	for _, c := range s.Published {
		if !slices.Contains(s.Settings.AllTopics(), c.Topic) {
			continue
		}
		next, _ := s.Store.Position(c.Topic, c.Partition)
		tp := consumer.TopicPartition{Topic: c.Topic, Partition: c.Partition}
		if cut != nil { // a partition that the cut does not name had no record yet when it was taken
			next = min(next, seen[tp])
		}
		if end, known := ends[tp]; next < c.Next && !(known && end >= 0 && end < c.Next) {
			return fmt.Sprintf("%s is at offset %d, the newest version was cut at %d", tp, next, c.Next)
		}
	}
	if cut != nil {
		s.Published = nil // caught up, and so are the cuts of later refits
	}
	return ""
}

// Holds reports whether everything below a cut is in the state, so that no restart comes to less.
func (s *State) Holds(cut []format.Cut) bool {
	for _, c := range cut {
		if next, ok := s.Store.Position(c.Topic, c.Partition); !ok || next < c.Next {
			return false
		}
	}
	return true
}

// Begin stores where a partition starts.
func (s *State) Begin(topic string, partition int32, offset int64) error {
	s.begun.Store(true)
	return s.Store.Begin(topic, partition, offset)
}

// HasBegun reports whether a partition was begun, in this run or before it.
func (s *State) HasBegun() bool { return s.begun.Load() }

// KnownNew notes that nothing was lost where the state is empty: offsets of the group are no sign of a loss.
func (s *State) KnownNew() { s.fresh.Store(false) }

// TakeFresh reports once whether the state is new.
func (s *State) TakeFresh() bool { return s.fresh.Swap(false) }

// LastRecord returns what the ledger knows of the last record applied of a partition.
func (s *State) LastRecord(topic string, partition int32) (offset int64, crc uint32, ok bool) {
	l, ok := s.Store.Row(topic, partition)
	return l.LastOffset, l.LastCRC, ok && l.LastOffset >= 0
}

// Halt writes a halt at an offset into the ledger.
func (s *State) Halt(topic string, partition int32, offset int64, reason string) (err error) {
	if _, known := s.Store.Position(topic, partition); !known {
		err = s.Store.Begin(topic, partition, offset)
	}
	return errors.Join(err, s.Store.Halt(topic, partition, reason))
}

// Witness writes down how far the state has come. A full disk is the guard's to report.
func (s *State) Witness() error {
	if err := s.Store.Witness(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return s.StorageError(err)
	}
	return nil
}

// Keep stores the precisions and covariances of a champion, so that a restart continues where it stopped.
func (s *State) Keep(ch *fitted.Fitted) error {
	b, err := ch.Checkpoint()
	if err = errors.Join(err, failpoint.At(failpoint.DaemonKeep)); err == nil {
		err = durable.WriteFile(filepath.Join(s.Dir, config.PosteriorFile), 0o600, durable.Bytes(b))
	}
	if err != nil {
		return ingest.StateError(fmt.Errorf("model: keep the posterior: %w", err), s.Dir)
	}
	return nil
}

// Kept returns what keep stored. The error wraps fs.ErrNotExist where nothing is stored.
func (s *State) Kept() ([]byte, error) {
	return os.ReadFile(filepath.Join(s.Dir, config.PosteriorFile))
}

// Relearn folds in the training rows from after a cut, oldest first. The trainer of a team reads the events after it
// from the live topic.
func (s *State) Relearn(learning *cycle.Cycle, cut []report.Cut) error {
	relearn := ingest.Relearn
	if learning.Forwarded {
		relearn = ingest.Recall
	}
	sample, err := s.Store.Sample()
	if err != nil {
		return ingest.StateError(err, s.Dir)
	}
	panicked, err := relearn(s.Settings, learning, sample, cut)
	if panicked > 0 {
		s.Log.Error("rows not folded in again", "reason", "panic", "rows", panicked)
	}
	return err
}

// StorageError gives a storage error its exit code and counts it, once in a run: reading and refits may both meet the
// one that ends it.
func (s *State) StorageError(err error) error {
	if errors.Is(err, sketch.ErrStorage) && !errors.Is(err, sketch.ErrGone) && s.counted.CompareAndSwap(false, true) {
		if noteErr := noteFailure(s.Dir, time.Now()); noteErr != nil {
			s.Log.Error("storage error not recorded", "error", noteErr)
		}
	}
	return ingest.StateError(err, s.Dir)
}

// noteFailure appends the time of a storage error, as well as a failing disk allows.
func noteFailure(dir string, now time.Time) error {
	f, err := os.OpenFile(filepath.Join(dir, failuresFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, report.Time(now))
	return errors.Join(err, f.Sync(), f.Close())
}

// failedOften refuses a state whose storage failed maxFailures times within failureWindow.
func failedOften(dir string, now time.Time) error {
	path := filepath.Join(dir, failuresFile)
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &report.ExitError{
			Code: report.ExitState,
			Err:  fmt.Errorf("model: user id %d: %w", os.Geteuid(), err),
			Path: path,
		}
	}
	recent := 0
	for line := range strings.Lines(string(text)) {
		at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(line))
		if age := now.Sub(at); err == nil && age >= 0 &&
			age < failureWindow { // a clock that was set back does not keep the daemon down
			recent++
		}
	}
	if recent < maxFailures {
		return nil
	}
	return &report.ExitError{Code: report.ExitState, Path: path,
		Err: fmt.Errorf("model: %s: storage error %d times in %v: check the disk, then remove this file or wait", path,
			recent, failureWindow)}
}
