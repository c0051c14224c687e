package encode

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
)

// BoundLoss returns what a loss counts as, which is at most the given one, or what it is where that is 0. A loss that
// is no number counts as the largest.
func BoundLoss(loss, most float64) float64 {
	if most > 0 && !(loss <= most) {
		return most
	}
	return loss
}

// WeightAt returns the weight of a row, nil counting each once.
func WeightAt(weights []float64, i int) float64 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// CountTo returns 0 to n−1.
func CountTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// A weight beyond what others are counts as the largest that they support, in refits and in what is live. A single
// event of the largest weight that decoders accept would otherwise count as all others together. Chosen by hand.
const (
	weightShare  = 0.01 // of rows: a weight that so many have, or more than that, is none beyond the others
	weightRows   = 5    // at the least
	weightFirst  = 10   // weights before any counts as less
	weightRecent = 10_000
	weightLooks  = 16 // new limits while as many weights come as there are
)

// WeightLimit returns what a weight counts as at most, 0 where there are too few weights: the largest that weightShare
// of the rows have, or √n times the mean of n weights that count no more than that one, whichever is more. A sum of n
// weighted losses, of which each counts at most √n times the mean, is consistent, since no row has more than 1/√n of it
// (Ionides 2008, Truncated importance sampling). counts say how many rows each is for, nil for 1.
func WeightLimit(weights, counts []float64) float64 {
	n := len(weights)
	if n < weightFirst {
		return 0
	}
	count := func(i int) float64 {
		if counts == nil {
			return 1
		}
		return counts[i]
	}
	total := 0.0
	order := CountTo(n)
	for i := range order {
		total += count(i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	heavy, common := 0.0, weights[order[n-1]]
	for place, i := range order {
		if heavy += count(i); place+1 >= weightRows && heavy >= weightShare*total {
			common = weights[i]
			break
		}
	}
	mean := 0.0
	for _, i := range order {
		mean += count(i) * min(weights[i], common)
	}
	return max(common, math.Sqrt(float64(n))*mean/total)
}

// WeightUnit says what the weight of an event counts as: limited, and in units of the mean, as those of the rows of a
// refit do. So it matters to nothing in which unit producers give weights. The zero value leaves weights as they are.
type WeightUnit struct {
	most, mean float64
}

// WeightUnitOf returns that of weights of which each counts as most at most. counts say how many rows each is for, nil
// for 1.
func WeightUnitOf(weights, counts []float64, most float64) WeightUnit {
	sum, n := 0.0, 0.0
	for i, w := range weights {
		c := WeightAt(counts, i)
		sum, n = sum+c*min(w, most), n+c
	}
	if !(sum > 0) {
		return WeightUnit{}
	}
	return WeightUnit{most, sum / n}
}

// Of returns what a weight counts as.
func (u WeightUnit) Of(weight float64) float64 {
	if u.mean == 0 {
		return weight
	}
	return min(weight, u.most) / u.mean
}

// WeightScale has the unit of weights that come one after the other, by the last weightRecent of them. Nil leaves
// weights as they are.
type WeightScale struct {
	recent  []float64 // a ring once there are weightRecent
	next    int
	ahead   int // weights until the limit is looked for anew
	unit    WeightUnit
	Limited int64 // weights that counted as less
}

// NewWeightScale returns that of a model, nil if its events have no weights.
func NewWeightScale(m *config.Model) *WeightScale {
	if m.Schema.Weight == "" && len(m.Schema.EventWeights) == 0 {
		return nil
	}
	return &WeightScale{}
}

// Unit returns the unit of the weights so far.
func (s *WeightScale) Unit() WeightUnit {
	if s == nil {
		return WeightUnit{}
	}
	return s.unit
}

// Take returns what the next weight counts as. The limit is of the weights before it.
func (s *WeightScale) Take(weight float64) float64 {
	if s == nil {
		return weight
	}
	if len(s.recent) < weightRecent {
		s.recent = append(s.recent, weight)
	} else {
		s.recent[s.next] = weight
		s.next = (s.next + 1) % weightRecent
	}
	unit := s.unit
	if s.ahead--; len(s.recent) < weightFirst {
		unit = WeightUnitOf(s.recent, nil, math.Inf(1))
		s.unit = unit
	} else if s.ahead <= 0 {
		s.unit, s.ahead = WeightUnitOf(s.recent, nil, WeightLimit(s.recent, nil)), len(s.recent)/weightLooks
	}
	if weight > unit.most {
		s.Limited++
	}
	return unit.Of(weight)
}
