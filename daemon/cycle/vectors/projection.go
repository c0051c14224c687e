package vectors

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// How vectors are projected: to at most mostCoordinates coordinates, found on at most sampleRows vectors, of at most
// sampleValues numbers in all, by subspaceSteps of subspace iteration with spareColumns more. Directions of less than
// leastVariance of the largest are rounding. Chosen by hand.
const (
	mostCoordinates = 32
	sampleRows      = 2048
	sampleValues    = 4 << 20
	subspaceSteps   = 3
	spareColumns    = 8
	leastVariance   = 1e-9
)

// Projection takes vectors to whitened principal coordinates: of mean 0 and variance 1 over the vectors that it was
// fitted to, and uncorrelated. It never changes.
type Projection struct {
	Mean []float64
	Axes [][]float64 // of each coordinate, as long as the mean
}

// project fits a projection to vectors of the same length. The result depends on them and their order alone. It is nil
// where all are equal.
func project(all [][]float32) *Projection {
	if len(all) < 2 {
		return nil
	}
	d := len(all[0])
	n := min(len(all), sampleRows, max(2*mostCoordinates, sampleValues/d))
	x, mean := mat.NewDense(n, d, nil), make([]float64, d)
	for i := range n {
		row := x.RawRowView(i)
		for c, v := range all[int(int64(i)*int64(len(all))/int64(n))] {
			row[c] = float64(v)
		}
		floats.Add(mean, row)
	}
	floats.Scale(1/float64(n), mean)
	for i := range n {
		floats.Sub(x.RawRowView(i), mean)
	}
	p := min(mostCoordinates+spareColumns, n, d)
	random := rand.New(rand.NewPCG(1, 0x70726f6a656374)) // "project"
	basis := mat.NewDense(d, p, nil)
	for i := range d {
		for c := range p {
			basis.Set(i, c, random.NormFloat64())
		}
	}
	var image mat.Dense
	for range subspaceSteps {
		image.Mul(x, basis)
		basis.Mul(x.T(), &image)
		var qr mat.QR
		qr.Factorize(basis)
		var q mat.Dense
		qr.QTo(&q)
		basis.Copy(q.Slice(0, d, 0, p))
	}
	image.Mul(x, basis)
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(n), image.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&covariance, true) {
		return nil
	}
	values := eigen.Values(nil) // ascending
	var within, axes mat.Dense
	eigen.VectorsTo(&within)
	axes.Mul(basis, &within)
	out := &Projection{Mean: mean}
	for c := p - 1; c >= 0 && len(out.Axes) < mostCoordinates; c-- {
		if !(values[c] > leastVariance*values[p-1]) || !(values[c] > 0) {
			break
		}
		axis := mat.Col(nil, c, &axes)
		// Either sign is right: the largest number of an axis is positive.
		at := 0
		for i, v := range axis {
			if math.Abs(v) > math.Abs(axis[at]) {
				at = i
			}
		}
		floats.Scale(math.Copysign(1/math.Sqrt(values[c]), axis[at]), axis)
		out.Axes = append(out.Axes, axis)
	}
	if len(out.Axes) == 0 {
		return nil
	}
	return out
}

// coordinates stores those of a vector in dst. work is as long as the vector.
func (p *Projection) coordinates(dst []float64, vector []float32, work []float64) {
	for i, v := range vector {
		work[i] = float64(v) - p.Mean[i]
	}
	for c, axis := range p.Axes {
		dst[c] = floats.Dot(axis, work)
	}
}
