package sketch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/outbox"
	"github.com/refitd/refitd/sketch/internal/piece"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// Open opens the state in o.Dir, or makes one. It reads all rows once, and checks them and the files they are in. A
// state behind its witness is taken as it is: Rollbacks says what has to be read again. The error wraps ErrLocked,
// ErrCorrupt, ErrFormat, ErrConfig or ErrSpace where one of them is the cause. ctx can end the reading.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("sketch: Dir is empty")
	}
	return openDir(ctx, o, true, o.choose)
}

// OpenExisting opens a state under the settings it was made with, for inspection. It leaves the witness alone. The
// error wraps ErrNoState if dir has no state.
func OpenExisting(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	if _, err := witness.Read(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
	}
	return openDir(ctx, Options{Dir: dir, Logger: log}, false, func(stored *policy.Settings) (policy.Settings, error) {
		if stored == nil {
			return policy.Settings{}, fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
		}
		return *stored, nil
	})
}

// NewMemory returns a store that keeps everything in memory and loses it at Close: the same sample without a disk.
func NewMemory(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return load(context.Background(), storage.NewMemory(), &o, o.choose)
}

// choose returns the settings that continue those stored. stored is nil for a new state.
func (o *Options) choose(stored *policy.Settings) (policy.Settings, error) {
	want := o.settings()
	if stored != nil {
		return stored.Succeed(want, o.DrawSeed)
	}
	want.Draw(o.DrawSeed)
	return want, nil
}

// rowsName is the directory of the database in a state directory.
const rowsName = "rows"

// A home is the directory of a store: locked, and watched over by a witness.
type home struct {
	dir       string
	lock      *Lock
	witnesses bool       // whether the store keeps the witness
	mu        sync.Mutex // one writer of the witness
	witness   []byte     // as it was written last, nil before
	rollbacks []Rollback
}

// openDir opens Badger below o.Dir after everything that can be checked without it: a full disk ends the process once
// its files are mapped, damaged tables panic in its goroutines, and a database that has lost its MANIFEST or its log
// opens without a word.
func openDir(ctx context.Context, o Options, witnesses bool,
	choose func(stored *policy.Settings) (policy.Settings, error)) (_ *Store, err error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if _, err := readWitness(o.Dir); err != nil { // of another format nothing is touched
		return nil, err
	}
	if err := o.place().Preflight(witnesses, log); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Dir, rowsName)
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	h := &home{dir: o.Dir, witnesses: witnesses}
	if h.lock, err = LockDir(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.lock.Close())
		}
	}()
	w, err := readWitness(o.Dir)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := storage.CheckFiles(ctx, dir, w != nil); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	d, err := storage.OpenDisk(dir, o.MemTableBytes, log)
	if err != nil {
		return nil, err
	}
	s, err := load(ctx, d, &o, func(stored *policy.Settings) (policy.Settings, error) {
		switch {
		case w != nil && stored == nil:
			return policy.Settings{}, fault.Corrupt("%s is empty, but %s says that it held lineage %s", dir, witness.Name,
				w.Lineage)
		case w != nil && stored.First() != w.Lineage:
			return policy.Settings{}, fault.Corrupt("%s holds lineage %s, but %s says %s", dir, stored.First(), witness.Name,
				w.Lineage)
		}
		return choose(stored)
	})
	if err == nil {
		s.home = h
		err = s.settle(w, log)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if w == nil {
		// The settings leave the log of the new database, so that damage to the log cannot take them away.
		if err := d.Close(); err != nil {
			return nil, err
		}
		if d, err = storage.OpenDisk(dir, o.MemTableBytes, log); err != nil {
			return nil, err
		}
		s.backend = d
	}
	rows, _ := s.Size()
	log.Info("state opened", "dir", o.Dir, "lineage", s.settings.Lineage, "rows", rows[Train]+rows[Select]+rows[Gate],
		"partitions", s.ledger.Size(), "seconds", time.Since(start).Seconds())
	return s, nil
}

// place is where the options say that the state is kept.
func (o *Options) place() storage.Place {
	return storage.Place{Dir: o.Dir, MemTableBytes: o.MemTableBytes, MinFreeBytes: o.MinFreeBytes,
		AllowNetwork: o.AllowNetwork}
}

// settle compares a store with its witness and, if it keeps one, takes up what the witness has and the ledger has not.
func (s *Store) settle(w *Witness, log *slog.Logger) error {
	if w != nil {
		behind, err := witness.Compare(w, &s.ledger, s.home.dir)
		if err != nil {
			return err
		}
		s.home.rollbacks = behind
		for _, r := range behind {
			log.Warn("state is behind its witness: offsets are read again", "topic", r.Topic, "partition", r.Partition,
				"next", r.Next, "witnessed", r.Witnessed, "offsets", r.Offsets())
		}
		for _, t := range w.Partitions {
			if !s.home.witnesses {
				break
			}
			if newest, _ := s.ledger.Incarnation(t.Topic); newest > t.Incarnation {
				continue
			}
			if err := s.Begin(t.Topic, t.Partition, t.Start); err != nil {
				return err
			}
		}
	}
	return s.Witness()
}

// load brings the state of a backend into memory. choose gets the stored settings, nil for a new state, and returns
// those to use.
func load(ctx context.Context, b storage.Backend, o *Options,
	choose func(stored *policy.Settings) (policy.Settings, error)) (*Store, error) {
	var was *policy.Settings
	err := b.View(func(c storage.Cut) error {
		s, ok, err := storage.Stored(c, []byte{codec.PrefixSettings}, codec.DecodeSettings)
		if ok {
			was = &s
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if was != nil && was.Format > codec.FormatVersion {
		return nil, fmt.Errorf("sketch: format %d is newer than %d, the newest this build reads: %w", was.Format,
			codec.FormatVersion, ErrFormat)
	}
	chosen, err := choose(was)
	if err != nil {
		return nil, err
	}
	current := chosen
	if was != nil {
		current = *was
	}
	s := &Store{
		progress:        storage.ProgressOf(ctx),
		settings:        current,
		backend:         b,
		ledger:          ledger.NewBook(),
		bounds:          map[int32]*piece.Bound{},
		markers:         map[Digest]Marker{},
		outboxRows:      o.OutboxRows,
		checkpointEvery: cmp.Or(o.CheckpointEvery, DefaultCheckpointEvery),
		cost:            o.Cost,
		merges:          o.Merges,
	}
	s.samples = reservoir.NewSamples(&s.settings, s.merges)
	if err := b.View(func(c storage.Cut) error { return s.fill(ctx, c) }); err != nil {
		return nil, err
	}
	for place := range int32(s.ledger.Size()) {
		s.show(place)
	}
	s.show()
	if err := s.findNotes(); err != nil {
		return nil, err
	}
	chosen.Format = codec.FormatVersion
	if was == nil {
		for _, m := range o.Forgotten {
			s.putMarker(&m)
			chosen.Partial = true
		}
		s.settings = chosen
		s.pending.PutSettings(&chosen)
		err = s.commit(nil)
	} else if chosen.Unsettled || !reflect.DeepEqual(*was, chosen) || s.samples.AreOver() {
		err = s.resize(chosen)
	}
	if err == nil && o.Mirror {
		err = s.startMirror()
	}
	if err != nil {
		return nil, fmt.Errorf("sketch: write settings: %w", err)
	}
	return s, nil
}

// fill takes what a cut has into memory.
func (s *Store) fill(ctx context.Context, c storage.Cut) error {
	acc, err := s.frame().Scan(ctx, c, func(row *audit.Scanned) error {
		s.samples.All[row.Sample].Load(s.entryOf(row, int32(row.Place)), row.Group)
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range acc.Ledger {
		s.ledger.Adopt(l)
	}
	if err := s.loadStubs(c); err != nil {
		return err
	}
	for i, r := range s.samples.All {
		r.Evicted, r.Threshold = acc.Of(i)
		if i >= int(NumRoles) {
			r.Eligible = acc.Classes[i-int(NumRoles)].Eligible
		}
		r.Restore()
	}
	for _, m := range acc.Markers {
		s.markers[m.Hash] = m
	}
	s.reasons = acc.Reasons
	if err := s.loadShares(c); err != nil {
		return err
	}
	if err := s.loadCheckpoints(c); err != nil {
		return err
	}
	if err := s.loadBounds(c); err != nil {
		return err
	}
	waiting := func(key []byte) { s.outbox = append(s.outbox, string(key)) }
	if err := outbox.Scan(c, s.ledger.All(), waiting); err != nil {
		return err
	}
	aux, _, err := storage.Stored(c, []byte{codec.PrefixAux}, codec.Unseal)
	s.aux = bytes.Clone(aux)
	return err
}
