package solver

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
)

const (
	// stochasticRows is the sample size from which hybrid refits try stochastic epochs first; on fewer rows FISTA reaches 1e-5 before any
	// stochastic method reaches 1e-2.
	stochasticRows = 16384
	// hybridEpochs are tried before FISTA, stochasticEpochs make up a refit of a stochastic method.
	hybridEpochs     = 2
	stochasticEpochs = 10
	// stochasticBatch and stochasticStep (times 1/rms(Φ)) did best over one to four seconds on letter.
	stochasticBatch = 256
	stochasticStep  = 2.0
)

// stochastic runs epochs of minibatch proximal AdaGrad (Duchi, Hazan and Singer 2011) on v (k×m) and returns the epochs run and whether
// the objective fell; if it did not, or the solve is cancelled, v is unchanged. One accumulator per row of V gives each row one step length,
// so that the proximal operator stays in closed form. The order of the rows comes from rng; the epochs use one goroutine, so the result
// depends on nothing else.
func (f *outputFit) stochastic(v []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	if k == 0 {
		return 0, true
	}
	square := 0.0
	for _, phi := range f.phi {
		square += dense.Dot(phi, phi)
	}
	if square == 0 {
		return 0, true
	}
	step := stochasticStep / math.Sqrt(square/float64(n*k))
	before := f.objective(v)
	z := append([]float64(nil), v...)
	accumulated := make([]float64, k)
	batch := newMinibatch(f)
	gradient := make([]float64, k*m)
	for used < epochs && f.workers.yield() {
		order := rng.Perm(n)
		for lo := 0; lo < n && f.workers.yield(); lo += stochasticBatch {
			batch.gather(order[lo:min(n, lo+stochasticBatch)])
			clear(gradient)
			batch.addGradient(gradient, z, batch.factor())
			for r := range k {
				g, row := gradient[r*m:r*m+m], z[r*m:r*m+m]
				accumulated[r] += dense.Dot(g, g)
				if accumulated[r] == 0 {
					continue
				}
				eta := step / math.Sqrt(accumulated[r])
				dense.AddScaled(row, -eta, g)
				if f.form.tau == 0 {
					f.form.penalty.proxRow(row, eta*f.form.lambda)
				}
			}
			if f.form.tau > 0 {
				f.form.step(z, k, m, 0)
			}
		}
		used++
	}
	if f.workers.cancelled() || f.objective(z) >= before {
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

// minibatch gathers at most stochasticBatch rows of a sample into one tile, so that products run over contiguous memory.
type minibatch struct {
	f      *outputFit
	size   int
	phi    [][]float64 // k columns of the batch
	base   []float64   // m×size: offsets
	target []float64   // m×size
	weight []float64   // size, nil for weights of 1
	tile   []float64   // m×size
	loss   *lossTile
}

func newMinibatch(f *outputFit) *minibatch {
	m := f.p.Outputs
	b := &minibatch{f: f, loss: newLossTile(f.p.Loss, m)}
	b.base, b.target, b.tile = make([]float64, m*stochasticBatch), make([]float64, m*stochasticBatch), make([]float64, m*stochasticBatch)
	for range f.phi {
		b.phi = append(b.phi, make([]float64, stochasticBatch))
	}
	if f.p.Weights != nil {
		b.weight = make([]float64, stochasticBatch)
	}
	return b
}

func (b *minibatch) gather(chosen []int) {
	p, m := b.f.p, b.f.p.Outputs
	b.size = len(chosen)
	for r, phi := range b.f.phi {
		column := b.phi[r][:b.size]
		for t, i := range chosen {
			column[t] = phi[i]
		}
	}
	for t, i := range chosen {
		for c := range m {
			b.target[c*b.size+t], b.base[c*b.size+t] = p.Targets[i*m+c], b.f.offset[i*m+c]
		}
		if p.Weights != nil {
			b.weight[t] = p.Weights[i]
		}
	}
}

// factor makes sums over the batch unbiased estimates of sums over the sample.
func (b *minibatch) factor() float64 { return float64(b.f.p.X.NumRows()) / float64(b.size) }

// addGradient adds factor times the gradient of the loss of the batch at v to dst (k×m).
func (b *minibatch) addGradient(dst, v []float64, factor float64) {
	m, tile := b.f.p.Outputs, b.tile[:b.f.p.Outputs*b.size]
	copy(tile, b.base)
	dense.MulAdd(tile, b.size, b.phi, 0, b.size, v, m)
	weight := b.weight
	if weight != nil {
		weight = weight[:b.size]
	}
	b.loss.eval(tile, tile, b.target[:len(tile)], weight, b.size)
	for i := range tile {
		tile[i] *= factor
	}
	dense.DotAdd(dst, b.phi, 0, b.size, tile, b.size, m)
}
