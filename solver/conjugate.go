package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
)

// conjugateRay is what the dual objective of a solve is along the ray s∇F, s ≥ 0, of scaled gradients: with the convex
// conjugate F* of the loss, the excess E(s) = F + F*(s∇F) − s⟨o, ∇F⟩ at the predictions o, which is 0 at s = 1 and
// never negative (Fenchel and Young). For the losses of this package the conjugate of a row, at s times a gradient of
// the loss, is
//
//	ℓ*(s g) = a s² + b s + e s log s + Σ_j φ(1 − s p_j),  φ(x) = x log x,
//
// with probabilities p_j of being wrong and e = Σ p_j. Its value at s = 1 is ⟨o, g⟩ − ℓ, which gives b. Hence,
// with sums over the rows,
//
//	E(s) = (1 − s) F − a s (1 − s) + e s log s + ψ(s) − s ψ(1),  ψ(s) = Σ_ij w_i φ(1 − s p_ij).
//
// A loss without RayLoss, or a target that it is not made for, counts with a = e = ψ = 0: as ℓ* is convex and ℓ*(0) =
// −inf ℓ ≤ 0, that is no less than E for s ≤ 1.
type conjugateRay struct {
	p       *Problem
	rows    []float64 // weighted gradients of the rows, n×m
	workers parallel.Workers

	loss  float64 // F
	one   raySums // a, e, and ψ with its derivatives at s = 1
	limit float64 // the largest s for which F* is known to be finite
}

// newConjugateRay sums over the rows, given the loss and its weighted gradients (n×m) at one point. It keeps rows.
func newConjugateRay(p *Problem, workers parallel.Workers, loss float64, rows []float64) *conjugateRay {
	r := &conjugateRay{p: p, rows: rows, workers: workers, loss: loss}
	sums := r.sum(1, func(sums *raySums, w, square float64, wrong []float64) {
		sums.square += w * square
		for _, x := range wrong {
			sums.entropy += w * x
			sums.top = max(sums.top, x)
		}
	})
	if x := sums.square + sums.entropy + sums.value; math.IsNaN(x) || math.IsInf(x, 0) {
		sums = raySums{unknown: true}
	}
	r.one, r.limit = sums, 1
	if !sums.unknown {
		r.limit = math.Inf(1)
		if sums.top > 0 {
			r.limit = 1 / sums.top
		}
	}
	return r
}

// at returns E(s) and its first two derivatives, 0 < s ≤ limit, in a pass over the rows unless s is 1 or ψ is 0.
func (r *conjugateRay) at(s float64) (value, slope, curve float64) {
	sums := r.one
	if s != 1 && sums.entropy > 0 {
		sums = r.sum(s, nil)
	}
	log := math.Log(s)
	value = (1-s)*r.loss - r.one.square*s*(1-s) + r.one.entropy*s*log + sums.value - s*r.one.value
	slope = -r.loss + r.one.square*(2*s-1) + r.one.entropy*(1+log) + sums.slope - r.one.value
	return max(0, value), slope, 2*r.one.square + r.one.entropy/s + sums.curve
}

// raySums are sums over the rows.
type raySums struct {
	value, slope, curve float64 // ψ and its first two derivatives at one s
	square, entropy     float64 // a and e
	top                 float64 // largest probability
	unknown             bool    // some row has no ray
}

// sum passes over the rows, in fixed blocks added in order. Also, if not nil, is called for every row.
func (r *conjugateRay) sum(s float64, also func(sums *raySums, w, square float64, wrong []float64)) raySums {
	loss, known := r.p.Loss.(loss.RayLoss)
	if !known {
		return raySums{unknown: true}
	}
	n, m := r.p.X.NumRows(), r.p.Outputs
	parts := make([]raySums, problem.NumBlocks(n))
	r.workers.Blocks(n, problem.RowBlock(n), func(_, b, lo, hi int) {
		sums := &parts[b]
		wrong, grad := make([]float64, m), make([]float64, m)
		for i := lo; i < hi; i++ {
			w := r.p.Weight(i)
			if w == 0 {
				continue
			}
			for c, g := range r.rows[i*m : i*m+m] {
				grad[c] = g / w // 1/w may be infinite
			}
			count, square, ok := loss.Ray(wrong, grad, r.p.Target(i))
			if !ok {
				sums.unknown = true
				continue
			}
			sums.add(s, w, wrong[:count])
			if also != nil {
				also(sums, w, square, wrong[:count])
			}
		}
	})
	var total raySums
	for _, part := range parts {
		total.value += part.value
		total.slope += part.slope
		total.curve += part.curve
		total.square += part.square
		total.entropy += part.entropy
		total.top = max(total.top, part.top)
		total.unknown = total.unknown || part.unknown
	}
	return total
}

// add adds the terms of one row of weight w.
func (t *raySums) add(s, w float64, wrong []float64) {
	for _, p := range wrong {
		x := 1 - s*p
		if x <= 0 { // 0 log 0 is 0; the derivative there is infinite, and no step goes beyond
			continue
		}
		log := math.Log(x)
		t.value += w * x * log
		t.slope -= w * p * (log + 1)
		t.curve += w * p * p / x
	}
}
