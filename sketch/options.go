package sketch

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// DefaultMemTableBytes bounds one Badger transaction to about 2.4 MB and its memory tables to 48 MiB.
const DefaultMemTableBytes = 16 << 20

// Options say where the state is kept and what the sample is. The settings from Size to Weighted are bound to the state when it is
// made: a sample kept under one rule cannot go on under another.
type Options struct {
	Dir string // state directory, made if absent; ignored by NewMemory

	Size            int           // training rows kept at most, >= 1
	HoldoutSize     int           // held-out rows kept at most, half of them Select and half Gate; >= 2 if HoldoutFraction > 0
	HoldoutFraction float64       // share of the events that is held out, in [0, 1)
	HoldoutBy       string        // name of the field whose value Record.HoldoutKey carries: whole entities are held out; "" = single events
	HalfLife        time.Duration // an event's chance to stay halves in this time of event time; 0 = no forgetting; else >= 1ms
	HoldoutHalfLife time.Duration // the same for held-out rows, at most HalfLife; 0 = HalfLife
	// Identity is the name of the field whose value Record.Identity carries: of the events of one identity the newest is kept, and the
	// chance to be kept is the same for each identity. An identity whose HoldoutBy entity changes can be kept on both sides.
	// "" = events are known by topic, partition and offset, so that a producer's duplicates count twice.
	Identity string
	Weighted bool   // events carry weights: Record.Weight moves the priority
	Seed     uint64 // of all priorities; equal seeds over equal logs give equal samples
	DrawSeed bool   // ignore Seed: take that of the existing state, or draw one for a new state

	Lineage       string       // id of a new state; "" = drawn at random. An existing state keeps its own
	ConfigHash    string       // kept for State, never compared
	Logger        *slog.Logger // nil = silent
	MemTableBytes int64        // Badger's memory table, >= 8 MiB; 0 = DefaultMemTableBytes
	MinFreeBytes  int64        // Open refuses a file system with less free space than this, or than two memory tables
}

// Validate returns every bad field with its value, or nil.
func (o *Options) Validate() error {
	var errs []error
	bad := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("sketch: %s is %v, want %s", key, value, want))
	}
	if o.Size < 1 || o.Size > maxRows {
		bad("sample.size", o.Size, fmt.Sprintf("1 to %d", maxRows))
	}
	if !(o.HoldoutFraction >= 0 && o.HoldoutFraction < 1) {
		bad("sample.holdout.fraction", o.HoldoutFraction, "a number in [0, 1)")
	}
	if o.HoldoutSize < 0 || o.HoldoutSize > maxRows || o.HoldoutFraction > 0 && o.HoldoutSize < 2 {
		bad("sample.holdout.size", o.HoldoutSize, fmt.Sprintf("2 to %d", maxRows))
	}
	if o.HalfLife < 0 || o.HalfLife > 0 && o.HalfLife < time.Millisecond {
		bad("sample.half_life", o.HalfLife, "0 or at least 1ms")
	}
	if h := o.HoldoutHalfLife; h < 0 || h > 0 && h < time.Millisecond || o.HalfLife > 0 && h > o.HalfLife {
		bad("sample.holdout.half_life", h, "0 or between 1ms and sample.half_life")
	}
	if o.MemTableBytes != 0 && o.MemTableBytes < 8<<20 {
		bad("the memory table", o.MemTableBytes, "at least 8 MiB")
	}
	return errors.Join(errs...)
}

// settings are the part of Options that is bound to a state, as stored.
type settings struct {
	Format          int           `json:"format"`
	Lineage         string        `json:"lineage"`
	ConfigHash      string        `json:"config_hash"`
	Size            int           `json:"size"`
	HoldoutSize     int           `json:"holdout_size"`
	HoldoutFraction float64       `json:"holdout_fraction"`
	HoldoutBy       string        `json:"holdout_by"`
	HalfLife        time.Duration `json:"half_life_ns"`
	HoldoutHalfLife time.Duration `json:"holdout_half_life_ns"`
	Identity        string        `json:"identity"`
	Weighted        bool          `json:"weighted"`
	Seed            uint64        `json:"seed"`
}

func (o *Options) settings() settings {
	s := settings{
		Format: formatVersion, Lineage: o.Lineage, ConfigHash: o.ConfigHash, Size: o.Size, HoldoutSize: o.HoldoutSize,
		HoldoutFraction: o.HoldoutFraction, HoldoutBy: o.HoldoutBy, HalfLife: o.HalfLife, HoldoutHalfLife: o.HoldoutHalfLife,
		Identity: o.Identity, Weighted: o.Weighted, Seed: o.Seed,
	}
	if s.HoldoutHalfLife == 0 {
		s.HoldoutHalfLife = s.HalfLife
	}
	return s
}

// differs returns a *ConfigError for the first setting in which the configured settings c differ from the stored s, or nil.
func (s *settings) differs(c settings) error {
	type row struct{ key, stored, configured string }
	for _, r := range []row{
		{"sample.seed", strconv.FormatUint(s.Seed, 10), strconv.FormatUint(c.Seed, 10)},
		{"sample.size", strconv.Itoa(s.Size), strconv.Itoa(c.Size)},
		{"sample.half_life", s.HalfLife.String(), c.HalfLife.String()},
		{"sample.holdout.size", strconv.Itoa(s.HoldoutSize), strconv.Itoa(c.HoldoutSize)},
		{"sample.holdout.fraction", fmt.Sprint(s.HoldoutFraction), fmt.Sprint(c.HoldoutFraction)},
		{"sample.holdout.half_life", s.HoldoutHalfLife.String(), c.HoldoutHalfLife.String()},
		{"sample.holdout.by", strconv.Quote(s.HoldoutBy), strconv.Quote(c.HoldoutBy)},
		{"schema.identity", strconv.Quote(s.Identity), strconv.Quote(c.Identity)},
		{"schema.weight", fmt.Sprint(s.Weighted), fmt.Sprint(c.Weighted)},
	} {
		if r.stored != r.configured {
			return &ConfigError{Key: r.key, Stored: r.stored, Configured: r.configured}
		}
	}
	return nil
}
