package guard

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// Labels are compared by parts. All are chosen by hand.
const (
	guardAlike = 0.25 // total variation of two label distributions that count as the same
	guardGone  = 0.1  // of its share of the held-out rows, below which a part of the labels is gone
	labelParts = 4    // quarters of numbers
)

// labels returns the labels of the rows of a set.
func labels(set *fitted.HoldoutSet) (labels []float64) {
	for s := range set {
		for i := range set[s].Rows {
			labels = append(labels, set[s].Rows[i].Label)
		}
	}
	return labels
}

// heldLabels returns the labels of the held-out rows, sorted.
func (g *Guard) heldLabels() []float64 {
	held := labels(&g.Held)
	slices.Sort(held)
	return held
}

// part returns the part of the labels that one belongs to: of a binary label the label, of others the quarter of those
// of the held-out rows.
func (g *Guard) part(held []float64, label float64) int {
	if g.target.Task == event.Binary {
		if label > 0 {
			return 1
		}
		return 0
	}
	at, _ := slices.BinarySearch(held, label)
	return min(labelParts*at/max(len(held), 1), labelParts-1)
}

// compareLabels reports whether the latest events have other labels than the held-out rows, by their parts, and whether
// a part of these is as good as gone.
func (g *Guard) compareLabels(held []float64) (others, gone bool) {
	var share [2][labelParts]float64
	for i, set := range []*fitted.HoldoutSet{&g.Held, &g.latest} {
		total := Seen(set)
		if total == 0 {
			return true, false
		}
		if g.target.Task == event.Binary {
			share[i][0], share[i][1] = set[0].Seen/total, set[1].Seen/total
			continue
		}
		labels := labels(set)
		for _, label := range labels {
			share[i][g.part(held, label)] += 1 / float64(len(labels))
		}
	}
	distance := 0.0
	for k := range share[0] {
		distance += math.Abs(share[0][k]-share[1][k]) / 2
		gone = gone || share[1][k] < guardGone*share[0][k]
	}
	return distance >= guardAlike, gone
}
