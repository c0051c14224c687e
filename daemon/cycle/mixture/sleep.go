package mixture

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/solver/ridge"
)

// When a part sleeps, and when it is tried again. A part is idle while the mixture gives it next to no weight, and the
// combination of all parts, as far as it has weight, would lose next to nothing without it. One that is idle at
// sleepAfter checks in a row falls asleep. After sleepChecks checks, or an alarm, it wakes for at least one check: if
// it is not idle then it stays awake. So a part that comes to be useful is back within SleepCheck·(sleepChecks+1)
// events. Chosen by hand, on a regression of seven numbers and rules 1.
const (
	SleepCheck  = 256 // events between two checks
	sleepFirst  = 8   // checks before the first at which a part can be idle
	sleepAfter  = 8
	sleepChecks = 32
	sleepWeight = 0.002 // mean weight in the mixture
	sleepFade   = 1 - 1.0/512
	// sleepGain is by how much a combination would lose over the events that it remembers: twice the logarithm of a
	// likelihood ratio, of which noise makes 1 in the mean. sleepShare is the same as a share of its whole loss.
	sleepGain  = 2.0
	sleepShare = 0.0005
)

// sleeper is a part that may sleep (specialists; Freund, Schapire, Singer and Warmuth 1997). While it does it has no
// prediction.
type sleeper struct {
	part int
	used evaluate.Fading // its weight, since it woke
	idle int             // checks in a row
	left int             // checks until it is tried again, 0 of one that is awake
}

// MaySleep has the mixture watch a part, and reports whether it has that part. Call it before the first event.
func (m *Mixture) MaySleep(name string) bool {
	for i := range m.Parts {
		if m.Parts[i].Name == name {
			m.sleepers = append(m.sleepers, sleeper{part: i, used: evaluate.Fading{Rate: sleepFade}})
			return true
		}
	}
	return false
}

// noteUse takes up the weights of an event.
func (m *Mixture) noteUse() {
	for k := range m.sleepers {
		if s := &m.sleepers[k]; m.Parts[s.part].Present {
			s.used.Add(m.Weights[s.part])
		}
	}
	if len(m.sleepers) > 0 {
		m.combined.Rate = sleepFade
		m.combined.Add(m.Weights[len(m.Weights)-1])
	}
}

// chargeSleepers charges parts that are asleep for an event of an entity as much as the worst of the others: they are
// not to come back with fewer losses than those that were awake.
func (m *Mixture) chargeSleepers(own []float64) {
	for k := range m.sleepers {
		s := &m.sleepers[k]
		if s.left == 0 {
			continue
		}
		worst := 0.0
		for i := range m.Parts {
			if m.Parts[i].Present {
				worst = max(worst, m.Parts[i].Loss)
			}
		}
		own[s.part] += worst
	}
}

// CheckSleep looks at the parts that may sleep, every SleepCheck events, and calls set for those that fall asleep or
// wake. wake has all wake. The part needed, "" for none, is idle never.
func (m *Mixture) CheckSleep(wake bool, needed string, set func(name string, asleep bool)) {
	m.checks++
	fell := false // one at a time: what is idle is seen without it
	for k := range m.sleepers {
		s := &m.sleepers[k]
		switch {
		case s.left > 0:
			if s.left--; s.left > 0 && !wake {
				continue
			}
			s.left, s.used.Sum, s.used.N = 0, 0, 0
			if s.idle = sleepAfter - 1; wake {
				s.idle = 0
			}
			if m.Pool != nil {
				m.Pool.admit(s.part)
			}
			set(m.Parts[s.part].Name, false)
		case m.checks <= sleepFirst || m.Parts[s.part].Name == needed || !m.isIdle(s):
			s.idle = 0
		default:
			if s.idle++; s.idle < sleepAfter || fell {
				continue
			}
			s.left, fell = sleepChecks, true
			if m.Pool != nil {
				m.Pool.leave(s.part)
			}
			if m.Stack != nil {
				m.Stack.leave(s.part)
			}
			set(m.Parts[s.part].Name, true)
		}
	}
}

// isIdle reports whether the prediction is next to the same without a part.
func (m *Mixture) isIdle(s *sleeper) bool {
	if s.used.N == 0 || Mean(&s.used) > sleepWeight {
		return false
	}
	if m.Stack == nil && m.Pool == nil {
		return true
	}
	last := &m.Parts[len(m.Parts)-1]
	if last.Reported.N == 0 {
		return false
	}
	if m.Stack != nil {
		return Mean(&m.combined)*m.Stack.gain(s.part, Mean(&last.Reported)) < sleepGain
	}
	const events = 1 / (1 - poolFade)
	return Mean(&m.combined)*m.Pool.gain(s.part) < min(sleepGain, 2*sleepShare*events*Mean(&last.Reported))
}

// gain returns by how much the squares of what the stack remembers would grow without part i, in units of the mean
// square of its errors: w_i²/(A⁻¹)_ii for normal equations A. It returns +Inf where they cannot be solved.
func (s *Stacking) gain(i int, square float64) float64 {
	for k, v := range s.normal {
		s.factor[k] = v / s.next
	}
	for k := range s.n {
		s.factor[k*s.n+k] += stackRidge
	}
	return gainOf(s.factor, s.weights, i) * s.unit * s.unit / square
}

// leave solves anew without part i.
func (s *Stacking) leave(i int) {
	clearCross(s.normal, s.n, i)
	s.right[i] = 0
	s.renew()
}

// gain returns by how much twice the loss of what the pool remembers would grow without part i, +Inf where that cannot
// be solved.
func (p *LogitPool) gain(i int) float64 {
	copy(p.factor, p.curvature)
	return gainOf(p.factor, p.weights, i)
}

// leave takes the weight of part i from it: the others take its place as far as they can (the minimum of a quadratic in
// the weights, where one of them is 0).
func (p *LogitPool) leave(i int) {
	copy(p.factor, p.curvature)
	column := make([]float64, p.n)
	column[i] = 1
	if ridge.Solve(p.factor, column) && column[i] > 0 {
		share := p.weights[i] / column[i]
		for k, v := range column {
			p.weights[k] -= share * v
		}
	}
	p.weights[i] = 0
}

// admit has part i come back. While it was away it counted as the first part, which takes over its weight.
func (p *LogitPool) admit(i int) {
	p.weights[0] += p.weights[i]
	p.weights[i] = 0
	clearCross(p.curvature, p.n, i)
	p.curvature[i*p.n+i] = poolRidge
}

// gainOf returns w_i²/(A⁻¹)_ii, of the lower triangle of A, which it overwrites.
func gainOf(a, w []float64, i int) float64 {
	column := make([]float64, len(w))
	column[i] = 1
	if !ridge.Solve(a, column) || !(column[i] > 0) {
		return math.Inf(1)
	}
	return w[i] * w[i] / column[i]
}

// clearCross clears row and column i of an n×n matrix.
func clearCross(a []float64, n, i int) {
	clear(a[i*n : i*n+n])
	for k := range n {
		a[k*n+i] = 0
	}
}
