// Package quality measures predictions: it adds up their errors and ranks them. It knows neither models nor events.
package quality

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/report"
)

// Loss is the one figure that predictors are compared by: the RMSE of numbers, the error rate of classes. It is false
// without events.
func Loss(m *report.Metrics) (loss float64, ok bool) {
	switch {
	case m == nil:
	case m.RMSE != nil:
		return float64(*m.RMSE), true
	case m.Accuracy != nil:
		return 1 - float64(*m.Accuracy), true
	}
	return 0, false
}

// Headline is the figure that people compare predictors by.
type Headline struct {
	Name string // rmse, log_loss or error_rate; empty without events
	// Of returns the figure of a predictor; false where it has none.
	Of func(m *report.Metrics) (loss float64, ok bool)
}

// HeadlineOf returns the headline of models with these metrics: the RMSE of numbers, the log loss where outputs are
// probabilities, else the error rate. Where one class is rare, every model that is of use has the error rate of the
// majority.
func HeadlineOf(models ...*report.Metrics) Headline {
	for _, m := range models {
		switch {
		case m == nil:
		case m.RMSE != nil:
			return Headline{"rmse", Loss}
		case m.EntropyNormalised != nil && m.Loss != nil:
			return Headline{"log_loss", logLoss}
		case m.Accuracy != nil:
			return Headline{"error_rate", Loss}
		}
	}
	return Headline{"", Loss}
}

// logLoss returns the mean log loss of a predictor of probabilities.
func logLoss(m *report.Metrics) (loss float64, ok bool) {
	if m == nil || m.Loss == nil || m.EntropyNormalised == nil {
		return 0, false
	}
	return float64(*m.Loss), true
}

// Accumulator sums the errors of predictions of one task. Sums are Neumaier compensated, so that the result does not
// depend on how a long stream was cut.
type Accumulator struct {
	low, high  float64
	numeric    bool
	n          int64
	correct    int64
	loss       sum
	squares    sum
	deviations sum
}

// NewNumberAccumulator returns an accumulator for regression and ordinal tasks. Predictions are clipped to [low, high]
// for rmse and mae only; low ≥ high does not clip.
func NewNumberAccumulator(low, high float64) *Accumulator {
	return &Accumulator{low: low, high: high, numeric: true}
}

// NewClassAccumulator returns an accumulator for binary, multi-class and multi-label tasks.
func NewClassAccumulator() *Accumulator { return &Accumulator{} }

// AddNumber adds the prediction for one event and its loss.
func (a *Accumulator) AddNumber(loss, prediction, label float64) {
	if a.low < a.high {
		prediction = min(max(prediction, a.low), a.high)
	}
	e := prediction - label
	a.n++
	a.loss.add(loss)
	a.squares.add(e * e)
	a.deviations.add(math.Abs(e))
}

// AddClass adds the loss of one event and whether the predicted class, or the whole set of classes, is the label.
func (a *Accumulator) AddClass(loss float64, correct bool) {
	a.n++
	a.loss.add(loss)
	if correct {
		a.correct++
	}
}

// Metrics returns the means so far; without events there is nothing but n.
func (a *Accumulator) Metrics() report.Metrics {
	m := report.Metrics{N: a.n}
	if a.n == 0 {
		return m
	}
	n := float64(a.n)
	m.Loss = report.Some(a.loss.value() / n)
	if a.numeric {
		m.RMSE = report.Some(math.Sqrt(a.squares.value() / n))
		m.MAE = report.Some(a.deviations.value() / n)
	} else {
		m.Accuracy = report.Some(float64(a.correct) / n)
	}
	return m
}

// sum is Neumaier's compensated sum (1974).
type sum struct{ total, rest float64 }

func (s *sum) add(v float64) { s.total, s.rest = AddTo(s.total, s.rest, v) }

// AddTo adds v to a compensated sum, whose value is total + rest.
func AddTo(total, rest, v float64) (newTotal, newRest float64) {
	t := total + v
	if math.Abs(total) >= math.Abs(v) {
		return t, rest + ((total - t) + v)
	}
	return t, rest + ((v - t) + total)
}

// value returns the sum; once a term was not finite the compensation is meaningless and left out.
func (s *sum) value() float64 {
	if v := s.total + s.rest; !math.IsNaN(v) {
		return v
	}
	return s.total
}

// Ranking collects scored items by group, usually a user, for the normalised discounted cumulative gain.
type Ranking struct {
	groups map[string][]ranked
}

type ranked struct{ score, relevance float64 }

// NewRanking returns an empty ranking.
func NewRanking() *Ranking { return &Ranking{groups: make(map[string][]ranked)} }

// Add adds one item with its score and its true relevance. Items are added in the order of the file, which breaks ties.
// One without a group, "", is not ranked.
func (r *Ranking) Add(group string, score, relevance float64) {
	if group == "" {
		return
	}
	r.groups[group] = append(r.groups[group], ranked{score, relevance})
}

// NDCG returns the normalised discounted cumulative gain of the first k items, averaged over the groups present, a
// group of one item included: gain 2^rel − 1, discount log2(rank + 1) (Burges et al. 2005). A group without any gain
// counts 1: every order is ideal. It is NaN without groups.
func (r *Ranking) NDCG(k int) float64 {
	total := sum{}
	for _, group := range slices.Sorted(maps.Keys(r.groups)) { // in a fixed order
		items := slices.Clone(r.groups[group])
		slices.SortStableFunc(items, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
		got := discountedGain(items, k)
		slices.SortStableFunc(items, func(a, b ranked) int { return cmp.Compare(b.relevance, a.relevance) })
		if ideal := discountedGain(items, k); ideal > 0 {
			total.add(got / ideal)
		} else {
			total.add(1)
		}
	}
	return total.value() / float64(len(r.groups))
}

// Recall returns the share of each group's best items, those of the highest relevance in it, that are among its first
// k, averaged over the groups that have a relevance above 0; of more than k best items k are enough. NaN without such
// groups.
func (r *Ranking) Recall(k int) float64 {
	total, groups := sum{}, 0
	for _, group := range slices.Sorted(maps.Keys(r.groups)) {
		items := slices.Clone(r.groups[group])
		slices.SortStableFunc(items, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
		best := slices.MaxFunc(items, func(a, b ranked) int { return cmp.Compare(a.relevance, b.relevance) }).relevance
		if !(best > 0) {
			continue
		}
		all, found := 0, 0
		for i, item := range items {
			if item.relevance == best {
				if all++; i < k {
					found++
				}
			}
		}
		groups++
		total.add(float64(found) / float64(min(k, all)))
	}
	return total.value() / float64(groups)
}

// AddTo stores nDCG at 1, 5 and 10 and recall at 10 in m, unless nothing was ranked.
func (r *Ranking) AddTo(m *report.Metrics) {
	if len(r.groups) > 0 {
		m.NDCG1, m.NDCG5, m.NDCG10 = report.Some(r.NDCG(1)), report.Some(r.NDCG(5)), report.Some(r.NDCG(10))
		m.Recall10 = report.Known(r.Recall(10))
	}
}

func discountedGain(items []ranked, k int) float64 {
	gain := 0.0
	for i, item := range items[:min(k, len(items))] {
		gain += (math.Exp2(item.relevance) - 1) / math.Log2(float64(i)+2)
	}
	return gain
}
