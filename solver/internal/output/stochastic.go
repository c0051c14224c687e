package output

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/loss"
)

const (
	// StochasticRows is the sample size from which hybrid refits try stochastic epochs first; on fewer rows FISTA
	// reaches 1e-5 before any stochastic method reaches 1e-2.
	StochasticRows = 16384
	// HybridEpochs are tried before FISTA, stochasticEpochs make up a refit of a stochastic method.
	HybridEpochs     = 2
	StochasticEpochs = 10
	// StochasticBatch and stochasticStep (times 1/rms(Φ)) did best over one to four seconds on letter.
	StochasticBatch = 256
	stochasticStep  = 2.0
)

// Stochastic runs epochs of minibatch proximal AdaGrad (Duchi, Hazan and Singer 2011) on v (k×m) and returns the epochs
// run and whether the objective fell; if it did not, or the solve is cancelled, v is unchanged. One accumulator per row
// of V gives each row one step length, so that the proximal operator stays in closed form. The order of the rows comes
// from rng; the epochs use one goroutine, so the result depends on nothing else.
func (f *OutputFit) Stochastic(v []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n, k, m := f.P.X.NumRows(), len(f.Phi), f.P.Outputs
	if k == 0 {
		return 0, true
	}
	square := 0.0
	for _, phi := range f.Phi {
		square += dense.Dot(phi, phi)
	}
	if square == 0 {
		return 0, true
	}
	step := stochasticStep / math.Sqrt(square/float64(n*k))
	before := f.Objective(v)
	z := append([]float64(nil), v...)
	accumulated := make([]float64, k)
	batch := NewMinibatch(f)
	gradient := make([]float64, k*m)
	for used < epochs && f.Workers.Yield() {
		order := rng.Perm(n)
		for lo := 0; lo < n && f.Workers.Yield(); lo += StochasticBatch {
			batch.Gather(order[lo:min(n, lo+StochasticBatch)])
			clear(gradient)
			batch.AddGradient(gradient, z, batch.Factor())
			for r := range k {
				g, row := gradient[r*m:r*m+m], z[r*m:r*m+m]
				accumulated[r] += dense.Dot(g, g)
				if accumulated[r] == 0 {
					continue
				}
				eta := step / math.Sqrt(accumulated[r])
				dense.AddScaled(row, -eta, g)
				if f.Form.Tau == 0 {
					f.Form.Penalty.ProxRow(row, eta*f.Form.Lambda)
				}
			}
			if f.Form.Tau > 0 {
				f.Form.Step(z, k, m, 0)
			}
		}
		used++
	}
	if f.Workers.Cancelled() || f.Objective(z) >= before {
		return used, false
	}
	copy(v, z)
	return used, true
}

// Objective returns the penalised objective of v, from a full pass over the rows.
func (f *OutputFit) Objective(v []float64) float64 {
	f.TakeOffset()
	value, _, _ := f.Pass(v, 0)
	return value + f.Form.Term(v, len(f.Phi), f.P.Outputs)
}

// minibatch gathers at most StochasticBatch rows of a sample into one tile, so that products run over contiguous
// memory.
type minibatch struct {
	f      *OutputFit
	size   int
	phi    [][]float64 // k columns of the batch
	base   []float64   // m×size: offsets
	target []float64   // m×size
	weight []float64   // size, nil for weights of 1
	tile   []float64   // m×size
	loss   *loss.LossTile
}

func NewMinibatch(f *OutputFit) *minibatch {
	m := f.P.Outputs
	b := &minibatch{f: f, loss: loss.NewLossTile(f.P.Loss, m)}
	b.base, b.target, b.tile = make([]float64, m*StochasticBatch), make([]float64,
		m*StochasticBatch), make([]float64, m*StochasticBatch)
	for range f.Phi {
		b.phi = append(b.phi, make([]float64, StochasticBatch))
	}
	if f.P.Weights != nil {
		b.weight = make([]float64, StochasticBatch)
	}
	return b
}

func (b *minibatch) Gather(chosen []int) {
	p, m := b.f.P, b.f.P.Outputs
	b.size = len(chosen)
	for r, phi := range b.f.Phi {
		column := b.phi[r][:b.size]
		for t, i := range chosen {
			column[t] = phi[i]
		}
	}
	for t, i := range chosen {
		for c := range m {
			b.target[c*b.size+t], b.base[c*b.size+t] = p.Targets[i*m+c], b.f.Offset[i*m+c]
		}
		if p.Weights != nil {
			b.weight[t] = p.Weights[i]
		}
	}
}

// Factor makes sums over the batch unbiased estimates of sums over the sample.
func (b *minibatch) Factor() float64 { return float64(b.f.P.X.NumRows()) / float64(b.size) }

// AddGradient adds factor times the gradient of the loss of the batch at v to dst (k×m).
func (b *minibatch) AddGradient(dst, v []float64, factor float64) {
	m, tile := b.f.P.Outputs, b.tile[:b.f.P.Outputs*b.size]
	copy(tile, b.base)
	dense.MulAdd(tile, b.size, b.phi, 0, b.size, v, m)
	weight := b.weight
	if weight != nil {
		weight = weight[:b.size]
	}
	b.loss.Eval(tile, tile, b.target[:len(tile)], weight, b.size)
	for i := range tile {
		tile[i] *= factor
	}
	dense.DotAdd(dst, b.phi, 0, b.size, tile, b.size, m)
}
