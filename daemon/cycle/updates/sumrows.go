package updates

import (
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// SumRows are the rows of a sum of forms. Rows of numeric fields and the constant change with every event: they are not
// asked for one by one.
type SumRows struct {
	Parts    []SumPart // the first is that of the vectors, if there are any
	Constant []float64 // m, what does not change
	Map      []float64 // weights on the joint feature map, as the update has them
	Named    int       // fields of names
	First    int32     // column of the first numeric field
	Columns  int       // from there on
	Vectors  int
	alive    bool      // a vector that the update lacks has come into use
	linear   []float64 // of the row at hand
}

// SumPart is a form of a sum.
type SumPart struct {
	Rows   rowMaker
	Factor float64
	At     int     // of the weights on its feature map among those of the joint one, m for each column
	Scale  float64 // of these
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
			exists, whole := l.Row(x.Linear, x.Basis, r.Named+f, "")
			if r.alive = r.alive || !whole; exists {
				x.Column = r.First + int32(f)
				floats.Scale(r.Parts[0].Factor, x.Linear)
			}
		}
	}
	d.Bias, d.MapWeights = slices.Clone(r.Constant), slices.Clone(r.Map)
	for i := range r.Parts {
		p := &r.Parts[i]
		var own format.Delta
		p.Rows.Rest(&own, func(change RowChange) {
			if change.Name != "" || change.Column < r.First {
				return
			}
			x := &changes[change.Column-r.First]
			if i == 0 {
				x.Column = change.Column
				copy(x.Basis, change.Basis)
			}
			floats.AddScaled(x.Linear, p.Factor, change.Linear)
		})
		floats.AddScaled(d.Bias, p.Factor, own.Bias)
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
