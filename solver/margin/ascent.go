package margin

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
)

// renewSweeps is the number of sweeps after which W is made anew from α: rounding of single steps adds up.
const renewSweeps = 32

// A step sweeps innerSweeps times over the rows whose gap is above gapShare of the mean, and on, up to as many visits
// as an evaluation of all rows makes, while a sweep raises the dual by gainShare of what the first one did, or by what
// is still to be gained. Shares of the gap from .03 to .6 take about as long (letter and satimage, Λ = 100 and 1);
// sweeping on halves the visits to a gap of 1e-3 at Λ = 1, where the gap is in a fifth of the rows. The first sweep's
// order is by gapBits bits of the fractions of gaps.
const (
	innerSweeps = 2
	gapShare    = 0.1
	gainShare   = 0.2
	gapBits     = 4
)

// ascend sweeps over the rows that the gap is in and reports whether the gap of the least objective so far, which the
// dual closes without an evaluation of all rows, came as close as was asked for: it ends at the row where it does. The
// first sweep takes the rows with most of the gap first, further ones an order drawn from the seed and the step.
func (f *fit) ascend(step int) bool {
	total := 0.0
	for _, g := range f.gap {
		total += g
	}
	rows := f.byGap(f.all, gapShare*total/float64(f.n))
	f.keep(rows)
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
		if k+1 >= innerSweeps && ((k+2)*len(rows) > f.n || risen < gainShare*first) && f.enough()-value > risen {
			break
		}
	}
	return false
}

func shuffle(rows []int32, random *rand.Rand) {
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
}

// sweep maximises the dual over the variables of each of the rows in turn, until it has risen by a goal, and returns by
// how much it has. With q = w_i‖x_i‖²/Λ, D changes by w_i times ⟨v − v₀, Δ + o⟩ − ½q‖v − v₀‖² − ½γ(‖v‖² − ‖v₀‖²) from
// v₀ = −α_i to v: the best v is the gradient of the envelope of parameter q + γ at o − qα_i.
func (f *fit) sweep(rows []int32, goal float64) (risen float64) {
	m, s, capped := f.m, f.scratch[0], f.rule.single && f.rule.cost == nil
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
		q := weight * f.squareOf(i) / f.s.Lambda
		var rise float64
		var moved bool
		if capped {
			rise, moved = f.rule.capped(alpha, q, y, s)
		} else {
			rise, moved = f.rule.step(alpha, q, y, s)
		}
		if !moved {
			continue
		}
		risen += weight * rise
		for c := range s.v {
			s.v[c] *= weight / f.s.Lambda
		}
		f.shift(i, s.v, s)
	}
	return risen
}

// step moves the dual variables of a row of class y and scores s.scores to where D is largest, stores by how much in
// s.v, and returns by how much D rises, over the row's weight.
func (r *rule) step(alpha []float64, q float64, y int, s *scratch) (rise float64, moved bool) {
	r.envelope(s.v, s.scores, alpha, -q, y, q+r.gamma, s)
	rise = r.linear(alpha, y)
	for c, v := range s.v {
		was := alpha[c]
		change := -v - was
		moved = moved || change != 0
		rise -= change * (s.scores[c] + 0.5*q*change + 0.5*r.gamma*(was-v))
		alpha[c] = -v
		s.v[c] = change
	}
	return rise - r.linear(alpha, y), moved
}

// capped is step of a loss with a single weight h and no cost matrix. With a the margins at o − qα and g = q + γ, u
// = (a − θ)₊/g with Σ(a − θ)₊ = min(θ, gh) has θ ≥ max(½top, top − gh), where top is the largest
// margin: few classes are above that, and θ is found among them, as a distance to top.
func (r *rule) capped(alpha []float64, q float64, y int, s *scratch) (rise float64, moved bool) {
	z, g := s.a, q+r.gamma
	copy(z, s.scores)
	dense.AddScaled(z, -q, alpha)
	base := z[y] - 1
	z[y] = base                  // its margin is 0
	largest := 0 + slices.Max(z) // 0 for −0
	top, limit := largest-base, g*r.rho[0]
	if top == 0 && alpha[y] == 0 {
		return 0, false
	}
	if limit <= flat*top {
		return r.step(alpha, q, y, s)
	}
	// Which margins are above θ cannot be foretold: no branch asks. The sign of θ − b does, and those below leave
	// the front of order and d.
	theta, count, sum := -min(top/2, limit), 0, 0.0
	for c, x := range z {
		b := x - largest
		s.order[count], s.d[count] = int32(c), b
		count += int(math.Float64bits(theta-b) >> 63)
	}
	for _, b := range s.d[:count] {
		sum += b
	}
	for bounded := top >= 2*limit; count > 0; {
		if bounded {
			theta = (sum - limit) / float64(count)
		} else {
			theta = (sum - top) / float64(count+1)
		}
		above := 0
		sum = 0
		for k, b := range s.d[:count] {
			s.order[above], s.d[above] = s.order[k], b
			is := math.Float64bits(theta-b) >> 63
			sum += math.Float64frombits(math.Float64bits(b) & -is)
			above += int(is)
		}
		if above < count { // 0 only where no margin is positive
			count = above
			continue
		}
		if bounded || top+theta <= limit {
			break
		}
		bounded = true
	}
	lead, h := s.order[:count], r.rho[0]
	atVertex := count == 1 && top+theta >= limit // then u is h, but for rounding
	if atVertex && alpha[lead[0]] == -h && alpha[y] == h {
		return 0, false
	}
	before := 0.0
	if r.gamma > 0 {
		before = dense.Dot(alpha, alpha)
	}
	clear(s.v)
	dense.AddScaled(s.v, -1, alpha)
	rise = -alpha[y]
	clear(alpha)
	total := 0.0
	for k, c := range lead {
		u := (s.d[k] - theta) / g
		if atVertex {
			u = h
		}
		alpha[c] = -u
		s.v[c] -= u
		total += u
	}
	alpha[y] = total
	s.v[y] += total
	square := dense.Dot(s.v, s.v)
	rise += total - dense.Dot(s.v, s.scores) - 0.5*q*square
	if r.gamma > 0 {
		rise -= 0.5 * r.gamma * (dense.Dot(alpha, alpha) - before)
	}
	return rise, square > 0
}

// byGap returns those of some rows whose gap is above a least one, with larger ones first, as far as the first gapBits
// bits of the fraction say, else in order.
func (f *fit) byGap(of []int32, least float64) []int32 {
	most, least := int64(0), max(least, 0)
	for _, i := range of {
		most = max(most, int64(math.Float64bits(f.gap[i]))) // as the numbers, which are not negative
	}
	place := func(g float64) int { return int(most-int64(math.Float64bits(g))) >> (52 - gapBits) }
	if !(math.Float64frombits(uint64(most)) > least) {
		return nil
	}
	start := make([]int32, place(least)+2)
	for _, i := range of {
		if g := f.gap[i]; g > least {
			start[place(g)+1]++
		}
	}
	for k := range len(start) - 1 {
		start[k+1] += start[k]
	}
	rows := make([]int32, start[len(start)-1])
	for _, i := range of {
		if g := f.gap[i]; g > least {
			at := &start[place(g)]
			rows[*at] = i
			*at++
		}
	}
	return rows
}
