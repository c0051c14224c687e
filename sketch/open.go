package sketch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
			want.Lineage = stored.Lineage
			if o.DrawSeed {
				want.Seed = stored.Seed
			}
			return want, stored.differs(want)
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
	s, err := load(context.Background(), newMemory(), func(*settings) (settings, error) {
		want := o.settings()
		want.draw(o.DrawSeed)
		return want, nil
	})
	if err != nil {
		return nil, err
	}
	s.outboxRows = o.OutboxRows
	return s, nil
}

// draw fills what a new state needs and the options left open.
func (s *settings) draw(seed bool) {
	var b [24]byte
	rand.Read(b[:]) // never fails
	if s.Lineage == "" {
		s.Lineage = hex.EncodeToString(b[:16])
	}
	if seed {
		s.Seed = binary.NativeEndian.Uint64(b[16:])
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
	s, err := load(ctx, d, func(stored *settings) (settings, error) {
		switch {
		case w != nil && stored == nil:
			return settings{}, corrupt("%s is empty, but %s says that it held lineage %s", dir, witnessName, w.Lineage)
		case w != nil && stored.Lineage != w.Lineage:
			return settings{}, corrupt("%s holds lineage %s, but %s says %s", dir, stored.Lineage, witnessName, w.Lineage)
		}
		return choose(stored)
	})
	if err == nil && w == nil {
		err = writeWitness(o.Dir, witness{Format: formatVersion, Lineage: s.settings.Lineage})
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	s.outboxRows = o.OutboxRows
	log.Info("state opened", "dir", o.Dir, "lineage", s.settings.Lineage, "rows", len(s.reservoirs[Train].heap),
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
func load(ctx context.Context, b backend, choose func(stored *settings) (settings, error)) (*Store, error) {
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
	s := &Store{settings: chosen, backend: b, places: map[partition]int32{}}
	s.pending.rows, s.pending.changed = map[rowKey]int32{}, map[int32]bool{}
	for role := range s.reservoirs {
		s.reservoirs[role] = newReservoir(&chosen, Role(role))
	}
	var aux []byte
	err = b.view(func(c cut) error {
		acc, err := s.scan(ctx, c, func(row *scanned) error {
			r := s.reservoirs[row.role]
			r.heap = append(r.heap, entry{
				rank: r.rank(row.id.h(), row.weight, row.time), id: row.id,
				ledger: int32(row.place), size: uint32(len(row.key) + len(row.value)),
			})
			return nil
		})
		if err != nil {
			return err
		}
		for _, l := range acc.ledger {
			s.adopt(l)
		}
		for role, r := range s.reservoirs {
			r.evicted, r.threshold = acc.evicted[role], acc.threshold[role]
			r.restore()
		}
		s.reasons = acc.reasons
		if err := scanLetters(c, s.ledger, func(key []byte) { s.outbox = append(s.outbox, string(key)) }); err != nil {
			return err
		}
		if aux, err = c.get([]byte{prefixAux}); err != nil || aux == nil {
			return err
		}
		aux, err = unseal([]byte{prefixAux}, aux)
		s.aux = bytes.Clone(aux)
		return err
	})
	if err != nil {
		return nil, err
	}
	if stored == nil || *stored != chosen {
		key := []byte{prefixSettings}
		if err := b.commit([]op{{key: key, value: appendSettings(nil, key, &chosen)}}); err != nil {
			return nil, fmt.Errorf("sketch: write settings: %w", err)
		}
	}
	return s, nil
}

// newReservoir returns the empty sample of a role. Select has one row more than Gate where HoldoutSize is odd.
func newReservoir(s *settings, role Role) *reservoir {
	r := &reservoir{}
	switch role {
	case Train:
		r.capacity, r.rule = s.Size, newRule(s, s.HalfLife)
	case Select:
		r.capacity, r.rule = s.HoldoutSize-s.HoldoutSize/2, newRule(s, s.HoldoutHalfLife)
	case Gate:
		r.capacity, r.rule = s.HoldoutSize/2, newRule(s, s.HoldoutHalfLife)
	}
	if s.Identity != "" {
		r.positions = map[identity]int32{}
	}
	return r
}
