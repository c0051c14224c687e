package sketch

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
)

// What one row may cost; see Options.Cost. A row puts out as many others as it costs more than they do, in one
// transaction.
const (
	MinCost      = 512
	MaxCostOfRow = 1 << 20
)

// DefaultMemTableBytes bounds one Badger transaction to about 2.4 MB and its memory tables to 48 MiB.
const DefaultMemTableBytes = 16 << 20

// Options say where the state is kept and what the sample is. The settings from Size to CapShare are bound to the state
// when it is made: a sample kept under one rule cannot continue under another. The sizes alone may change, which starts
// a new lineage. It is one type: a field for each setting.
type Options struct {
	Dir string // state directory, made if absent; ignored by NewMemory

	Size int // training rows kept at most, >= 1
	// MaxCost bounds the sum of what the training rows cost, as Cost says, 0 = any; the other samples have it in
	// proportion to their rows. Rows of least priority leave first, so that what is kept is a function of the set of
	// events still. Of samples by identity, or with a cap, it is the caller who has to keep each row below MaxCost /
	// Size: a newer event of another size would make them a function of the order.
	MaxCost int64
	// a function of the bytes alone, MinCost to MaxCostOfRow; nil = their number and MinCost
	Cost func(payload []byte) int
	// held-out rows kept at most, half of them Select and half Gate; >= 2 if HoldoutFraction > 0
	HoldoutSize     int
	HoldoutFraction float64 // share of the events that is held out, in [0, 1)
	// name of the field whose value Record.HoldoutKey carries: whole entities are held out; "" = single events
	HoldoutBy string
	// an event's chance to stay halves in this time of event time; 0 = no forgetting; else >= 1ms
	HalfLife        time.Duration
	HoldoutHalfLife time.Duration // the same for held-out rows, at most HalfLife; 0 = HalfLife
	// Identity is the name of the field whose value Record.Identity carries: of the events of one identity the newest
	// is kept, and the chance to be kept is the same for each identity. An identity whose HoldoutBy entity changes can
	// be kept on both sides.
	// "" = events are known by topic, partition and offset, so that a producer's duplicates count twice.
	Identity string
	// Outcomes joins the events of other topics, Part.Outcomes, to those of the sample under the same Identity: of the
	// outcomes of a partition beyond MaxOutcomes it says which are kept. "" = without outcomes. See join.go.
	Outcomes Order
	Weighted bool // events carry weights: Record.Weight moves the priority
	// Quotas divide the training sample by class, the value of Record.Group: each class named is a separate sample of
	// ⌈share·Size⌉ rows, and the others share what is left of Size. A quota decides how many rows of a class there
	// are, not what they count together (TrainWeights): a rare class is learned better, and stays rare. The whole may
	// exceed Size by less than one row for each class.
	Quotas []Quota
	// CapBy is the name of the field whose value Record.Group carries: of one value at most ⌈CapShare·rows⌉ of the rows
	// of each sample are kept, those of largest priority. "" = any number. Inclusion probabilities are not known under
	// a cap.
	CapBy    string
	CapShare float64 // in (0, 1) if CapBy is set
	Seed     uint64  // of all priorities; equal seeds over equal logs give equal samples
	DrawSeed bool    // ignore Seed: take that of the existing state, or draw one for a new state

	// Rules say, in the caller's words, which events are valid. Others start a new lineage, which the log would not
	// give again.
	Rules string

	// Forgotten are the markers of the state that this one is made anew for; see Store.ForgetSubject. An existing state
	// has its own.
	Forgotten []Marker

	// Mirror makes the store note what a copy of it lacks, for Excerpt, until Unmirror. A state that already notes
	// this continues without the option.
	Mirror bool
	// the store takes shares of others: Merge, not Apply. Its rows are looked up by identity, which takes a map entry
	// for each
	Merges bool

	Lineage    string       // id of a new state; "" = drawn at random. An existing state keeps its own
	ConfigHash string       // kept for State, never compared
	Logger     *slog.Logger // nil = silent
	// CheckpointEvery is the number of applied and rejected records of a partition between two of its checkpoints; 0 =
	// DefaultCheckpointEvery.
	CheckpointEvery int64
	MemTableBytes   int64 // Badger's memory table, >= 8 MiB; 0 = DefaultMemTableBytes
	MinFreeBytes    int64 // Open refuses a file system with less free space than this, or than two memory tables
	AllowNetwork    bool  // Open refuses a file system of a network otherwise
	OutboxRows      int   // dead letters kept at most; 0 keeps none of the rejected records
}

// Validate returns every bad field with its value, or nil.
func (o *Options) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("sketch: %s is %v, want %s", field, value, want))
	}
	if o.Size < 1 || o.Size > reservoir.MaxRows {
		bad("Size", o.Size, fmt.Sprintf("1 to %d", reservoir.MaxRows))
	}
	if !(o.HoldoutFraction >= 0 && o.HoldoutFraction < 1) {
		bad("HoldoutFraction", o.HoldoutFraction, "a number in [0, 1)")
	}
	if o.HoldoutSize < 0 || o.HoldoutSize > reservoir.MaxRows || o.HoldoutFraction > 0 && o.HoldoutSize < 2 {
		bad("HoldoutSize", o.HoldoutSize, fmt.Sprintf("2 to %d", reservoir.MaxRows))
	}
	if o.HalfLife < 0 || o.HalfLife > 0 && o.HalfLife < time.Millisecond {
		bad("HalfLife", o.HalfLife, "0 or at least 1ms")
	}
	if h := o.HoldoutHalfLife; h < 0 || h > 0 && h < time.Millisecond || o.HalfLife > 0 && h > o.HalfLife {
		bad("HoldoutHalfLife", h, "0 or between 1ms and HalfLife")
	}
	errs = append(errs, o.validateGroups()...)
	errs = append(errs, o.validateOutcomes()...)
	if o.MaxCost < 0 {
		bad("MaxCost", o.MaxCost, "0 or more")
	}
	if o.CheckpointEvery < 0 {
		bad("CheckpointEvery", o.CheckpointEvery, "0 or a number of records")
	}
	if o.OutboxRows < 0 {
		bad("OutboxRows", o.OutboxRows, "0 or more")
	}
	if o.MemTableBytes != 0 && o.MemTableBytes < 8<<20 {
		bad("MemTableBytes", o.MemTableBytes, "0 or at least 8 MiB")
	}
	return errors.Join(errs...)
}

// validateGroups refuses what is no function of the set of events in bounded memory: under a quota or a cap an upsert
// could move a row to another class or entity, whose rows and those of the old one would have to be judged anew, long
// after they were given up.
func (o *Options) validateGroups() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sketch: "+format, args...)) }
	var sum float64
	seen := map[string]bool{}
	for _, q := range o.Quotas {
		if q.Class == "" || seen[q.Class] || !(q.Share > 0 && q.Share <= 1) {
			bad("Quotas has class %q with share %v, want each class once with a share in (0, 1]", q.Class, q.Share)
		}
		seen[q.Class] = true
		sum += q.Share
	}
	if sum > 1+1e-9 { // thirds add up to rather more than 1
		bad("Quotas have shares of %v together, want at most 1", sum)
	}
	if len(o.Quotas) > maxQuotas {
		bad("Quotas names %d classes, want at most %d", len(o.Quotas), maxQuotas)
	}
	if (o.CapBy == "") != (o.CapShare == 0) || !(o.CapShare >= 0 && o.CapShare < 1) {
		bad("CapBy is %q with CapShare %v, want a field and a share in (0, 1)", o.CapBy, o.CapShare)
	}
	if o.CapBy != "" && len(o.Quotas) > 0 {
		bad("CapBy and Quotas are both set, want one of them")
	}
	if o.Identity != "" && (o.CapBy != "" || len(o.Quotas) > 0) {
		bad(
			"Identity is set together with Quotas or CapBy: a newer event of an identity could move its row to another class " +
				"or entity",
		)
	}
	return errs
}

// maxQuotas bounds the counters, which are one value.
const maxQuotas = 1000

func (o *Options) settings() policy.Settings {
	s := policy.Settings{
		Format: codec.FormatVersion, Lineage: o.Lineage, ConfigHash: o.ConfigHash, Size: o.Size, HoldoutSize: o.HoldoutSize,
		HoldoutFraction: o.HoldoutFraction, HoldoutBy: o.HoldoutBy, HalfLife: o.HalfLife, HoldoutHalfLife: o.HoldoutHalfLife,
		Identity: o.Identity, Weighted: o.Weighted, Seed: o.Seed, Quotas: o.Quotas, CapBy: o.CapBy, CapShare: o.CapShare,
		Rules:   o.Rules,
		MaxCost: o.MaxCost, Outcomes: string(o.Outcomes),
	}
	if s.HoldoutHalfLife == 0 {
		s.HoldoutHalfLife = s.HalfLife
	}
	return s
}
