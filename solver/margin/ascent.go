package margin

import "math/rand/v2"

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

// ascend sweeps over the rows that the gap is in, in an order drawn from the seed and the step, and reports whether the gap of the least objective so far,
// which the dual closes without an evaluation of all rows, came as close as was asked for.
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
	random := rand.New(rand.NewPCG(f.s.Seed, uint64(step)))
	value, first := f.dual(), 0.0
	for k := range f.n {
		f.sweep(rows, random)
		if f.sweeps++; f.sweeps%renewSweeps == 0 {
			f.sum()
		}
		before := value
		if value = f.dual(); f.isClose(value) && !f.workers.Cancelled() {
			f.objective, f.value, f.shown = f.best.objective, value, f.best.w
			return true
		}
		if k == 0 {
			first = value - before
		}
		if k+1 >= innerSweeps && ((k+2)*len(rows) > f.n || value-before < gainShare*first) {
			break
		}
	}
	return false
}

// sweep maximises the dual over the variables of each of the rows in turn. With q = w_i‖x_i‖²/Λ, D changes by w_i times
// ⟨v − v₀, Δ + o⟩ − ½q‖v − v₀‖² − ½γ(‖v‖² − ‖v₀‖²) from v₀ = −α_i to v: the best v is the gradient of the envelope of parameter q + γ at o − qα_i.
func (f *fit) sweep(rows []int32, random *rand.Rand) {
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	m, s := f.m, f.scratch[0]
	for at, row := range rows {
		if at%rowBlock == 0 && !f.workers.Yield() {
			return
		}
		i := int(row)
		weight := f.p.Weight(i)
		if weight == 0 {
			continue
		}
		alpha := f.alpha[i*m : (i+1)*m]
		f.scores(s.scores, i, s)
		q := weight * f.square[i] / f.s.Lambda
		f.rule.envelope(s.v, s.scores, alpha, -q, int(f.class[i]), q+f.rule.gamma, s)
		moved := false
		for c, v := range s.v {
			change := -v - alpha[c]
			moved = moved || change != 0
			alpha[c] = -v
			s.v[c] = change * weight / f.s.Lambda
		}
		if !moved {
			continue
		}
		f.shift(i, s.v, s)
	}
}
