package scorer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/foldrow"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// MaxHistory is how many events Fold takes at a time. Rows forget: beyond some hundred events of an entity older ones
// hardly count.
const MaxHistory = 1000

// ErrNoFoldIn means that a version cannot take events in: it was written before there was fold-in, or its model has no
// posterior.
var ErrNoFoldIn = errors.New("no fold-in")

// Overlay is a model with replaced rows for some entities, made from events of theirs. It scores like the Model below
// it, which it shares, and never changes: Learn returns another one. It is safe for concurrent use. An entity takes
// less than 10 KB at k = 20 and m = 4.
type Overlay struct {
	model  *Model
	field  int // of Schema.Categorical
	by     *format.FoldInField
	shape  foldrow.RowShape
	names  []string
	rows   []foldrow.FoldedRow
	chosen []chosenName // oldest first
	folded int
}

// Fold returns the model with the rows that the entities of events get from these, oldest first: what Model.Predict
// says of the next event of a user then counts what the user did, whether or not the version knows them. Entities are
// the names in the first field of the version's FoldIn. Give all of an entity's recent events, some hundred, also
// those that the version has learned from, which are Held: an entity's row in the version is where its prior is
// centred, and held events make it as certain as they made the version's, and no more. Held events are learned like
// others where the version has no row of the entity. If the version has a row and held events are not marked as Held,
// they count twice. All fields of the events but the entity are taken as the version knows them. The rows are those
// of the daemon's own fold-in, at its rates of forgetting, but for the uncertainty of the other rows. 20 events take
// some 90 µs at k = 20 and m = 4.
//
// A version that has CoChoices and no FoldIn takes events for its lists alone; then entities are names of CoChoices.By.
//
// It returns ErrNoFoldIn with the reason, or ErrInput with the place of the event that has no label or no entity, does
// not have the shape of the schema, or is beyond MaxHistory. No events make an overlay without rows.
func (m *Model) Fold(events []format.LabelledEvent) (*Overlay, error) {
	o := new(Overlay)
	if err := m.FoldInto(o, "", events); err != nil {
		return nil, err
	}
	return o, nil
}

// FoldInto is Fold by a given field of the version's FoldIn, empty for the first, into an overlay that nobody uses any
// more, whose memory is used again: with a pool of overlays nothing is allocated. After an error the overlay has no
// rows.
func (m *Model) FoldInto(o *Overlay, field string, events []format.LabelledEvent) error {
	o.names, o.rows, o.chosen = o.names[:0], o.rows[:0], o.chosen[:0]
	o.model, o.field, o.by, o.folded = m, 0, nil, 0
	if len(events) == 0 {
		return nil
	}
	if err := m.foldInto(o, field, events); err != nil {
		o.names, o.rows, o.chosen, o.folded = o.names[:0], o.rows[:0], o.chosen[:0], 0
		return fmt.Errorf("snapshot: fold: %w", err)
	}
	return nil
}

func (m *Model) foldInto(o *Overlay, field string, events []format.LabelledEvent) error {
	if !o.listsAlone(field) {
		if err := o.choose(field); err != nil {
			return err
		}
	}
	if len(events) > MaxHistory {
		return fmt.Errorf("%w: a history of %d events, at most %d (MaxHistory): leave the oldest out", disk.ErrInput,
			len(events), MaxHistory)
	}
	f := foldings.Get().(*folding)
	defer foldings.Put(f)
	o.reset(f)
	for i := range events {
		if err := o.add(f, &events[i]); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	for i := range o.rows {
		if !f.finish(m, o.by, &o.rows[i]) {
			return fmt.Errorf("%w: events of %q have numbers too far from their field's center", disk.ErrInput, o.names[i])
		}
	}
	return nil
}

// listsAlone reports whether a history is for lists alone: the version has no fold-in, but co-choices.
func (o *Overlay) listsAlone(field string) bool {
	c := &o.model.contents
	return c.FoldIn == nil && c.CoChoices != nil && (field == "" || field == c.CoChoices.By)
}

// reset prepares a folding for events of the overlay.
func (o *Overlay) reset(f *folding) {
	if o.by != nil {
		f.reset(o.shape, o.by.Rates)
	} else {
		f.target = rowmath.Resized(f.target, o.model.contents.NumOutputs)
	}
}

// HistoryField returns the field whose names have a history in Fold, empty where the version takes none.
func (m *Model) HistoryField() string {
	switch c := &m.contents; {
	case c.FoldIn != nil:
		return c.FoldIn.Fields[0].Name
	case c.CoChoices != nil:
		return c.CoChoices.By
	}
	return ""
}

// choose sets the field whose names are folded in.
func (o *Overlay) choose(field string) error {
	m := o.model
	fold := m.contents.FoldIn
	if fold == nil {
		why := m.manifest.NoFoldIn
		if why == "" {
			why = "the version was written by a build without it"
		}
		return fmt.Errorf("%w: %s", ErrNoFoldIn, why)
	}
	at := 0
	if field != "" {
		if at = slices.IndexFunc(fold.Fields, func(d format.FoldInField) bool { return d.Name == field }); at < 0 {
			return fmt.Errorf("%w: field %q is none whose names can be folded in", disk.ErrInput, field)
		}
	}
	o.by = &fold.Fields[at]
	o.field, o.shape = slices.Index(m.contents.Schema.Categorical, o.by.Name), m.shapeOf(o.by)
	return nil
}

// add folds one event into the row of its entity, which it makes if it is missing.
func (o *Overlay) add(f *folding, e *format.LabelledEvent) error {
	m, s := o.model, &o.model.contents.Schema
	if err := e.Check(s); err != nil {
		return err
	}
	field, name := o.field, o.model.HistoryField()
	if o.by == nil {
		_, field = m.contents.CoChoices.Fields(s)
	} else {
		name = o.by.Name
	}
	if e.Categorical == nil || e.Categorical[field] == "" {
		return format.MissingField(name)
	}
	if err := e.Complete(s, ""); err != nil {
		return err
	}
	if !format.IsFinite(e.Weight) || e.Weight < 0 {
		return fmt.Errorf("%w: weight %g, want a positive number", disk.ErrInput, e.Weight)
	}
	if err := m.encodeTarget(f.target, e); err != nil {
		return err
	}
	o.note(e)
	if o.by == nil {
		o.folded++
		return nil
	}
	weight := e.Weight
	if weight == 0 {
		weight = 1
	}
	row, isNew := o.row(e.Categorical[o.field])
	if isNew {
		f.few.Begin(row, &o.shape)
	}
	f.learn(m, o.by, row, &e.Input, o.field, weight, e.Held)
	o.folded++
	return nil
}

// row returns the row of a name, which begins as its prior, and whether it does so now.
func (o *Overlay) row(name string) (row *foldrow.FoldedRow, isNew bool) {
	if at := o.find(name); at >= 0 {
		return &o.rows[at], false
	}
	n := len(o.rows)
	o.names, o.rows = append(o.names, name), slices.Grow(o.rows, 1)[:n+1]
	row = &o.rows[n]
	row.Lay(rowmath.Resized(row.Numbers, o.shape.Numbers()), rowmath.Resized(row.Packed, o.shape.Packed()), &o.shape)
	j := -1
	if column, ok := o.model.column(o.field, name); ok {
		j = int(column)
	}
	o.model.begin(row, o.by, &o.shape, j)
	return row, true
}

// find returns where the row of a name is, or -1. A history is of few entities, mostly of one.
func (o *Overlay) find(name string) int { return slices.Index(o.names, name) }

// Learn returns the overlay after one more event. It returns what Fold does; MaxHistory does not bound it.
func (o *Overlay) Learn(e *format.LabelledEvent) (*Overlay, error) {
	next := *o
	next.names, next.rows, next.chosen = slices.Clone(o.names), slices.Clone(o.rows), slices.Clone(o.chosen)
	err := error(nil)
	if next.by == nil && !next.listsAlone("") {
		err = next.choose("")
	}
	if err == nil && next.by != nil && e.Categorical != nil && o.field < len(e.Categorical) {
		if at := next.find(e.Categorical[next.field]); at >= 0 {
			next.rows[at].Lay(slices.Clone(o.rows[at].Numbers), slices.Clone(o.rows[at].Packed), &o.shape)
		}
	}
	if err == nil {
		f := foldings.Get().(*folding)
		defer foldings.Put(f)
		next.reset(f)
		if err = next.add(f, e); err == nil && next.by != nil &&
			!f.finish(o.model, next.by, &next.rows[next.find(e.Categorical[next.field])]) {
			err = fmt.Errorf("%w: a number is too far from its field's center", disk.ErrInput)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: learn: %w", err)
	}
	return &next, nil
}

// EntityBytes returns what the row of an entity takes in an overlay by the first field, 0 for a version without
// fold-in.
func (m *Model) EntityBytes() int64 {
	fold := m.contents.FoldIn
	if fold == nil {
		return 0
	}
	h := m.shapeOf(&fold.Fields[0])
	return int64(h.Bytes())
}

// Model returns the model below.
func (o *Overlay) Model() *Model { return o.model }

// Folded returns how many events were folded in.
func (o *Overlay) Folded() int { return o.folded }

// Entities returns the names that have rows, in the order of their first event. The list is shared: read it only.
func (o *Overlay) Entities() []string { return o.names }

// Score is Model.Score with the rows of the overlay: a name that has one is not unseen. It does not allocate once s has
// grown.
func (o *Overlay) Score(dst []float64, in *format.Input, s *Scratch) (unseen int) {
	return o.model.score(o, dst, in, s)
}

// ScoreBatch is Model.ScoreBatch with the rows of the overlay.
func (o *Overlay) ScoreBatch(dst []float64, in []format.Input, s *Scratch) (unseen int) {
	return o.model.scoreBatch(o, dst, in, s)
}

// Predict is Model.Predict with the rows of the overlay.
func (o *Overlay) Predict(in *format.Input) (answer.Prediction, error) {
	return o.model.predictOver(o, in)
}

// TopK is Model.TopK with the rows of the overlay. It returns ErrInput for a ranking over the field that the rows are
// of.
func (o *Overlay) TopK(dst []format.Item, q *format.Query, s *Scratch) ([]format.Item, error) {
	return o.model.topKOver(o, dst, q, s)
}

// Explain is Model.Explain with the rows of the overlay.
func (o *Overlay) Explain(in *format.Input) (Explanation, error) { return o.model.explainOver(o, in) }

// encodeOver is encode with the rows of an overlay, nil for none.
func (m *Model) encodeOver(o *Overlay, in *format.Input, s *Scratch) (unseen int) {
	unseen = m.encode(in, s)
	if o == nil || len(o.rows) == 0 || in.Categorical == nil {
		return unseen
	}
	at := o.find(in.Categorical[o.field])
	if at < 0 {
		return unseen
	}
	if j := m.columnOf(o.field, in); j >= 0 {
		s.drop(j)
	} else {
		unseen--
	}
	s.own = &o.rows[at]
	return unseen
}

// columnOf returns the column of what an event has in a categorical field, or -1.
func (m *Model) columnOf(field int, in *format.Input) int32 {
	if j, ok := m.column(field, in.Categorical[field]); ok {
		return j
	}
	return -1
}

// drop takes the column of a name out of the encoded event.
func (s *Scratch) drop(j int32) {
	if at := slices.Index(s.index, j); at >= 0 {
		s.index, s.value = slices.Delete(s.index, at, at+1), slices.Delete(s.value, at, at+1)
	}
}
