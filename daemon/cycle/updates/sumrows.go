package updates

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// SumRows are the rows of a sum of forms. Rows of numeric fields and the constant change with every event: they are not
// asked for one by one.
type SumRows struct {
	Parts    []SumPart  // the first is that of the vectors, if there are any
	Constant []float64  // m, what the parts lack
	Weights  []float64  // of the vectors, before they are multiplied by a factor; nil without
	Map      []float64  // weights on the joint feature map, as the update has them
	Names    [][]string // of the update, by field
	Columns  int        // from that of the first numeric field on
	Vectors  int
	// Current returns the constant and the factor of each part as they are now, nil where rows of so many names are too
	// many.
	Current func(names int) (constant, factors []float64)

	alive  bool      // a vector that the update lacks has come into use
	linear []float64 // of the row at hand
}

// SumPart is a form of a sum.
type SumPart struct {
	Rows   rowMaker
	Factor float64
	At     int     // of the weights on its feature map among those of the joint one, m for each column
	Scale  float64 // of these

	trees  *format.Trees // of the part as they went into a delta last
	factor float64       // by which they count there
}

// NewSumPart returns a part whose trees, nil for none, went into the update by its factor.
func NewSumPart(rows rowMaker, factor float64, at int, scale float64, trees *format.Trees) SumPart {
	return SumPart{Rows: rows, Factor: factor, At: at, Scale: scale, trees: trees, factor: factor}
}

// mostNumbers bounds the rows of names of a sum whose factors follow in deltas, in numbers: each delta then has all
// rows. Those of more stay by the factors of the update. Chosen by hand: 32 KiB.
const mostNumbers = 1 << 12

// HasFewRows reports whether the rows of so many names, with so many outputs and vectors, are few enough for a delta.
func HasFewRows(names, outputs, vectors int) bool { return names*(outputs+vectors) <= mostNumbers }

// refresh takes up the factors as they are now, unless that takes too many rows. It reports whether all rows change:
// also those of names of the update without a slot, which it stores in others. Nothing has touched these since the
// refit.
func (r *SumRows) refresh(slots *rows.Slots, others *[]rows.Slot) bool {
	names := 0
	for _, list := range r.Names {
		names += len(list)
	}
	if !HasFewRows(max(names, len(slots.Items)), len(r.Constant), r.Vectors) { // which takes no look at each
		return false
	}
	*others = (*others)[:0]
	for f, list := range r.Names {
		for _, name := range list {
			if slots.Find(f, name) < 0 {
				*others = append(*others, rows.Slot{Name: name, Field: int32(f)})
			}
		}
	}
	constant, factors := r.Current(len(slots.Items) + len(*others))
	if constant == nil {
		return false
	}
	r.Constant = constant
	for i := range r.Parts {
		r.Parts[i].Factor = factors[i]
	}
	return true
}

func (r *SumRows) Stale() string {
	if r.alive {
		return "a vector that the update lacks is in use"
	}
	for i := range r.Parts {
		if why := r.Parts[i].Rows.Stale(); why != "" {
			return why
		}
	}
	return ""
}

func (r *SumRows) Row(linear, basis []float64, field int, name string) (exists, whole bool) {
	if name == "" {
		return false, true
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		r.linear = slices.Grow(r.linear[:0], len(linear))[:len(linear)]
		clear(r.linear)
		exists, whole = p.Rows.Row(r.linear, basis, field, name)
		if i == 0 && !exists || !whole {
			return false, whole
		}
		if exists {
			floats.AddScaled(linear, p.Factor, r.linear)
		}
	}
	return true, true
}

func (r *SumRows) Rest(d *format.Delta, add func(RowChange)) {
	m := len(r.Constant)
	changes := make([]RowChange, r.Columns)
	for f := range changes {
		x := &changes[f]
		x.Linear, x.Basis = make([]float64, m), make([]float64, r.Vectors)
		x.Column = -1
		if l, ok := r.Parts[0].Rows.(*PosteriorRows); ok {
			exists, whole := l.Row(x.Linear, x.Basis, len(r.Names)+f, "")
			if r.alive = r.alive || !whole; exists {
				x.Column = int32(f)
				floats.Scale(r.Parts[0].Factor, x.Linear)
			}
		}
	}
	d.Bias, d.MapWeights = slices.Clone(r.Constant), slices.Clone(r.Map)
	if d.Weights = slices.Clone(r.Weights); d.Weights != nil {
		floats.Scale(r.Parts[0].Factor, d.Weights)
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		var own format.Delta
		p.Rows.Rest(&own, func(change RowChange) {
			if change.Name != "" {
				return
			}
			x := &changes[change.Column]
			if i == 0 {
				x.Column = change.Column
				copy(x.Basis, change.Basis)
			}
			floats.AddScaled(x.Linear, p.Factor, change.Linear)
		})
		// Levels of numbers are in all biases: they go by factors of one time.
		floats.AddScaled(d.Bias, p.Factor, own.Bias)
		p.addTrees(d, &own)
		if own.Weights != nil {
			d.Weights = own.Weights
			floats.Scale(p.Factor, d.Weights)
		}
		for j, w := range own.MapWeights {
			d.MapWeights[p.At+j] = p.Factor * p.Scale * w
		}
	}
	for _, x := range changes {
		if x.Column >= 0 {
			add(x)
		}
	}
}

// treesMove is by what share the factor of trees has to change before deltas bring trees again that are otherwise the
// same; one below leastFactor counts as that. Chosen by hand.
const (
	treesMove   = 0.02
	leastFactor = 0.1
)

// addTrees puts the trees of a part into a delta where they are others, or their factor is.
func (p *SumPart) addTrees(d, own *format.Delta) {
	if own.Trees != nil {
		p.trees = own.Trees
	}
	moved := math.Abs(p.Factor-p.factor) > treesMove*max(math.Abs(p.factor), leastFactor)
	if p.trees != nil && (own.Trees != nil || moved) {
		d.Trees, p.factor = scaledTrees(p.trees, p.Factor), p.Factor
	}
}
