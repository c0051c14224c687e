package margin

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// renewSweeps is the number of sweeps after which W is made anew from α: rounding of single steps adds up.
const renewSweeps = 32

// A step sweeps innerSweeps times over the rows whose gap is above gapShare of the mean, and on, up to as many visits as an evaluation of all rows makes,
// while a sweep raises the dual by gainShare of what the first one did. Shares of the gap from .03 to .6 take about as long (letter and satimage, Λ = 100 and
// 1); sweeping on halves the visits to a gap of 1e-3 at Λ = 1, where the gap is in a fifth of the rows.
const (
	innerSweeps = 2
	gapShare    = 0.1
	gainShare   = 0.2
)

// ascend sweeps over the rows that the gap is in and reports whether the gap of the least objective so far, which the dual closes without an evaluation of
// all rows, came as close as was asked for: it ends at the row where it does. The first sweep takes the rows with most of the gap first, further ones an order
// drawn from the seed and the step.
func (f *fit) ascend(step int) bool {
	total := 0.0
	for _, g := range f.gap {
		total += g
	}
	least := gapShare * total / float64(f.n)
	rows := make([]int32, 0, f.n)
	for i, g := range f.gap {
		if g > least {
			rows = append(rows, int32(i))
		}
	}
	slices.SortFunc(rows, func(i, j int32) int { return cmp.Or(cmp.Compare(f.gap[j], f.gap[i]), cmp.Compare(i, j)) })
	random := rand.New(rand.NewPCG(f.s.Seed, uint64(step)))
	value, first := f.value, 0.0
	for k := range f.n {
		if k > 0 {
			shuffle(rows, random)
		}
		risen := f.sweep(rows, f.enough()-value)
		if f.sweeps++; f.sweeps%renewSweeps == 0 {
			f.sum()
		}
		if value += risen; f.isClose(value) {
			value = f.dual() // without the rounding of its rises
		}
		if f.isClose(value) && !f.workers.Cancelled() {
			f.objective, f.value, f.shown = f.best.objective, value, f.best.w
			return true
		}
		if k == 0 {
			first = risen
		}
		if k+1 >= innerSweeps && ((k+2)*len(rows) > f.n || risen < gainShare*first) {
			break
		}
	}
	return false
}

func shuffle(rows []int32, random *rand.Rand) {
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
}

// sweep maximises the dual over the variables of each of the rows in turn, until it has risen by a goal, and returns by how much it has. With
// q = w_i‖x_i‖²/Λ, D changes by w_i times ⟨v − v₀, Δ + o⟩ − ½q‖v − v₀‖² − ½γ(‖v‖² − ‖v₀‖²) from v₀ = −α_i to v: the best v is the gradient of the envelope
// of parameter q + γ at o − qα_i.
func (f *fit) sweep(rows []int32, goal float64) (risen float64) {
	m, s := f.m, f.scratch[0]
	for at, row := range rows {
		if risen >= goal || at%rowBlock == 0 && !f.workers.Yield() {
			return risen
		}
		i := int(row)
		weight := f.p.Weight(i)
		if weight == 0 {
			continue
		}
		alpha, y := f.alpha[i*m:(i+1)*m], int(f.class[i])
		f.scores(s.scores, i, s)
		q := weight * f.square[i] / f.s.Lambda
		f.rule.envelope(s.v, s.scores, alpha, -q, y, q+f.rule.gamma, s)
		moved, rise := false, f.rule.linear(alpha, y)
		for c, v := range s.v {
			was := alpha[c]
			change := -v - was
			moved = moved || change != 0
			rise -= change * (s.scores[c] + 0.5*q*change + 0.5*f.rule.gamma*(was-v))
			alpha[c] = -v
			s.v[c] = change * weight / f.s.Lambda
		}
		if !moved {
			continue
		}
		risen += weight * (rise - f.rule.linear(alpha, y))
		f.shift(i, s.v, s)
	}
	return risen
}
