package updates

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// DeltaEncoder is the newest update in one form as a model of package snapshot, and what it takes to bring it up to the
// live model by deltas.
type DeltaEncoder struct {
	Learner experts.Learner // that the form is of
	Source  *Source
	Rows    rowMaker
	Model   *snapshot.Model // with all deltas that were made
	Basis   int             // vectors
	Named   int             // fields of names
	own     int             // crosses of the update's own
	first   int             // field of the first of these
	Numbers int32           // column of the first numeric field
	room    int             // names that may still be added
	Refused int             // names that there was no room for
	last    *format.Delta   // the parameters that came last; rows are not kept
	Losses  int             // fields of the fold-in whose mixing losses versions have

	DeltaBuffers
}

// DeltaBuffers is the memory of the delta at hand, which the next one uses again.
type DeltaBuffers struct {
	Changes, Placed []RowChange // as they were touched and by column
	keys            []uint64    // their columns and their indices among those touched
	NumbersOf       []float64   // their rows, as they were touched
	others          []rows.Slot // names of the update without a slot
}

// RowChange is a row of a delta that is being made. Those of new names are numbered from the columns that the model
// has, in order of first touch.
type RowChange struct {
	Column        int32
	Field         int
	Name          string
	Linear, Basis []float64
}

// rowMaker makes the parts of the live model in the form and on the basis of the update that it belongs to. c.mu is
// held.
type rowMaker interface {
	// Stale says why the live model cannot be said in rows of the update any more, empty where it can.
	Stale() string
	// Row stores the row of a name that was touched, or of a numeric field or the constant, whose name is empty. It
	// reports whether there is one, and whether the update's vectors can say it.
	Row(linear, basis []float64, field int, name string) (exists, whole bool)
	// Rest sets what changes with every event: bias, weights, trees, and rows of numeric fields, which it adds by their
	// columns from the first of them on, and of what has no slot, which it adds by field of the update and name.
	Rest(d *format.Delta, add func(RowChange))
}

// start builds the model that the follower begins with: the update as it is published with those settings. O(columns).
func (f *DeltaEncoder) start(u *fitted.Fitted, settings *config.Model) error {
	model, err := scorer.NewModel(ContentsOf(u, settings))
	if err != nil {
		return fmt.Errorf("cycle: update: %w", err)
	}
	f.Begin(model, u, settings)
	return nil
}

// ContentsOf returns what a version of an update has, with the numbers as they are published.
func ContentsOf(ch *fitted.Fitted, settings *config.Model) *format.Contents {
	contents := ch.Contents(settings)
	contents.Tensors = strings.ToUpper(settings.Publish.Tensors)
	return contents
}

// Begin begins with the model of an update.
func (f *DeltaEncoder) Begin(model *snapshot.Model, u *fitted.Fitted, settings *config.Model) {
	contents := model.Contents()
	f.Model = model
	f.Basis, f.Named, f.Numbers = contents.NumBasis, len(u.Vocabulary.Names), u.Vocabulary.NumNames()
	f.first, f.own = u.Vocabulary.FirstOwn(), u.Vocabulary.Own
	f.room = max(0, settings.Train.MaxFeatures-int(f.Numbers))
	f.last = &format.Delta{Bias: contents.Bias, Weights: contents.Weights, MapWeights: contents.MapWeights}
	if said := model.Manifest().FoldIn; said != nil {
		if _, mixed := f.Rows.(*PosteriorRows); mixed {
			f.Losses = len(said.Fields)
		}
	}
}

// DeltaRowBytes is how much the rows of a delta take at most: half of what deltas may take. Derived from what readers
// of deltas accept.
const DeltaRowBytes = 32 << 20

// Most returns how many rows a delta may have.
func (f *DeltaEncoder) Most() int { return max(1, DeltaRowBytes/(8*(f.Model.NumOutputs()+f.Basis)+4)) }

// FieldOf returns the field of the update that a field of events is.
func (f *DeltaEncoder) FieldOf(field int) int {
	if field >= f.first {
		return field + f.own
	}
	return field
}

// Taken returns how many names the delta at hand has rows of, and each: those that were touched. Where a sum takes up
// other factors they are all that the update or the fold-in has.
func (f *DeltaEncoder) Taken() (n int, name func(i int) *rows.Slot) {
	slots, taken := f.Source.Slots, f.Source.Taken
	r, ok := f.Rows.(*SumRows)
	if !ok || slots == nil || !r.refresh(slots, &f.others) {
		return len(taken), func(i int) *rows.Slot { return &slots.Items[taken[i]] }
	}
	return len(slots.Items) + len(f.others), func(i int) *rows.Slot {
		if i < len(slots.Items) {
			return &slots.Items[i]
		}
		return &f.others[i-len(slots.Items)]
	}
}

// Place finds the column of a change, −1 of a new name.
func (f *DeltaEncoder) Place(change *RowChange) {
	change.Column = -1
	if change.Name == "" {
		change.Column = f.Numbers + int32(change.Field-f.Named)
	} else if j, ok := f.Model.Column(change.Field, change.Name); ok {
		change.Column = j
	}
}

// Fill puts the changes into a delta: known columns ascending, then new names as far as there is room, in the order in
// which they came. What is placed then has its rows in the delta.
func (f *DeltaEncoder) Fill(d *format.Delta) {
	f.keys = f.keys[:0]
	for i := range f.Changes {
		if column := f.Changes[i].Column; column >= 0 {
			f.keys = append(f.keys, uint64(column)<<32|uint64(i))
		}
	}
	slices.Sort(f.keys)
	known := f.Placed[:0]
	for _, key := range f.keys {
		known = append(known, f.Changes[uint32(key)])
	}
	next := int32(f.Model.NumColumns())
	for _, x := range f.Changes {
		if x.Column >= 0 {
			continue
		}
		if f.room == 0 {
			f.Refused++
			continue
		}
		f.room--
		x.Column = next
		next++
		known = append(known, x)
		d.Added = append(d.Added, format.AddedName{Field: x.Field, Name: x.Name})
	}
	f.Placed = known
	d.Columns = make([]int32, 0, len(known))
	d.Linear, d.Basis = make([]float64, 0, len(known)*f.Model.NumOutputs()), make([]float64, 0, len(known)*f.Basis)
	for i := range known {
		x := &known[i]
		linear, basis := len(d.Linear), len(d.Basis)
		d.Columns, d.Linear, d.Basis = append(d.Columns, x.Column), append(
			d.Linear,
			x.Linear...), append(
			d.Basis,
			x.Basis...)
		x.Linear, x.Basis = d.Linear[linear:], d.Basis[basis:] // the others are written over by the next delta
	}
	same := func(now, last *[]float64) {
		if slices.Equal(*now, *last) {
			*now = nil
		} else if *now != nil {
			*last = *now
		}
	}
	same(&d.Bias, &f.last.Bias)
	same(&d.Weights, &f.last.Weights)
	same(&d.MapWeights, &f.last.MapWeights)
}

func FiniteDelta(d *format.Delta) bool {
	for _, list := range [][]float64{d.Linear, d.Basis, d.Bias, d.Weights, d.MapWeights} {
		if !encode.IsFinite(list) {
			return false
		}
	}
	return true
}

// Frontier is how far events were observed: what a delta holds.
type Frontier struct {
	Cut       []report.Cut
	moved     []bool
	last      int   // of the event before
	Watermark int64 // newest event time, milliseconds since 1970
}

// Add takes up an event.
func (r *Frontier) Add(p rows.Position, ev *event.Event) {
	r.Watermark = max(r.Watermark, ev.Time)
	is := func(c *report.Cut) bool { return c.Partition == p.Partition && c.Topic == p.Topic }
	if r.last >= len(r.Cut) || !is(&r.Cut[r.last]) {
		r.last = slices.IndexFunc(r.Cut, func(c report.Cut) bool { return is(&c) })
		if r.last < 0 {
			r.last = len(r.Cut)
			r.Cut, r.moved = append(r.Cut, report.Cut{Topic: p.Topic, Partition: p.Partition}), append(r.moved, false)
		}
	}
	r.Cut[r.last].Next, r.moved[r.last] = max(r.Cut[r.last].Next, p.Offset+1), true
}

// CarryOver lets the next deltas follow a version. What is stored may end in offsets without an event, such as markers
// of transactions, after the last event observed. Deltas of the version before may already hold later events.
func (r *Frontier) CarryOver(cut []report.Cut) {
	for i := range r.Cut {
		c := &r.Cut[i]
		at := slices.IndexFunc(cut, func(s report.Cut) bool { return s.Partition == c.Partition && s.Topic == c.Topic })
		if r.moved[i] = at < 0 || c.Next > cut[at].Next; !r.moved[i] {
			c.Next = cut[at].Next
		}
	}
}

// Stamp sets in a delta how far events were observed.
func (r *Frontier) Stamp(d *format.Delta, now time.Time) {
	d.Created = now
	if r.Watermark > 0 && r.Watermark < math.MaxInt64 {
		d.Watermark = time.UnixMilli(r.Watermark)
	}
	for i, moved := range r.moved {
		if moved {
			c := &r.Cut[i]
			d.Cut = append(d.Cut, format.Cut{Topic: c.Topic, Partition: c.Partition, Next: c.Next})
			r.moved[i] = false
		}
	}
}
