package margin

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
)

// Constants of a warm start: of those tried, the ones with the least time on letter and satimage with a twentieth and a
// fifth of the rows replaced, max hinge and weighted Usunier loss, in the mean of 16 splits.
const (
	// enterSweeps bounds the sweeps over new rows. They end where one raises the dual by no more than enterGain times
	// the gap that is asked for: the next would raise it by about a tenth of that. Rows with less than enterLeast times
	// what the mean row may have of that gap are left out.
	enterSweeps = 2
	enterGain   = 2
	enterLeast  = 1
	// freeShare bounds the rows with free dual variables that are swept over before the first evaluation, as a part of
	// all rows.
	freeShare = 0.1
	// The part that W has of the first point, next to the weights of the model before: of a loss with a single
	// weight, and of others, whose W is nearer the optimum. P is about the same for a tenth more or less.
	singleShare, meanShare = 0.4, 0.7
	// P at W and at that point are compared on every probeEvery-th row, of many rows on about probeRows. A difference
	// counts from so many deviations on.
	probeEvery, probeRows, probeDeviations = 16, 64, 4
)

// enter makes W and goes from the dual variables of earlier rows, projected, to the first point of a warm start. The
// gap is all but in the new rows: they begin where the weights of the model before put them, which are used as W
// without the rows that left, and those with a gap there are swept over. Of the others those move that are free. W is
// then far from the optimum for longer than the dual is: rows that left pulled in other directions. The weights of
// the model before are near it, so the first point is a mixture with them. What is left of the gap is then the dual's
// for the most part, which grows without another evaluation (ascend).
func (f *fit) enter(warm *solver.Warm, tolerance float64) {
	if f.method != BlockAscent {
		f.sum()
		return
	}
	rows := slices.Clone(warm.New)
	if warm.New == nil {
		for _, i := range f.all {
			if f.isUnused(i) {
				rows = append(rows, i)
			}
		}
	}
	free, used := f.freeOf(f.all, nil)
	if len(rows) == 0 || !used {
		f.sum()
		return
	}
	earlier := f.weightsOf(warm.Model)
	if earlier != nil {
		f.begin(rows, earlier)
		rows = slices.DeleteFunc(rows, f.isUnused)
	}
	f.sum()
	random := rand.New(rand.NewPCG(f.s.Seed, 0x656e746572)) // "enter": apart from the steps
	value := f.dual()
	for range enterSweeps {
		f.turn()
		f.evaluateRows(rows)
		some := f.byGap(rows, enterLeast*tolerance*value/float64(f.n))
		shuffle(some, random)
		risen := f.sweep(some, math.Inf(1))
		f.sweeps++
		if value += risen; risen <= enterGain*tolerance*value {
			break
		}
	}
	free, _ = f.freeOf(rows, free)
	shuffle(free, random)
	f.sweep(free[:min(len(free), int(freeShare*float64(f.n)))], math.Inf(1))
	share := meanShare
	if f.rule.single {
		share = singleShare
	}
	f.choosePoint(earlier, share)
}

// begin sets the dual variables of rows that have none to the negative subgradients of the loss at other weights than
// W: with those of an optimum they would be where they end, but for rows on the edge of their margins.
func (f *fit) begin(rows []int32, weights []float64) {
	own, s := f.w, f.scratch[0]
	f.setWeights(weights)
	f.turn()
	for lo := 0; lo < len(rows) && !f.workers.Cancelled(); lo += scoreBatch {
		batch := rows[lo:min(lo+scoreBatch, len(rows))]
		block := f.scoresOf(batch, s)
		for k, i := range batch {
			if !f.isUnused(i) {
				continue
			}
			f.rule.eval(s.v, block[k*f.m:(k+1)*f.m], int(f.class[i]), s)
			for c, v := range s.v {
				f.alpha[int(i)*f.m+c] = -v
			}
		}
	}
	f.setWeights(own)
}

// isUnused reports whether the dual variables of a row are 0: that of its class is the sum of the others, which are not
// positive.
func (f *fit) isUnused(i int32) bool { return f.alpha[int(i)*f.m+int(f.class[i])] == 0 }

// freeOf appends to free those rows whose dual variables are neither 0 nor at a corner of what the loss allows, where
// most stay when W moves a little, and reports whether there are any that are not 0.
func (f *fit) freeOf(rows, free []int32) (all []int32, used bool) {
	corner := f.rule.total * (1 - cornerSlack)
	count, some := len(free), 0
	free = slices.Grow(free, len(rows))[:count+len(rows)]
	for _, i := range rows {
		alpha := f.alpha[int(i)*f.m : int(i+1)*f.m]
		own := alpha[f.class[i]]
		if own == 0 {
			continue
		}
		some++
		rivals := -1
		if own >= corner {
			for _, x := range alpha { // no branch: which of them are 0 cannot be foretold
				rivals += isSet(x)
			}
			if rivals <= f.rule.ranked {
				continue
			}
		}
		free[count] = i
		count++
	}
	return free[:count], some > 0
}

// isSet returns 1 for a number that is not 0, and 0 for 0 or −0.
func isSet(x float64) int {
	bits := math.Float64bits(x) << 1
	return int((bits | -bits) >> 63)
}

// cornerSlack is how far, as a part of the sum of the weights, dual variables at a corner may be from it by rounding.
const cornerSlack = 1e-12

// choosePoint makes a mixture of earlier weights, nil for none, with a share of W the point of the next evaluation,
// unless P is less at W by more than a sample of the rows may be wrong. The sample is too small to distinguish good
// points, and the mixture is the better one of rows that are much as before.
func (f *fit) choosePoint(earlier []float64, share float64) {
	if earlier == nil {
		return
	}
	own, mixture, ridge := f.w, make([]float64, len(f.w)), f.ridge()
	for i, x := range earlier {
		mixture[i] = x + share*(own[i]-x)
	}
	f.setWeights(mixture)
	ridge -= f.ridge()
	mixed := f.probe()
	f.setWeights(own)
	var sum, square, total, weight float64
	for k, loss := range f.probe() {
		difference := loss - mixed[k]
		weight += f.p.Weight(k * f.probeDistance())
		sum += difference
		square += difference * difference
	}
	for i := range f.n {
		total += f.p.Weight(i)
	}
	deviation := math.Sqrt(max(0, square-sum*sum/float64(len(mixed))))
	if weight > 0 && (sum+probeDeviations*deviation)*total/weight+ridge >= 0 {
		f.mixture = mixture
	}
}

// probe returns the weighted losses at W of a sample of the rows: one in probeDistance.
func (f *fit) probe() []float64 {
	s := f.scratch[0]
	var rows []int32
	for i := 0; i < f.n; i += f.probeDistance() {
		rows = append(rows, int32(i))
	}
	losses := make([]float64, 0, len(rows))
	f.turn()
	for lo := 0; lo < len(rows); lo += scoreBatch {
		batch := rows[lo:min(lo+scoreBatch, len(rows))]
		block := f.scoresOf(batch, s)
		for k, i := range batch {
			losses = append(losses, f.p.Weight(int(i))*f.rule.eval(s.v, block[k*f.m:(k+1)*f.m], int(f.class[i]), s))
		}
	}
	return losses
}

func (f *fit) probeDistance() int { return max(probeEvery, f.n/probeRows) }

// dual returns D.
func (f *fit) dual() float64 {
	m, sum := f.m, 0.0
	for i := range f.n {
		sum -= f.p.Weight(i) * f.rule.conjugate(f.alpha[i*m:(i+1)*m], int(f.class[i]))
	}
	return sum - f.ridge()
}

// ridge returns ½Λ‖W‖².
func (f *fit) ridge() float64 { return 0.5 * f.s.Lambda * dense.Dot(f.w, f.w) }

// weightsOf returns the weights of a model in the order of W, nil where it is no model of this problem or over another
// basis.
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
