package sketch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// Open opens the state in o.Dir, or makes one. It reads all rows once, and checks them. The error wraps ErrLocked, ErrCorrupt, ErrFormat
// or ErrConfig where one of them is the cause. ctx can end the reading.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("sketch: storage.path is empty")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	return openDir(ctx, o, func(stored *settings) (settings, error) {
		want := o.settings()
		if stored != nil {
			return stored.succeed(want, o.DrawSeed)
		}
		want.draw(o.DrawSeed)
		return want, nil
	})
}

// OpenExisting opens a state under the settings it was made with, for inspection. The error wraps ErrNoState if there is none.
func OpenExisting(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	if _, err := readWitness(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
	}
	return openDir(ctx, Options{Dir: dir, Logger: log}, func(stored *settings) (settings, error) {
		if stored == nil {
			return settings{}, fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
		}
		return *stored, nil
	})
}

// NewMemory returns a store that keeps everything in memory and loses it at Close: the same sample without a disk.
func NewMemory(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return load(context.Background(), newMemory(), &o, func(*settings) (settings, error) {
		want := o.settings()
		want.draw(o.DrawSeed)
		return want, nil
	})
}

// draw fills what a new state needs and the options left open.
func (s *settings) draw(seed bool) {
	var b [8]byte
	rand.Read(b[:]) // never fails
	if s.Lineage == "" {
		s.Lineage = drawLineage()
	}
	if seed {
		s.Seed = binary.NativeEndian.Uint64(b[:])
	}
}

// openDir opens Badger below o.Dir between checks that it has not lost what the witness remembers: an emptied database opens without a word.
func openDir(ctx context.Context, o Options, choose func(stored *settings) (settings, error)) (*Store, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w, err := readWitness(o.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if w != nil && w.Format > formatVersion {
		return nil, fmt.Errorf("sketch: %s has format %d, this build reads up to %d: %w", o.Dir, w.Format, formatVersion, ErrFormat)
	}
	dir := filepath.Join(o.Dir, "rows")
	if err := checkManifest(dir, w != nil); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	d, err := openDisk(dir, o.MemTableBytes, log)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	s, err := load(ctx, d, &o, func(stored *settings) (settings, error) {
		switch {
		case w != nil && stored == nil:
			return settings{}, corrupt("%s is empty, but %s says that it held lineage %s", dir, witnessName, w.Lineage)
		case w != nil && stored.origin() != w.Lineage:
			return settings{}, corrupt("%s holds lineage %s, but %s says %s", dir, stored.origin(), witnessName, w.Lineage)
		}
		return choose(stored)
	})
	if err == nil && (w == nil || w.Format < formatVersion) {
		err = writeWitness(o.Dir, witness{Format: formatVersion, Lineage: s.settings.origin()})
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	log.Info("state opened", "dir", o.Dir, "lineage", s.settings.Lineage, "rows", len(s.all[Train].heap),
		"partitions", len(s.ledger), "seconds", time.Since(start).Seconds())
	return s, nil
}

// checkManifest refuses a Badger directory without its MANIFEST: Badger would open it empty and delete the tables.
func checkManifest(dir string, expected bool) error {
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sketch: %w", err)
	}
	for _, pattern := range []string{"*.sst", "*.mem"} {
		if names, _ := filepath.Glob(filepath.Join(dir, pattern)); len(names) > 0 {
			expected = true
		}
	}
	if expected {
		return corrupt("%s has lost its MANIFEST: restore a backup, or remove the state directory and read the log again", dir)
	}
	return nil
}

// load brings the state of a backend into memory. choose gets the stored settings, nil if there are none, and returns those to use.
func load(ctx context.Context, b backend, o *Options, choose func(stored *settings) (settings, error)) (*Store, error) {
	var stored *settings
	err := b.view(func(c cut) error {
		value, err := c.get([]byte{prefixSettings})
		if err != nil || value == nil {
			return err
		}
		s, err := decodeSettings([]byte{prefixSettings}, value)
		stored = &s
		return err
	})
	if err != nil {
		return nil, err
	}
	if stored != nil && stored.Format > formatVersion {
		return nil, fmt.Errorf("sketch: state has format %d, this build reads up to %d: %w", stored.Format, formatVersion, ErrFormat)
	}
	chosen, err := choose(stored)
	if err != nil {
		return nil, err
	}
	current := chosen
	if stored != nil {
		current = *stored
	}
	s := &Store{settings: current, backend: b, places: map[partition]int32{}, checkpoints: map[int32][]mark{}, markers: map[Digest]Marker{},
		checkpointEvery: cmp.Or(o.CheckpointEvery, DefaultCheckpointEvery)}
	s.pending.rows, s.pending.changed = map[rowKey]int32{}, map[int32]bool{}
	s.makeReservoirs()
	if err := b.view(func(c cut) error { return s.fill(ctx, c) }); err != nil {
		return nil, err
	}
	chosen.Format = formatVersion
	if stored == nil {
		for _, m := range o.Forgotten {
			s.putMarker(&m)
			chosen.Partial = true
		}
		s.settings = chosen
		s.pending.putSettings(&chosen)
		err = s.commit(nil)
	} else if !reflect.DeepEqual(*stored, chosen) {
		err = s.resize(chosen)
	}
	if err != nil {
		return nil, fmt.Errorf("sketch: write settings: %w", err)
	}
	return s, nil
}

// fill takes what a cut has into memory.
func (s *Store) fill(ctx context.Context, c cut) error {
	acc, err := s.scan(ctx, c, func(row *scanned) error {
		s.all[row.sample].load(entry{ranked{row.rank, row.id}, int32(row.place), row.size()}, row.group)
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range acc.ledger {
		s.adopt(l)
	}
	for i, r := range s.all {
		r.evicted, r.threshold = acc.of(i)
		if i >= int(NumRoles) {
			r.eligible = acc.classes[i-int(NumRoles)].eligible
		}
		r.restore()
	}
	for _, m := range acc.markers {
		s.markers[m.Hash] = m
	}
	s.reasons = acc.reasons
	if err := s.loadCheckpoints(c); err != nil {
		return err
	}
	aux, err := c.get([]byte{prefixAux})
	if err != nil || aux == nil {
		return err
	}
	aux, err = unseal([]byte{prefixAux}, aux)
	s.aux = bytes.Clone(aux)
	return err
}
