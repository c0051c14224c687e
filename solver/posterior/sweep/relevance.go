package sweep

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// How the interaction of two fields is looked for: in so many of the last rows over all pairs of fields, at most
// testRows for one, by a subspace of testBasis coordinates after testRounds turns of each field. What linear weights
// explain is taken out of its prediction in testCenter rounds. Chosen by hand.
const (
	testWork   = 1_000_000
	testRows   = 50_000
	testBasis  = 4
	testRounds = 6
	testCenter = 4
)

// Interaction says how clearly products of two fields predict what linear weights leave: Z has mean 0 and a standard
// deviation of at most about 1 if they do not.
type Interaction struct {
	A, B int
	Z    float64
}

// Interactions tests every pair of the given fields, by cross-validation within p. Every other row gives the leading
// interactions of the two fields, as Start finds them; what these predict for the rows between, without what is a sum
// of effects of the two fields, is correlated with what the linear weights of all fields leave there; then the halves
// change places, which says much the same: the variance of the sum is taken for that of twice either. Effects of one
// field that are left over cannot pass for an interaction so (partialling out, Frisch and Waugh 1933). r turns the
// subspaces' first guesses. The outputs must share z. O(pairs·n·k), with n bounded so that the time is.
func Interactions(l posterior.Likelihood, p *solver.Problem, fields []int, r *rand.Rand) []Interaction {
	var all []Interaction
	pairs := len(fields) * (len(fields) - 1) / 2
	if pairs == 0 || p.X.NumRows() == 0 {
		return nil
	}
	t := newRelevance(l, p, max(2, min(testRows, testWork/pairs)))
	for i, a := range fields {
		for _, b := range fields[i+1:] {
			all = append(all, Interaction{A: a, B: b, Z: t.test(a, b, r)})
		}
	}
	return all
}

// relevance is the work of Interactions.
type relevance struct {
	rows     []int     // of the problem
	residual []float64 // of these rows
	weight   []float64
	problem  *solver.Problem
	local    []int32 // d: the place of a feature among those of its field
	size     []int   // per field
	start    []int   // of the rows' entries in first, NumFields+1 for each row: where the entries of a field begin
}

func newRelevance(l posterior.Likelihood, p *solver.Problem, most int) *relevance {
	s := posterior.New(l, p.Outputs, 0, p.Field, p.NumFields, posterior.PriorFor(l, 1))
	w := newStarter(s, p)
	w.linear()
	n := p.X.NumRows()
	m := min(n, most)
	t := &relevance{rows: make([]int, m), residual: make([]float64, m), weight: make([]float64, m), problem: p,
		local: make([]int32, len(p.Field)), size: make([]int, p.NumFields), start: make([]int, m*(p.NumFields+1))}
	for j, f := range p.Field {
		t.local[j] = int32(t.size[f])
		t.size[f]++
	}
	for a := range t.rows {
		i := n - m + a // the last rows: the newest, where rows are in order of time
		t.rows[a], t.residual[a], t.weight[a] = i, w.residual[i], p.Weight(i)
		at, f := p.X.Start[i], 0
		for ; f <= p.NumFields; f++ {
			for at < p.X.Start[i+1] && int(p.Field[p.X.Index[at]]) < f {
				at++
			}
			t.start[a*(p.NumFields+1)+f] = at
		}
	}
	return t
}

// entries returns the features of a field in a row, as places in the field, and their values.
func (t *relevance) entries(row, field int, visit func(j int32, x float64)) {
	at := row*(t.problem.NumFields+1) + field
	for e := t.start[at]; e < t.start[at+1]; e++ {
		visit(t.local[t.problem.X.Index[e]], t.problem.X.Value[e])
	}
}

// test returns Z of two fields.
func (t *relevance) test(a, b int, r *rand.Rand) float64 {
	// Z = Σ e v / √(2 Σ (e v)²) over both halves: e the residuals of a half, v what the other half predicts for them.
	gain, variance := 0.0, 0.0
	halves := [2]*starter{t.half(a, b, 0), t.half(a, b, 1)}
	if len(halves[0].residual) == 0 || len(halves[1].residual) == 0 {
		return 0
	}
	for half, seen := range halves {
		other := halves[1-half]
		predicted := seen.interactions(r).predict(other)
		other.center(predicted)
		for i, v := range predicted {
			e := other.problem.Weight(i) * other.residual[i] * v
			gain += e
			variance += e * e
		}
	}
	if !(variance > 0) || math.IsInf(variance, 1) {
		return 0
	}
	return gain / math.Sqrt(2*variance)
}

// half returns every other row with the entries of two fields alone: columns of a, then of b.
func (t *relevance) half(a, b, which int) *starter {
	x := solver.NewRows(t.size[a]+t.size[b], len(t.rows)/2+1, len(t.rows)+2)
	p := &solver.Problem{X: x, Outputs: 1, Field: make([]int32, x.NumColumns), NumFields: 2}
	for j := t.size[a]; j < x.NumColumns; j++ {
		p.Field[j] = 1
	}
	w := &starter{problem: p}
	var index []int32
	var value []float64
	for row := which; row < len(t.rows); row += 2 {
		index, value = index[:0], value[:0]
		for side, f := range []int{a, b} {
			t.entries(row, f, func(j int32, v float64) {
				index, value = append(index, j+int32(side*t.size[a])), append(value, v)
			})
		}
		x.Append(index, value)
		p.Weights = append(p.Weights, t.weight[row])
		w.residual = append(w.residual, t.residual[row])
	}
	w.state = posterior.New(posterior.Gaussian, 1, testBasis, p.Field, 2, posterior.PriorFor(posterior.Gaussian, 1))
	w.prepare()
	return w
}

// interactions sets the coordinates of the second field to leading interactions and those of the first to what,
// coordinate by coordinate, fits its rows best given these, shrunken.
func (w *starter) interactions(r *rand.Rand) *starter {
	k := w.state.NumBasis
	for i := range w.basis {
		w.basis[i] = r.NormFloat64()
	}
	rounds := testRounds
	if len(w.state.Field) == 2 { // one feature each, so that coordinates are signs, which the first round sets
		rounds = 1
	}
	for range rounds {
		w.turn(0)
		w.turn(1)
	}
	square := make([]float64, len(w.basis))
	clear(w.next)
	all, rows := make([]float64, k), 0.0
	w.eachPair(func(i int, j, l int32, x float64) {
		rows += w.problem.Weight(i)
		for a, h := range w.basis[int(l)*k : int(l)*k+k] {
			w.next[int(j)*k+a] += w.problem.Weight(i) * w.residual[i] * x * h
			square[int(j)*k+a] += w.problem.Weight(i) * x * x * h * h
			all[a] += w.problem.Weight(i) * x * x * h * h
		}
	})
	for j, f := range w.state.Field {
		for a := range k {
			if at := j*k + a; f == 0 && square[at] > 0 {
				// Least squares by coordinate, with linearShrinkage rows of the average square added: the divisor is
				// above 0.
				w.basis[at] = w.next[at] / (square[at] + linearShrinkage*all[a]/rows)
			} else if f == 0 {
				w.basis[at] = 0
			}
		}
	}
	return w
}

// eachPair visits the products of entries of both fields.
func (w *starter) eachPair(visit func(i int, first, second int32, x float64)) {
	for i := range w.residual {
		index, value := w.problem.X.Row(i)
		for a, j := range index {
			if w.state.Field[j] != 0 { // entries come in the order of the fields
				break
			}
			for b, l := range index[a+1:] {
				if w.state.Field[l] == 1 {
					visit(i, j, l, value[a]*value[a+1+b])
				}
			}
		}
	}
}

// predict returns what the coordinates say of the rows of other.
func (w *starter) predict(other *starter) []float64 {
	k := w.state.NumBasis
	out := make([]float64, len(other.residual))
	other.eachPair(func(i int, j, l int32, x float64) {
		for a, h := range w.basis[int(j)*k : int(j)*k+k] {
			out[i] += x * h * w.basis[int(l)*k+a]
		}
	})
	return out
}

// center takes out of v what is a constant plus a sum of effects of single features.
func (w *starter) center(v []float64) {
	effect := make([]float64, len(w.state.Field))
	// Backfitting: means are taken out of one field, then of the other, until little is left.
	for range testCenter {
		mean, total := 0.0, 0.0
		for i, y := range v {
			mean += w.problem.Weight(i) * y
			total += w.problem.Weight(i)
		}
		for i := range v {
			v[i] -= mean / total
		}
		for f := range int32(2) {
			clear(effect)
			w.eachEntry(f, func(i int, j int32, x float64) { effect[j] += w.problem.Weight(i) * x * v[i] })
			for j, n := range w.frequency {
				if n > 0 {
					effect[j] /= n
				}
			}
			w.eachEntry(f, func(i int, j int32, x float64) { v[i] -= x * effect[j] })
		}
	}
}

// eachEntry visits the entries of a field, row by row.
func (w *starter) eachEntry(field int32, visit func(i int, j int32, x float64)) {
	for i := range w.residual {
		index, value := w.problem.X.Row(i)
		for e, j := range index {
			if w.state.Field[j] == field {
				visit(i, j, value[e])
			}
		}
	}
}
