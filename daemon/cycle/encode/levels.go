package encode

import (
	"math"
	"slices"

	"github.com/refitd/refitd/solver/ridge"
	"gonum.org/v1/gonum/floats"
)

// A LevelLink says what a number predicted for an ordinal label means for its levels, by proportional odds (McCullagh
// 1980): output c, of the chance that the level is at most c+1, is Threshold[c] − Slope·number. It does not change.
type LevelLink struct {
	Threshold []float64
	Slope     float64
}

// How a link is fitted: steps at most, and how many rows that it starts with count for, in units of curvature.
// Derived: probitUnit and SteepestLink. Literature: 1.702 (Haley 1952). The others are chosen by hand.
const (
	linkSteps  = 20
	linkHold   = 10
	probitUnit = 1.702 // a logistic function of so many deviations is within 0.01 of the normal one
	// LeastDeviation is the least error, in levels, that a number is taken to have: half a level away from a threshold
	// the log odds are then 8.5. Equal labels in a row say less than any rows support.
	LeastDeviation = 0.1
	SteepestLink   = probitUnit / LeastDeviation
)

// NewLevelLink returns the link of a Gaussian error of the given deviation: levels reach half way to their neighbours.
func NewLevelLink(m int, deviation float64) *LevelLink {
	l := &LevelLink{Threshold: make([]float64, m), Slope: probitUnit / max(deviation, LeastDeviation)}
	for c := range l.Threshold {
		l.Threshold[c] = l.Slope * (float64(c) + 1.5)
	}
	return l
}

// Fit returns the link that maximises the likelihood of n numbers with targets (n×m, ±1) and weights, nil for equal
// ones, held to l by a normal prior, by Newton's method. It is l where that fails.
func (l *LevelLink) Fit(numbers, targets, weights []float64) *LevelLink {
	m := len(l.Threshold)
	center := float64(m+2) / 2 // of the levels: thresholds and slope are about independent there
	// Parameters: thresholds at the center of the levels, then the slope.
	w := make([]float64, m+1)
	for c, t := range l.Threshold {
		w[c] = t - l.Slope*center
	}
	w[m] = l.Slope
	start, normal, step := append([]float64(nil), w...), make([]float64, (m+1)*(m+1)), make([]float64, m+1)
	value := LinkLoss(w, start, numbers, targets, weights, center)
	for range linkSteps {
		LinkCurve(normal, step, w, start, numbers, targets, weights, center)
		if !ridge.Solve(normal, step) { // the prior makes it positive definite, but for rounding
			return l
		}
		gain := 0.0
		for range linkSteps { // half of a step that goes too far
			next := append([]float64(nil), w...)
			floats.Sub(next, step)
			if v := LinkLoss(next, start, numbers, targets, weights, center); v < value {
				gain, value, w = value-v, v, next
				break
			}
			floats.Scale(0.5, step)
		}
		if gain <= 1e-9*value {
			break
		}
	}
	out := &LevelLink{Threshold: w[:m:m], Slope: w[m]}
	for c := range out.Threshold {
		out.Threshold[c] += out.Slope * center
	}
	if !(out.Slope > 0) || math.IsInf(out.Slope, 1) || !IsFinite(out.Threshold) {
		return l
	}
	if out.Slope > SteepestLink { // the levels still meet at the same numbers
		floats.Scale(SteepestLink/out.Slope, out.Threshold)
		out.Slope = SteepestLink
	}
	return out
}

// LinkLoss is what fit minimises: w has the thresholds at the center, then the slope.
func LinkLoss(w, start, numbers, targets, weights []float64, center float64) float64 {
	m := len(w) - 1
	sum := 0.0
	for i, x := range numbers {
		weight := WeightAt(weights, i)
		for c, t := range targets[i*m : i*m+m] {
			// −log p of each threshold: log(1 + e^o), written so that it does not overflow.
			o := -t * (w[c] - w[m]*(x-center))
			sum += weight * (max(o, 0) + math.Log1p(math.Exp(-math.Abs(o))))
		}
	}
	d := floats.Distance(w, start, 2)
	return sum + linkHold/2*d*d
}

// LinkCurve stores second derivatives (lower triangle) and gradient of LinkLoss.
func LinkCurve(normal, gradient, w, start, numbers, targets, weights []float64, center float64) {
	m := len(w) - 1
	clear(normal)
	for a := range w {
		gradient[a] = linkHold * (w[a] - start[a])
		normal[a*(m+1)+a] = linkHold
	}
	for i, x := range numbers {
		x -= center
		weight := WeightAt(weights, i)
		for c, t := range targets[i*m : i*m+m] {
			// ∂/∂o of the loss is p − [t = 1], its second derivative p(1 − p); o = w_c − w_m·x.
			p := 1 / (1 + math.Exp(w[m]*x-w[c]))
			e, h := weight*(p-(t+1)/2), weight*p*(1-p)
			gradient[c] += e
			gradient[m] -= e * x
			normal[c*(m+1)+c] += h
			normal[m*(m+1)+c] -= h * x
			normal[m*(m+1)+m] += h * x * x
		}
	}
}

// RecentEvents is how many of the last events a RecentLevels keeps: the slope is known to some 5 % by so many, and what
// numbers were worth just after a change is soon forgotten. Derived from that error; when a change is forgotten is
// chosen by hand.
const RecentEvents = 500

// RecentLevels are the numbers that a learner gave for the last events before it learned them, with their levels. What
// a number means for the levels follows from them: the rows that a refit was judged on are from before a change for the
// most part, and say then that numbers mean little. The zero value is empty.
type RecentLevels struct {
	Numbers []float64
	levels  []float64
	at      int // the oldest, once there are RecentEvents
}

// Add takes up a number and the level that came.
func (r *RecentLevels) Add(number, level float64) {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return
	}
	if len(r.Numbers) < RecentEvents {
		r.Numbers, r.levels = append(r.Numbers, number), append(r.levels, level)
		return
	}
	r.Numbers[r.at], r.levels[r.at] = number, level
	r.at = (r.at + 1) % RecentEvents
}

// Clone returns a copy.
func (r *RecentLevels) Clone() *RecentLevels {
	return &RecentLevels{slices.Clone(r.Numbers), slices.Clone(r.levels), r.at}
}

// Link returns the link that the events say, held to l. O(RecentEvents·m) a step.
func (r *RecentLevels) Link(l *LevelLink) *LevelLink {
	m := len(l.Threshold)
	targets := make([]float64, 0, len(r.levels)*m)
	for _, level := range r.levels {
		for c := range m {
			if level <= float64(c)+1 {
				targets = append(targets, 1)
			} else {
				targets = append(targets, -1)
			}
		}
	}
	return l.Fit(r.Numbers, targets, nil)
}

func IsFinite(list []float64) bool {
	for _, v := range list {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
