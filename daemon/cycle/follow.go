package cycle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// follower is the newest update in one form as a model of package snapshot, and what it takes to bring it up to the live model by deltas.
type follower struct {
	learner learner // that the form is of
	source  *source
	rows    rowMaker
	model   *snapshot.Model // with all deltas that were made
	basis   int             // vectors
	named   int             // fields of names
	own     int             // crosses of the update's own
	first   int             // field of the first of these
	numbers int32           // column of the first numeric field
	room    int             // names that may still be added
	refused int             // names that there was no room for
	last    *snapshot.Delta // the parameters that came last; rows are not kept
	losses  int             // fields of the fold-in whose mixing losses versions have

	deltaBuffers
}

// deltaBuffers is the memory of the delta at hand, which the next one uses again.
type deltaBuffers struct {
	changes, placed []rowChange // as they were touched and by column
	keys            []uint64    // their columns and where they stand among those touched
	numbersOf       []float64   // their rows, as they were touched
}

// rowChange is a row of a delta that is being made. Those of new names are numbered from the columns that the model has, in order of first touch.
type rowChange struct {
	column        int32
	field         int
	name          string
	linear, basis []float64
}

// rowMaker makes the parts of the live model in the form and on the basis of the update that it belongs to. c.mu is held.
type rowMaker interface {
	// stale says why the live model cannot be said in rows of the update any more, empty where it can.
	stale() string
	// row stores the row of a name that was touched, or of a numeric field or the constant, whose name is empty. It reports whether there is one,
	// and whether the update's vectors can say it.
	row(linear, basis []float64, field int, name string) (exists, whole bool)
	// rest sets what changes with every event: bias, weights, and rows of numeric fields, which it adds by column, and of what has no slot, which it adds
	// by field of the update and name.
	rest(d *snapshot.Delta, add func(rowChange))
}

// newFollower begins to follow what changes after an update was made just now in a form. c.mu is held.
func (c *Cycle) newFollower(of *following, form updateForm, made *made) *follower {
	l, _ := c.formLearner(form)
	f := &follower{learner: l}
	if of.of.popularOnly {
		f.source, f.rows = new(source), popularRows{}
		return f
	}
	switch l := l.(type) {
	case *posteriorLearner:
		f.source = of.sourceOf(l.slots)
		r := &posteriorRows{learner: l, steady: c.steadyIn(form), sum: made.sum, loadings: made.folded.Loadings(), outputs: c.target.Outputs(), linear: 1}
		if made.folded.Separate {
			r.linear = r.outputs
		}
		switch f.rows = r; {
		case made.blend != nil:
			parts := c.blendParts()
			r.changed = func() string {
				if c.blendParts() != parts || c.blend.used != made.blend {
					return "the parts of the blend are others"
				}
				return ""
			}
		case made.link != nil:
			r.changed = func() string {
				if c.linkOf(c.companion(c.partOf(form)), false) != made.link {
					return "numbers mean something else for the levels"
				}
				return ""
			}
		}
		return f
	case *gradientLearner:
		f.source, f.rows = of.sourceOf(l.slots), &gradientRows{learner: l}
		return f
	case *namesLearner:
		f.rows = newNamesRows(l, made.vocab, c.config.Publish.Deltas.MaxRows)
	case *newtonLearner:
		if form == formGoing {
			return nil
		}
		f.rows = &newtonRows{learner: l, vocab: c.champion.Vocabulary, features: made.vocab.Map, kernel: c.champion.Model.Kernel}
	default:
		return nil
	}
	switch l := c.learner.(type) { // the names of events are the same
	case *posteriorLearner:
		f.source = of.sourceOf(l.slots)
	case *gradientLearner:
		f.source = of.sourceOf(l.slots)
	}
	return f
}

// start builds the model that the follower begins with: the update as it is published with those settings. O(columns).
func (f *follower) start(u *Champion, settings *config.Model) error {
	model, err := snapshot.NewModel(u.contentsOf(settings))
	if err != nil {
		return fmt.Errorf("cycle: update: %w", err)
	}
	f.begin(model, u, settings)
	return nil
}

// contentsOf returns what a version of an update has, with the numbers as they are published.
func (ch *Champion) contentsOf(settings *config.Model) *snapshot.Contents {
	contents := ch.Contents(settings)
	contents.Tensors = strings.ToUpper(settings.Publish.Tensors)
	return contents
}

// begin begins with the model of an update.
func (f *follower) begin(model *snapshot.Model, u *Champion, settings *config.Model) {
	contents := model.Contents()
	f.model = model
	f.basis, f.named, f.numbers = contents.NumBasis, len(u.Vocabulary.Names), u.Vocabulary.numNames()
	f.first, f.own = u.Vocabulary.firstOwn(), u.Vocabulary.own
	f.room = max(0, settings.Train.MaxFeatures-int(f.numbers))
	f.last = &snapshot.Delta{Bias: contents.Bias, Weights: contents.Weights, MapWeights: contents.MapWeights}
	if said := model.Manifest().FoldIn; said != nil {
		if _, mixed := f.rows.(*posteriorRows); mixed {
			f.losses = len(said.Fields)
		}
	}
}

// stale says why deltas cannot follow the live model any more, empty where they can. c.mu is held.
func (f *follower) stale(c *Cycle, form updateForm) string {
	if l, _ := c.formLearner(form); l != f.learner {
		return "the fold-in began anew"
	}
	return f.rows.stale()
}

// deltaRowBytes is how much the rows of a delta take at most: half of what deltas may take.
const deltaRowBytes = 32 << 20

// most returns how many rows a delta may have.
func (f *follower) most() int { return max(1, deltaRowBytes/(8*(f.model.NumOutputs()+f.basis)+4)) }

// take makes a delta of what was touched since the last one, nil if nothing has changed, or says why a whole version has to come first. c.mu is held.
func (f *follower) take(c *Cycle, form updateForm, popular *movedPopularity) (d *snapshot.Delta, whole string) {
	if whole = f.stale(c, form); whole != "" {
		return nil, whole
	}
	m, k := f.model.NumOutputs(), f.basis
	d = &snapshot.Delta{Sequence: f.model.Position().Sequence + 1}
	f.changes = f.changes[:0]
	f.numbersOf = slices.Grow(f.numbersOf[:0], len(f.source.taken)*(m+k))
	numbers := f.numbersOf[:len(f.source.taken)*(m+k)]
	clear(numbers)
	for _, at := range f.source.taken {
		item := &f.source.slots.items[at]
		change := rowChange{field: f.fieldOf(int(item.field)), name: item.name}
		change.linear, change.basis, numbers = numbers[:m:m], numbers[m:m+k:m+k], numbers[m+k:]
		f.place(&change)
		exists, complete := f.rows.row(change.linear, change.basis, int(item.field), change.name)
		if !complete {
			return nil, "a vector of the update came alive"
		}
		if exists {
			popular.addTo(&change)
			f.changes = append(f.changes, change)
		}
	}
	f.rows.rest(d, func(change rowChange) {
		if change.name != "" {
			f.place(&change)
		} else {
			change.field = f.named + int(change.column-f.numbers)
		}
		f.changes = append(f.changes, change)
	})
	f.addMoved(popular)
	if popular != nil && d.Bias != nil {
		d.Bias[0] += popular.now.Shared
	}
	f.fill(d)
	if l, ok := c.learner.(*posteriorLearner); ok && f.losses > 0 {
		d.FoldInLosses = c.rateLosses(l, f.losses)
	}
	if !finiteDelta(d) {
		return nil, "the live model is not finite"
	}
	if len(d.Columns) == 0 && d.Bias == nil && d.Weights == nil && d.MapWeights == nil {
		return nil, ""
	}
	return d, ""
}

// fieldOf returns the field of the update that a field of events is.
func (f *follower) fieldOf(field int) int {
	if field >= f.first {
		return field + f.own
	}
	return field
}

// place finds the column of a change, −1 of a new name.
func (f *follower) place(change *rowChange) {
	change.column = -1
	if change.name == "" {
		change.column = f.numbers + int32(change.field-f.named)
	} else if j, ok := f.model.Column(change.field, change.name); ok {
		change.column = j
	}
}

// fill puts the changes into a delta: known columns ascending, then new names as far as there is room, in the order in which they came. What is placed then
// has its rows in the delta.
func (f *follower) fill(d *snapshot.Delta) {
	f.keys = f.keys[:0]
	for i := range f.changes {
		if column := f.changes[i].column; column >= 0 {
			f.keys = append(f.keys, uint64(column)<<32|uint64(i))
		}
	}
	slices.Sort(f.keys)
	known := f.placed[:0]
	for _, key := range f.keys {
		known = append(known, f.changes[uint32(key)])
	}
	next := int32(f.model.NumColumns())
	for _, x := range f.changes {
		if x.column >= 0 {
			continue
		}
		if f.room == 0 {
			f.refused++
			continue
		}
		f.room--
		x.column = next
		next++
		known = append(known, x)
		d.Added = append(d.Added, snapshot.AddedName{Field: x.field, Name: x.name})
	}
	f.placed = known
	d.Columns = make([]int32, 0, len(known))
	d.Linear, d.Basis = make([]float64, 0, len(known)*f.model.NumOutputs()), make([]float64, 0, len(known)*f.basis)
	for i := range known {
		x := &known[i]
		linear, basis := len(d.Linear), len(d.Basis)
		d.Columns, d.Linear, d.Basis = append(d.Columns, x.column), append(d.Linear, x.linear...), append(d.Basis, x.basis...)
		x.linear, x.basis = d.Linear[linear:], d.Basis[basis:] // the others are written over by the next delta
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

func finiteDelta(d *snapshot.Delta) bool {
	for _, list := range [][]float64{d.Linear, d.Basis, d.Bias, d.Weights, d.MapWeights} {
		if !isFinite(list) {
			return false
		}
	}
	return true
}

// rateLosses returns what the rates of the first fields that forget have lost, as FoldIn of versions has them.
func (c *Cycle) rateLosses(l *posteriorLearner, fields int) [][]float64 {
	all, losses := l.foldIn.RateLosses(), make([][]float64, 0, fields)
	for i, name := range foldInFields(c.config)[:fields] {
		field := slices.Index(c.config.Schema.Categorical, name)
		own := make([]float64, len(foldInRates(i)))
		copy(own, all[field])
		losses = append(losses, own)
	}
	return losses
}

// reached is how far events were observed: what a delta holds.
type reached struct {
	cut       []report.Cut
	moved     []bool
	last      int   // of the event before
	watermark int64 // newest event time, milliseconds since 1970
}

// add takes up an event.
func (r *reached) add(p Position, ev *event.Event) {
	r.watermark = max(r.watermark, ev.Time)
	is := func(c *report.Cut) bool { return c.Partition == p.Partition && c.Topic == p.Topic }
	if r.last >= len(r.cut) || !is(&r.cut[r.last]) {
		r.last = slices.IndexFunc(r.cut, func(c report.Cut) bool { return is(&c) })
		if r.last < 0 {
			r.last = len(r.cut)
			r.cut, r.moved = append(r.cut, report.Cut{Topic: p.Topic, Partition: p.Partition}), append(r.moved, false)
		}
	}
	r.cut[r.last].Next, r.moved[r.last] = max(r.cut[r.last].Next, p.Offset+1), true
}

// goOn lets deltas go on from a version: what is stored may end in offsets without an event, such as markers of transactions, behind the last event
// observed, and the version may have been made while deltas of the one before told of later events.
func (r *reached) goOn(cut []report.Cut) {
	for i := range r.cut {
		c := &r.cut[i]
		at := slices.IndexFunc(cut, func(s report.Cut) bool { return s.Partition == c.Partition && s.Topic == c.Topic })
		if r.moved[i] = at < 0 || c.Next > cut[at].Next; !r.moved[i] {
			c.Next = cut[at].Next
		}
	}
}

// stamp tells a delta how far events were observed.
func (r *reached) stamp(d *snapshot.Delta, now time.Time) {
	d.Created = now
	if r.watermark > 0 && r.watermark < math.MaxInt64 {
		d.Watermark = time.UnixMilli(r.watermark)
	}
	for i, moved := range r.moved {
		if moved {
			c := &r.cut[i]
			d.Cut = append(d.Cut, snapshot.Cut{Topic: c.Topic, Partition: c.Partition, Next: c.Next})
			r.moved[i] = false
		}
	}
}
