package vectors

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// mostNumbers bounds how many numbers of rows a regression has: names that are more are left out, evenly. Chosen by
// hand.
const mostNumbers = 1 << 18

// Coordinates are those of the names of a field of events: 1, then those of each of its columns, 0 where a name lacks
// one.
type Coordinates struct {
	Field  int
	Names  []string // ascending
	parts  []Part
	size   int
	values []float64 // len(Names) × size
}

// Part is a column of a table with vectors.
type Part struct {
	Table, Column int
	Projection    *Projection // nil where vectors say nothing
}

// Of returns the coordinates of all names that tables have vectors of, by field; nil without any. They depend on the
// rows alone. Fill computes them.
func Of(s *tables.Set) (list []*Coordinates) {
	for t := range s.NumTables() {
		for column := range s.Config(t).Vector {
			names, _ := s.Vectors(t, column)
			at := slices.IndexFunc(list, func(c *Coordinates) bool { return c.Field == s.Field(t) })
			if at < 0 {
				at = len(list)
				list = append(list, &Coordinates{Field: s.Field(t)})
			}
			c := list[at]
			c.parts, c.Names = append(c.parts, Part{Table: t, Column: column}), append(c.Names, names...)
			slices.Sort(c.Names)
			c.Names = slices.Compact(c.Names)
		}
	}
	return list
}

// Fill fits the projections and computes the coordinates.
func (c *Coordinates) Fill(s *tables.Set) {
	c.size = 1
	for i := range c.parts {
		p := &c.parts[i]
		_, vectors := s.Vectors(p.Table, p.Column)
		if p.Projection = project(vectors); p.Projection != nil {
			c.size += len(p.Projection.Axes)
		}
	}
	c.values = make([]float64, len(c.Names)*c.size)
	for i, name := range c.Names {
		place(c.values[i*c.size:(i+1)*c.size], c.parts, s, name)
	}
}

// place stores the coordinates of a name, and reports whether it has a vector.
func place(dst []float64, parts []Part, s *tables.Set, name string) (found bool) {
	dst[0] = 1
	at := 1
	for i := range parts {
		p := &parts[i]
		if p.Projection == nil {
			continue
		}
		if v := s.Vector(tables.Entity{Table: p.Table, Name: name}, p.Column); len(v) == len(p.Projection.Mean) {
			p.Projection.coordinates(dst[at:], v, make([]float64, len(v)))
			found = true
		}
		at += len(p.Projection.Axes)
	}
	return found
}

// Differ reports whether the names have different coordinates.
func (c *Coordinates) Differ() bool { return c.size > 1 }

// row returns the coordinates of name i.
func (c *Coordinates) row(i int) []float64 { return c.values[i*c.size : (i+1)*c.size] }

// Regression is that of the rows of a posterior on the coordinates of their names.
//
// A row that was learned with a prior of mean 0 and precision P has mean m and covariance C. Had the mean of the prior
// been p, it were m + C·P·p. So m is about s·p with s = 1 − C·P, and off by a variance in proportion to s. Weights of
// the coordinates z, of which p is a sum, solve (Σ s·z·zᵀ + ridge)·w = Σ m·z. Each number of a row has a
// separate s, by the variance in C alone.
type Regression struct {
	of      *Coordinates
	state   *posterior.State
	columns []int32 // of the names, -1 for none
	gram    []*mat.SymDense
	right   []*mat.VecDense
}

// NewRegression adds up what the rows of a state say. column returns that of a name, -1 for none. O(names·q·size²).
func NewRegression(c *Coordinates, s *posterior.State, column func(name string) int32) *Regression {
	r := &Regression{of: c, state: s, columns: make([]int32, len(c.Names))}
	free := s.Free(c.Field)
	most := max(1, mostNumbers/free)
	step := (len(c.Names) + most - 1) / most
	for range free {
		r.gram = append(r.gram, mat.NewSymDense(c.size, nil))
		r.right = append(r.right, mat.NewVecDense(c.size, nil))
	}
	precision := s.PrecisionOf(c.Field)
	for i, name := range c.Names {
		r.columns[i] = column(name)
		if i%step != 0 || r.columns[i] < 0 {
			continue
		}
		mean, cov := s.Row(int(r.columns[i]))
		z := c.row(i)
		for a := range free {
			share := min(max(1-cov[s.Variance(a)]*precision[a], 0), 1)
			if share == 0 { // nothing was learned
				continue
			}
			upper := r.gram[a].RawSymmetric()
			for t, v := range z {
				floats.AddScaled(upper.Data[t*upper.Stride+t:t*upper.Stride+c.size], share*v, z[t:])
			}
			floats.AddScaled(r.right[a].RawVector().Data, mean[a], z)
		}
	}
	return r
}

// Prior returns the prior with that ridge, above 0.
func (r *Regression) Prior(ridge float64) *Prior {
	p := &Prior{Field: r.of.Field, Parts: r.of.parts, Size: r.of.size}
	for a := range r.gram {
		sum := mat.NewSymDense(r.of.size, nil)
		sum.CopySym(r.gram[a])
		for t := range r.of.size {
			sum.SetSym(t, t, sum.At(t, t)+ridge)
		}
		var factor mat.Cholesky
		weights := mat.NewVecDense(r.of.size, nil)
		if factor.Factorize(sum) {
			_ = factor.SolveVecTo(weights, r.right[a]) // the error says that it is near to singular: the ridge bounds it
		}
		p.Weights = append(p.Weights, weights.RawVector().Data)
	}
	return p
}

// Apply returns the state with the rows that follow from the prior. It shares all but the means.
func (r *Regression) Apply(p *Prior) *posterior.State {
	s := *r.state
	s.Mean = slices.Clone(s.Mean)
	precision := s.PrecisionOf(p.Field)
	for i, j := range r.columns {
		if j < 0 {
			continue
		}
		mean, cov := s.Row(int(j))
		for a, weights := range p.Weights {
			mean[a] += cov[s.Variance(a)] * precision[a] * floats.Dot(weights, r.of.row(i))
		}
	}
	return &s
}

// Prior says where the row of a name begins. It never changes.
type Prior struct {
	Field   int // of events
	Parts   []Part
	Size    int         // coordinates
	Weights [][]float64 // of each number of a row by coordinate
}

// Row returns the row of a name, of q numbers, nil where tables have no vector of it.
func (p *Prior) Row(s *tables.Set, name string, q int) []float64 {
	z := make([]float64, p.Size)
	if !place(z, p.Parts, s, name) {
		return nil
	}
	row := make([]float64, q)
	for a, weights := range p.Weights {
		row[a] = floats.Dot(weights, z)
	}
	return row
}

// Begins returns where the row of a name of a field begins by the first of some priors that knows it, nil for none.
func Begins(priors []*Prior, s *tables.Set, field int, name string, q int) []float64 {
	for _, p := range priors {
		if p.Field == field {
			return p.Row(s, name, q)
		}
	}
	return nil
}

// IsLearned reports whether a row of a state says more than its prior.
func IsLearned(s *posterior.State, column int32) bool {
	_, cov := s.Row(int(column))
	return cov[s.Variance(0)]*s.PrecisionOf(int(s.Field[column]))[0] < 1-1e-9
}
