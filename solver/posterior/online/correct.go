package online

import (
	"math"

	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// Correction is a learned event whose label another one takes the place of. The features have live rows, but for those
// that are held; Frozen are the same without live rows.
type Correction struct {
	Frozen   []Feature
	From, To []float64 // targets
	Weight   float64
	Ages     []int32 // of each feature, events that its row has learned since
	Held     []bool
	Shared   bool // as of LearnPart
}

// Correct adds what the difference of the labels is to the right side of each row, as far as its versions have not
// forgotten it: exactly what the event would have added, at the rows of the last refit. What precisions say does not
// depend on labels and stays, as do losses.
func (f *FoldIn) Correct(features []Feature, values []float64, c *Correction) {
	if y := f.ColdStart; y != nil {
		if c.Shared {
			y.correct(c.From, c.To)
			f.Layout.rebias()
		}
		if !y.known {
			return
		}
	}
	f.Gather(c.Frozen, values, nil)
	f.Layout.Predict(&f.Event)
	f.Layout.correct(c.From, c.To, c.Weight)
	for e := range features {
		if !c.Held[e] {
			f.Accumulate(e)
			f.amend(&f.Rows[features[e].Row], c.Ages[e])
		}
	}
	f.Changes++
}

// amend adds the right side of the increment to every version of a row, faded by so many events, and solves.
func (f *FoldIn) amend(row *LiveRow, age int32) {
	f.widen(row)
	prior := f.Frozen.PrecisionOf(int(row.field))
	added := f.increment[len(f.increment)-len(f.Zero):]
	for g := range max(1, len(row.Loss)) {
		keep := 1.0
		if len(row.Loss) > 0 {
			keep = math.Pow(f.rates[row.field][g], float64(age))
		}
		evidence, right, mean := f.version(row, g)
		if f.Frozen.IsMainOnly(int(row.field)) {
			right[0] += keep * added[0]
			f.solveMainEffect(row, g, prior[0])
			continue
		}
		floats.AddScaled(right, keep, added)
		f.Layout.solve(evidence, right, prior, mean, nil)
	}
}

// difference stores by how much pseudo-observations of two targets differ in dst: they are linear in the target.
func difference(dst []float64, s *posterior.State, from, to []float64, weight float64) {
	for c := range dst {
		d := weight * (to[c] - from[c])
		switch {
		case s.Likelihood == posterior.Gaussian && s.Separate:
			d *= s.Noises[c]
		case s.Likelihood == posterior.Gaussian:
			d *= s.Noise
		case s.Likelihood == posterior.Logistic: // labels are ±1
			d /= 2
		}
		dst[c] = d
	}
}

func (s *sharedRows) correct(from, to []float64, weight float64) {
	by := make([]float64, len(to))
	difference(by, s.state, from, to, weight)
	s.omega, s.right = 0, floats.Sum(by)
}

func (o *outputRows) correct(from, to []float64, weight float64) {
	clear(o.by.Omega)
	clear(o.by.Curve)
	difference(o.by.Right, o.state, from, to, weight)
}
