package policy

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
)

// Settings are the part of Options that is bound to a state, as stored.
type Settings struct {
	Format          int           `json:"format"`
	Lineage         string        `json:"lineage"`
	ConfigHash      string        `json:"config_hash"`
	Size            int           `json:"size"`
	HoldoutSize     int           `json:"holdout_size"`
	MaxCost         int64         `json:"max_cost,omitempty"`
	HoldoutFraction float64       `json:"holdout_fraction"`
	HoldoutBy       string        `json:"holdout_by"`
	HalfLife        time.Duration `json:"half_life_ns"`
	HoldoutHalfLife time.Duration `json:"holdout_half_life_ns"`
	Identity        string        `json:"identity"`
	Outcomes        string        `json:"outcomes,omitempty"` // a stub.Order
	Weighted        bool          `json:"weighted"`
	Seed            uint64        `json:"seed"`
	Quotas          []Quota       `json:"quotas,omitempty"`
	CapBy           string        `json:"cap_by,omitempty"`
	CapShare        float64       `json:"cap_share,omitempty"`
	Rules           string        `json:"rules,omitempty"`

	Origin    string            `json:"origin,omitempty"`     // the first lineage, if it was another: what the witness remembers
	Partial   bool              `json:"partial,omitempty"`    // an erasure or a larger size left the samples under-filled
	Since     []ledger.Position `json:"since,omitempty"`      // when that was
	Unsettled bool              `json:"unsettled,omitempty"`  // rows that a smaller size has no room for may still be there
	NotOfLog  bool              `json:"not_of_log,omitempty"` // the samples cannot be had again by reading the log
}

// First is the lineage that the state was made with.
func (s *Settings) First() string { return cmp.Or(s.Origin, s.Lineage) }

// Joined reports whether outcomes are joined to the rows.
func (s *Settings) Joined() bool { return s.Outcomes != "" }

// Grouped reports whether rows carry the hash of their class or entity.
func (s *Settings) Grouped() bool { return len(s.Quotas) > 0 || s.CapBy != "" }

// Succeed returns the settings to continue a state with: s is stored, c is configured. Sizes may change. A
// *ConfigError names the first setting that may not: what was refused under it is not known any more, so that only
// reading the log again can show what the sample would be.
func (s *Settings) Succeed(c Settings, drawSeed bool) (Settings, error) {
	if drawSeed {
		c.Seed = s.Seed
	}
	type row struct{ option, stored, configured string }
	rows := []row{
		{"Seed", strconv.FormatUint(s.Seed, 10), strconv.FormatUint(c.Seed, 10)},
		{"HalfLife", s.HalfLife.String(), c.HalfLife.String()},
		{"HoldoutFraction", fmt.Sprint(s.HoldoutFraction), fmt.Sprint(c.HoldoutFraction)},
		{"HoldoutHalfLife", s.HoldoutHalfLife.String(), c.HoldoutHalfLife.String()},
		{"HoldoutBy", strconv.Quote(s.HoldoutBy), strconv.Quote(c.HoldoutBy)},
		{"Quotas", fmt.Sprint(s.Quotas), fmt.Sprint(c.Quotas)},
		{"CapBy", strconv.Quote(s.CapBy), strconv.Quote(c.CapBy)},
		{"CapShare", fmt.Sprint(s.CapShare), fmt.Sprint(c.CapShare)},
		{"Identity", strconv.Quote(s.Identity), strconv.Quote(c.Identity)},
		{"Outcomes", strconv.Quote(s.Outcomes), strconv.Quote(c.Outcomes)},
		{"Weighted", fmt.Sprint(s.Weighted), fmt.Sprint(c.Weighted)},
	}
	if s.CapBy != "" { // a wider cap would have room for rows that it put out, and does not know which
		rows = append(rows, row{"Size", strconv.Itoa(s.Size), strconv.Itoa(max(s.Size, c.Size))},
			row{"HoldoutSize", strconv.Itoa(s.HoldoutSize), strconv.Itoa(max(s.HoldoutSize, c.HoldoutSize))})
	}
	for _, r := range rows {
		if r.stored != r.configured {
			return Settings{}, &ConfigError{Option: r.option, Stored: r.stored, Configured: r.configured}
		}
	}
	c.Lineage, c.Origin, c.Partial, c.Since, c.Unsettled, c.NotOfLog = s.Lineage, s.Origin, s.Partial, s.Since,
		s.Unsettled, s.NotOfLog
	if s.Rules != "" && s.Rules != c.Rules {
		c.Lineage, c.Origin, c.NotOfLog = drawLineage(), s.First(), true
	}
	return c, nil
}

// Agrees returns a *ConfigError with the first setting in which a sample of other partitions differs.
func (s *Settings) Agrees(theirs Settings) error {
	type row struct {
		option      string
		ours, other any
	}
	same := func(rows ...row) error {
		for _, r := range rows {
			if r.ours != r.other {
				return &ConfigError{Option: r.option, Stored: fmt.Sprint(r.ours), Configured: fmt.Sprint(r.other)}
			}
		}
		return nil
	}
	if err := same(row{"Size", s.Size, theirs.Size}, row{"HoldoutSize", s.HoldoutSize, theirs.HoldoutSize}); err != nil {
		return err
	}
	if _, err := s.Succeed(theirs, false); err != nil { // before what follows of those settings
		return err
	}
	return same(row{"MaxCost", s.MaxCost, theirs.MaxCost}, row{"Rules", s.Rules, theirs.Rules})
}

// Draw fills what a new state needs and the options left open.
func (s *Settings) Draw(seed bool) {
	var b [8]byte
	rand.Read(b[:]) // never fails
	if s.Lineage == "" {
		s.Lineage = drawLineage()
	}
	if seed {
		s.Seed = binary.NativeEndian.Uint64(b[:])
	}
}

// Renew makes the settings those of a new lineage, under-filled since the positions.
func (s *Settings) Renew(since []ledger.Position) {
	s.Origin, s.Lineage = s.First(), drawLineage()
	s.Partial, s.Since = true, since
}

func drawLineage() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// A Quota is the share of the training sample, in (0, 1], that one class has.
type Quota struct {
	Class string  `json:"class"`
	Share float64 `json:"share"`
}

// ShareOf returns ⌈share·size⌉. The product is rounded once, so that it is the same on every machine.
func ShareOf(share float64, size int) int { return int(math.Ceil(float64(share * float64(size)))) }

// A ConfigError names the setting in which configuration and stored state differ.
type ConfigError struct {
	Option     string // the field of Options, such as Size
	Stored     string
	Configured string
}

// Error names the setting with both values.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("sketch: %s is %s, but the state was made with %s", e.Option, e.Configured, e.Stored)
}

// Unwrap makes errors.Is(err, ErrConfig) true.
func (e *ConfigError) Unwrap() error { return fault.ErrConfig }
