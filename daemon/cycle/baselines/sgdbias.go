package baselines

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// SGDBias is the online baseline of rating tasks: global, user and item biases by stochastic gradient steps.
type SGDBias struct {
	Global float64
	fields int // the first categorical ones, sgdFields at most
	index  rows.SlotIndex
	items  []rows.Slot
	bias   []float64 // by slot
	room   []int     // per field, for so many more names
	of     []int32   // slots of the event that predict was called with last, -1 where it has none
}

// sgdBiasKind is the baseline of biases by gradient steps, of numbers.
var sgdBiasKind = Kind{
	Name:    PartSGD,
	Doc:     "global, user and item biases by gradient steps; labels that are numbers",
	Applies: func(s *Setting) bool { return s.Target.IsNumeric() },
	New: func(s *Setting) Baseline {
		return &NumberSGD{newSGDBias(s.Target, s.Fields, s.Limit), s.Target}
	},
	Footprint: func(s *Setting, maxName int) int64 {
		return int64(min(s.Fields, sgdFields)) * int64(s.Limit) * int64(rows.BiasBytes+maxName)
	},
}

// The steps of the sgd_bias baseline; they are part of its definition. Literature: biases by gradient steps (Koren et
// al. 2009). The values are chosen by hand.
const (
	sgdStep      = 0.05
	sgdShrinkage = 0.02
	sgdFields    = 2 // the first categorical ones, a user and an item
)

func newSGDBias(t *encode.Target, fields, limit int) *SGDBias {
	fields = min(fields, sgdFields)
	s := &SGDBias{fields: fields, index: rows.NewSlotIndex(), room: make([]int, fields), of: make([]int32, fields)}
	for f := range fields {
		s.room[f], s.of[f] = limit, -1
	}
	if t.Low < t.High {
		s.Global = (t.Low + t.High) / 2
	}
	return s
}

func (s *SGDBias) predict(ev *event.Event) float64 {
	for f, name := range ev.Categorical[:s.fields] {
		s.of[f] = s.index.Find(s.items, int32(f), name)
	}
	return s.Value()
}

func (s *SGDBias) Value() float64 {
	v := s.Global
	for _, at := range s.of {
		if at >= 0 {
			v += s.bias[at]
		}
	}
	return v
}

func (s *SGDBias) Number() float64 { return s.Value() }

func (s *SGDBias) Constant() float64 { return s.Global }

func (s *SGDBias) Weight(field int, name string) float64 {
	if field < s.fields {
		if at := s.index.Find(s.items, int32(field), name); at >= 0 {
			return s.bias[at]
		}
	}
	return 0
}

// learn takes a step towards the label of the event that predict was called with last, in what counts of it.
func (s *SGDBias) learn(ev *event.Event, counts *rows.Counted) {
	e := ev.Label - s.Value()
	if counts.IsShared() {
		s.Global += sgdStep * e
	}
	for f, at := range s.of {
		if counts.Holds(f) {
			continue
		}
		if at < 0 {
			name := ev.Categorical[f]
			if s.room[f] <= 0 || name == "" {
				continue // a baseline, too, is bounded
			}
			s.room[f]--
			at = int32(len(s.items))
			s.items, s.bias = append(s.items, rows.Slot{Name: name, Field: int32(f)}), append(s.bias, 0)
			s.index.Add(s.items, at)
		}
		b := &s.bias[at]
		*b += sgdStep * (e - sgdShrinkage**b)
	}
}

// correct takes the difference of the steps towards two labels, as far as the steps since have left of it.
func (s *SGDBias) correct(of *admission.Correction) {
	step := sgdStep * (of.Is.Label - of.Was.Label)
	if of.Counts.IsShared() {
		s.Global += step * admission.Remains(sgdStep, 1, of.Since)
	}
	for f, name := range of.Is.Categorical[:s.fields] {
		if at := s.index.Find(s.items, int32(f), name); at >= 0 && !of.Counts.Holds(f) {
			s.bias[at] += step * admission.Remains(sgdStep, 1, of.Ages[f])
		}
	}
}

// NumberSGD is the sgd_bias baseline as a part.
type NumberSGD struct {
	*SGDBias
	target *encode.Target
}

func (b *NumberSGD) Name() string { return PartSGD }

func (b *NumberSGD) Predict(dst []float64, ev *event.Event) bool {
	dst[0] = b.target.Clip(b.SGDBias.predict(ev))
	return true
}

func (b *NumberSGD) Learn(ev *event.Event, _ []float64, counts *rows.Counted) {
	b.SGDBias.learn(ev, counts)
}

func (b *NumberSGD) Correct(of *admission.Correction) {
	b.SGDBias.correct(of)
}
