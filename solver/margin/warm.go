package margin

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
)

// Constants of a warm start, as measured on letter and satimage with a twentieth and a fifth of the rows replaced, chosen
// among five on splits 1 and 2 after a look at some on split 0, the one of the bars.
const (
	// enterSweeps bounds the sweeps over new rows. They end where one raises the dual by no more than enterGain of the gap that is asked for.
	enterSweeps = 3
	enterGain   = 0.25
	// oldShare is the part of the other rows that is swept over before the first evaluation.
	oldShare = 0.1
	// enterShare times the root of the part of the rows that is new is the part that W has of the first point, beside the weights of the model before.
	enterShare = 0.9
	// The gap is estimated from every probeEvery-th row, of many rows from about probeRows.
	probeEvery, probeRows = 16, 128
)

// enter goes from the dual variables of earlier rows, projected, to the first point of a warm start. The gap is all but in the rows whose dual variables are
// 0, new ones among them: they are swept over by themselves, to take the place of those that left, and then some of the others, as what they know of those is
// out of date. W is then far from the optimum for longer than the dual is: rows that left pulled in directions of their own. The weights
// of the model before are near it, so the first point is a mixture with them where a sample of the rows finds the gap less there.
// What is left of the gap is then the dual's for the most part, which grows without another evaluation (ascend).
func (f *fit) enter(model *solver.Model, tolerance float64) {
	var rows, old []int32
	for i := range int32(f.n) {
		if f.isUnused(i) {
			rows = append(rows, i)
		} else {
			old = append(old, i)
		}
	}
	if f.method != BlockAscent || len(rows) == 0 || len(old) == 0 {
		return
	}
	random := rand.New(rand.NewPCG(f.s.Seed, 0x656e746572)) // "enter": apart from the steps
	share := min(1, enterShare*math.Sqrt(float64(len(rows))/float64(f.n)))
	value := f.dual()
	for range enterSweeps {
		shuffle(rows, random)
		risen := f.sweep(rows, math.Inf(1))
		f.sweeps++
		if value += risen; risen <= enterGain*tolerance*value {
			break
		}
		rows = slices.DeleteFunc(rows, f.isUnused) // well within their margins
	}
	shuffle(old, random)
	f.sweep(old[:int(oldShare*float64(len(old)))], math.Inf(1))
	f.choosePoint(f.weightsOf(model), share)
}

// isUnused reports whether the dual variables of a row are 0.
func (f *fit) isUnused(i int32) bool {
	return !slices.ContainsFunc(f.alpha[int(i)*f.m:(int(i)+1)*f.m], func(x float64) bool { return x != 0 })
}

// choosePoint makes the better of W and a mixture of earlier weights, nil for none, with a share of W the point of the next evaluation.
func (f *fit) choosePoint(earlier []float64, share float64) {
	if earlier == nil {
		return
	}
	own, mixture, square := f.w, make([]float64, len(f.w)), 0.0
	for i, x := range earlier {
		mixture[i] = x + share*(own[i]-x)
		square += (own[i] - mixture[i]) * (own[i] - mixture[i])
	}
	gap := f.probe()
	f.setWeights(mixture)
	if f.probe()+0.5*f.s.Lambda*square < gap {
		f.mixture = mixture
	}
	f.setWeights(own)
}

// probe estimates from a sample what rows add to the gap at W, P − D less ½Λ‖W − W_α‖², where W_α is W of the dual variables.
func (f *fit) probe() float64 {
	s, gap, weight, total, distance := f.scratch[0], 0.0, 0.0, 0.0, max(probeEvery, f.n/probeRows)
	for i := range f.n {
		if total += f.p.Weight(i); i%distance == 0 {
			f.scores(s.scores, i, s)
			loss, inner, conjugate := f.row(i, s)
			gap += f.p.Weight(i) * max(loss+inner+conjugate, 0)
			weight += f.p.Weight(i)
		}
	}
	if weight > 0 {
		gap *= total / weight
	}
	return gap
}

// dual returns D.
func (f *fit) dual() float64 {
	m, sum := f.m, 0.0
	for i := range f.n {
		alpha := f.alpha[i*m : (i+1)*m]
		sum -= f.p.Weight(i) * (f.rule.linear(alpha, int(f.class[i])) + 0.5*f.rule.gamma*dense.Dot(alpha, alpha))
	}
	return sum - f.ridge()
}

// ridge returns ½Λ‖W‖².
func (f *fit) ridge() float64 { return 0.5 * f.s.Lambda * dense.Dot(f.w, f.w) }

// weightsOf returns the weights of a model in the order of W, nil where it is no model of this problem or over another basis.
func (f *fit) weightsOf(m *solver.Model) []float64 {
	if m == nil || m.NumFeatures != f.p.X.NumColumns || m.NumOutputs != f.m {
		return nil
	}
	var w []float64
	if f.basis != nil && m.Kernel == f.basis.Kernel && slices.Equal(m.Basis, f.basis.Basis) {
		w = append(w, m.Weights...)
	}
	if f.basis == nil || f.s.LinearRidge > 0 {
		w = append(w, m.Linear...)
	}
	if f.s.BiasRidge > 0 {
		w = append(w, m.Bias...)
	}
	if len(w) != len(f.w) || !m.IsFinite() {
		return nil
	}
	return w
}
