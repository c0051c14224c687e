package encode

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
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

// WeightScale has the limit of weights that come one after the other, by the last weightRecent of them. Nil limits
// nothing.
type WeightScale struct {
	recent  []float64 // a ring once there are weightRecent
	next    int
	ahead   int     // weights until the limit is looked for anew
	limit   float64 // of the weights before; 0 is not known
	Limited int64   // weights that counted as less
}

// NewWeightScale returns that of a model, nil if events have no weight field.
func NewWeightScale(schema *event.Schema) *WeightScale {
	if schema.Weight == "" {
		return nil
	}
	return &WeightScale{}
}

// Most returns what a weight counts as at most.
func (s *WeightScale) Most() float64 {
	if s == nil || s.limit == 0 {
		return math.Inf(1)
	}
	return s.limit
}

// Take returns what the next weight counts as.
func (s *WeightScale) Take(weight float64) float64 {
	if s == nil {
		return weight
	}
	most := s.Most()
	if len(s.recent) < weightRecent {
		s.recent = append(s.recent, weight)
	} else {
		s.recent[s.next] = weight
		s.next = (s.next + 1) % weightRecent
	}
	if s.ahead--; s.ahead <= 0 && len(s.recent) >= weightFirst {
		s.limit, s.ahead = WeightLimit(s.recent, nil), len(s.recent)/weightLooks
	}
	if weight > most {
		s.Limited++
		return most
	}
	return weight
}
