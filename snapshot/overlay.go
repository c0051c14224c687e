package snapshot

import (
	"errors"
	"fmt"
	"slices"
)

// MaxHistory is how many events Fold takes at a time. Rows forget: beyond some hundred events of an entity older ones
// hardly count.
const MaxHistory = 1000

// ErrNoFoldIn means that a version cannot take events in: it was written before there was fold-in, or its model has no
// posterior.
var ErrNoFoldIn = errors.New("no fold-in")

// LabelledEvent is an event with its label, as the topic had it.
type LabelledEvent struct {
	Input
	Label   float64  // of regression, ordinal and binary labels; NaN is none
	Classes []string // of multiclass and multilabel ones
	Weight  float64  // how much it counts; 0 is 1
	Held    bool     // the version has learned from it: it is not behind the version's cut
}

// Overlay is a model with replaced rows for some entities, made from events of theirs. It scores like the Model below
// it, which it shares, and never changes: Learn returns another one. It is safe for concurrent use. An entity takes
// less than 10 KB at k = 20 and m = 4.
type Overlay struct {
	model  *Model
	field  int // of Schema.Categorical
	by     *FoldInField
	shape  rowShape
	names  []string
	rows   []foldedRow
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
func (m *Model) Fold(events []LabelledEvent) (*Overlay, error) {
	o := new(Overlay)
	if err := m.FoldInto(o, "", events); err != nil {
		return nil, err
	}
	return o, nil
}

// FoldInto is Fold by a given field of the version's FoldIn, empty for the first, into an overlay that nobody uses any
// more, whose memory is used again: with a pool of overlays nothing is allocated. After an error the overlay has no
// rows.
func (m *Model) FoldInto(o *Overlay, field string, events []LabelledEvent) error {
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

func (m *Model) foldInto(o *Overlay, field string, events []LabelledEvent) error {
	if !o.listsAlone(field) {
		if err := o.choose(field); err != nil {
			return err
		}
	}
	if len(events) > MaxHistory {
		return fmt.Errorf(
			"%w: a history of %d events, at most %d (MaxHistory): leave the oldest out",
			ErrInput,
			len(events),
			MaxHistory,
		)
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
			return fmt.Errorf("%w: events of %q have numbers too far from their field's center", ErrInput, o.names[i])
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
		f.target = resized(f.target, o.model.contents.NumOutputs)
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
		if at = slices.IndexFunc(fold.Fields, func(d FoldInField) bool { return d.Name == field }); at < 0 {
			return fmt.Errorf("%w: field %q is none whose names can be folded in", ErrInput, field)
		}
	}
	o.by = &fold.Fields[at]
	o.field, o.shape = slices.Index(m.contents.Schema.Categorical, o.by.Name), m.shapeOf(o.by)
	return nil
}

// add folds one event into the row of its entity, which it makes if it is missing.
func (o *Overlay) add(f *folding, e *LabelledEvent) error {
	m, s := o.model, &o.model.contents.Schema
	if err := e.check(s); err != nil {
		return err
	}
	field, name := o.field, o.model.HistoryField()
	if o.by == nil {
		_, field = m.contents.CoChoices.fields(s)
	} else {
		name = o.by.Name
	}
	if e.Categorical == nil || e.Categorical[field] == "" {
		return missingField(name)
	}
	if err := e.complete(s, ""); err != nil {
		return err
	}
	if !isFinite(e.Weight) || e.Weight < 0 {
		return fmt.Errorf("%w: weight %g, want a positive number", ErrInput, e.Weight)
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
		f.few.begin(row, &o.shape)
	}
	f.learn(m, o.by, row, &e.Input, o.field, weight, e.Held)
	o.folded++
	return nil
}

// row returns the row of a name, which begins as its prior, and whether it does so now.
func (o *Overlay) row(name string) (row *foldedRow, isNew bool) {
	if at := o.find(name); at >= 0 {
		return &o.rows[at], false
	}
	n := len(o.rows)
	o.names, o.rows = append(o.names, name), slices.Grow(o.rows, 1)[:n+1]
	row = &o.rows[n]
	row.lay(resized(row.numbers, o.shape.numbers()), resized(row.packed, o.shape.packed()), &o.shape)
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
func (o *Overlay) Learn(e *LabelledEvent) (*Overlay, error) {
	next := *o
	next.names, next.rows, next.chosen = slices.Clone(o.names), slices.Clone(o.rows), slices.Clone(o.chosen)
	err := error(nil)
	if next.by == nil && !next.listsAlone("") {
		err = next.choose("")
	}
	if err == nil && next.by != nil && e.Categorical != nil && o.field < len(e.Categorical) {
		if at := next.find(e.Categorical[next.field]); at >= 0 {
			next.rows[at].lay(slices.Clone(o.rows[at].numbers), slices.Clone(o.rows[at].packed), &o.shape)
		}
	}
	if err == nil {
		f := foldings.Get().(*folding)
		defer foldings.Put(f)
		next.reset(f)
		if err = next.add(f, e); err == nil && next.by != nil &&
			!f.finish(o.model, next.by, &next.rows[next.find(e.Categorical[next.field])]) {
			err = fmt.Errorf("%w: a number is too far from its field's center", ErrInput)
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
	return int64(h.bytes())
}

// Model returns the model below.
func (o *Overlay) Model() *Model { return o.model }

// Folded returns how many events were folded in.
func (o *Overlay) Folded() int { return o.folded }

// Entities returns the names that have rows, in the order of their first event. The list is shared: read it only.
func (o *Overlay) Entities() []string { return o.names }

// Score is Model.Score with the rows of the overlay: a name that has one is not unseen. It does not allocate once s has
// grown.
func (o *Overlay) Score(dst []float64, in *Input, s *Scratch) (unseen int) {
	return o.model.score(o, dst, in, s)
}

// ScoreBatch is Model.ScoreBatch with the rows of the overlay.
func (o *Overlay) ScoreBatch(dst []float64, in []Input, s *Scratch) (unseen int) {
	return o.model.scoreBatch(o, dst, in, s)
}

// Predict is Model.Predict with the rows of the overlay.
func (o *Overlay) Predict(in *Input) (Prediction, error) { return o.model.predictOver(o, in) }

// TopK is Model.TopK with the rows of the overlay. It returns ErrInput for a ranking over the field that the rows are
// of.
func (o *Overlay) TopK(dst []Item, q *Query, s *Scratch) ([]Item, error) {
	return o.model.topKOver(o, dst, q, s)
}

// Explain is Model.Explain with the rows of the overlay.
func (o *Overlay) Explain(in *Input) (Explanation, error) { return o.model.explainOver(o, in) }

// encodeOver is encode with the rows of an overlay, nil for none.
func (m *Model) encodeOver(o *Overlay, in *Input, s *Scratch) (unseen int) {
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
func (m *Model) columnOf(field int, in *Input) int32 {
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

// LabelledFromMap reads a labelled event as InputFromMap reads one without label, the label from the field that the
// schema names. It returns ErrInput, too, where the label is missing or of another kind than the task's. A binary label
// that has names is one of them, or 0 or 1.
func (s *Schema) LabelledFromMap(event map[string]any) (LabelledEvent, error) {
	in, err := s.InputFromMap(event)
	if err != nil {
		return LabelledEvent{}, err
	}
	e := LabelledEvent{Input: in}
	value := event[s.Label]
	if s.Task == Multiclass || s.Task == Multilabel {
		if value == nil {
			return LabelledEvent{}, fmt.Errorf("snapshot: %w: missing_label: the event has no %q", ErrInput, s.Label)
		}
		if name, ok := nameOf(value); ok {
			e.Classes = []string{name}
		} else if e.Classes, err = namesOf(value); err != nil {
			return LabelledEvent{}, fmt.Errorf("snapshot: %w: label %q takes names: %w", ErrInput, s.Label, err)
		}
		return e, nil
	}
	if value == nil {
		return LabelledEvent{}, fmt.Errorf("snapshot: %w: missing_label: the event has no %q", ErrInput, s.Label)
	}
	if name, ok := nameOf(value); ok && s.LabelNames() != nil {
		_, isText := value.(string)
		switch {
		case name == s.Positive:
			e.Label = 1
			return e, nil
		case name == s.Negative || isText && s.Negative == "":
			return e, nil
		case isText:
			return LabelledEvent{}, fmt.Errorf(
				"snapshot: %w: label %q is %q, want %q or %q",
				ErrInput,
				s.Label,
				name,
				s.Positive,
				s.Negative,
			)
		}
	}
	if e.Label, err = number(value); err != nil {
		return LabelledEvent{}, fmt.Errorf("snapshot: %w: label %q takes %w", ErrInput, s.Label, err)
	}
	return e, nil
}
