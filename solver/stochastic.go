package solver

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
)

const (
	// stochasticRows is the sample size from which hybrid refits try stochastic epochs first; on fewer rows FISTA reaches 1e-5 before any
	// stochastic method reaches 1e-2.
	stochasticRows = 16384
	// hybridEpochs are tried before FISTA, stochasticEpochs make up a refit of the stochastic method.
	hybridEpochs     = 2
	stochasticEpochs = 10
	// stochasticBatch and stochasticStep (times 1/rms(Φ)) did best over one to four seconds on letter.
	stochasticBatch = 256
	stochasticStep  = 2.0
)

// stochastic runs epochs of minibatch proximal AdaGrad (Duchi, Hazan and Singer 2011) on v (k×m) and returns the epochs run and whether
// the objective fell; if it did not, or ctx is done, v is unchanged. One accumulator per row of V gives each row one step length, so that the proximal
// operator stays in closed form. The order of the rows comes from rng; the epochs use one goroutine, so the result depends on nothing
// else.
func (f *outputFit) stochastic(ctx context.Context, v []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	if k == 0 {
		return 0, true
	}
	square := 0.0
	for _, phi := range f.phi {
		square += floats.Dot(phi, phi)
	}
	if square == 0 {
		return 0, true
	}
	step := stochasticStep / math.Sqrt(square/float64(n*k))
	before := f.objective(v)
	z := append([]float64(nil), v...)
	accumulated := make([]float64, k)
	batch := newMinibatch(f, min(stochasticBatch, n))
	gradient := make([]float64, k*m)
	for used < epochs && ctx.Err() == nil {
		order := rng.Perm(n)
		for lo := 0; lo < n && ctx.Err() == nil; lo += stochasticBatch {
			batch.gradient(gradient, z, order[lo:min(n, lo+stochasticBatch)])
			for r := range k {
				g, row := gradient[r*m:r*m+m], z[r*m:r*m+m]
				accumulated[r] += floats.Dot(g, g)
				if accumulated[r] == 0 {
					continue
				}
				eta := step / math.Sqrt(accumulated[r])
				floats.AddScaled(row, -eta, g)
				f.form.penalty.proxRow(row, eta*f.form.lambda)
			}
		}
		used++
	}
	if ctx.Err() != nil || f.objective(z) >= before {
		return used, false
	}
	copy(v, z)
	return used, true
}

// objective returns the penalised objective of v, from a full pass over the rows.
func (f *outputFit) objective(v []float64) float64 {
	f.takeOffset()
	value, _, _ := f.pass(v, 0)
	return value + f.form.term(v, len(f.phi), f.p.Outputs)
}

// minibatch gathers rows of a sample so that products run over contiguous memory.
type minibatch struct {
	f       *outputFit
	phi     [][]float64 // k columns of the batch
	columns []float64   // m×size
	rows    []float64   // size×m
	targets []float64   // size×m
	weights []float64   // size, nil for weights of 1
}

func newMinibatch(f *outputFit, size int) *minibatch {
	m := f.p.Outputs
	b := &minibatch{f: f, columns: make([]float64, m*size), rows: make([]float64, size*m), targets: make([]float64, size*m)}
	for range f.phi {
		b.phi = append(b.phi, make([]float64, size))
	}
	if f.p.Weights != nil {
		b.weights = make([]float64, size)
	}
	return b
}

// gradient stores an unbiased estimate of the gradient of the loss at v in dst (k×m): that of the chosen rows, times n over their number.
func (b *minibatch) gradient(dst, v []float64, chosen []int) {
	p, m, size := b.f.p, b.f.p.Outputs, len(chosen)
	for r, phi := range b.f.phi {
		column := b.phi[r][:size]
		for t, i := range chosen {
			column[t] = phi[i]
		}
	}
	for t, i := range chosen {
		copy(b.targets[t*m:t*m+m], p.Targets[i*m:i*m+m])
		copy(b.rows[t*m:t*m+m], b.f.offset[i*m:i*m+m])
		if p.Weights != nil {
			b.weights[t] = p.Weights[i]
		}
	}
	for c := range m {
		column := b.columns[c*size : c*size+size]
		clear(column)
		for r := range b.phi {
			floats.AddScaled(column, v[r*m+c], b.phi[r][:size])
		}
		for t, o := range column {
			b.rows[t*m+c] += o
		}
	}
	weight := b.weights
	if weight != nil {
		weight = weight[:size]
	}
	rows := b.rows[:size*m]
	evalRows(p.Loss, rows, rows, b.targets[:size*m], weight, m)
	scale := float64(p.X.NumRows()) / float64(size)
	for c := range m {
		column := b.columns[c*size : c*size+size]
		for t := range column {
			column[t] = scale * rows[t*m+c]
		}
		for r := range b.phi {
			dst[r*m+c] = floats.Dot(b.phi[r][:size], column)
		}
	}
}
