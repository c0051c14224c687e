package task

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// judgedChoices is how many choices of a sample, the last, say how names that are chosen together count in lists.
const judgedChoices = 8192

// CountChoices counts the choices of a sample, oldest first: of the training rows for what is judged on held-out ones,
// of all rows for versions.
func (j *Task) CountChoices(train, selected, gate []event.Event) {
	if j.Model.ChosenField() < 0 {
		return
	}
	type choice struct {
		of  *event.Event
		age float64
	}
	count := func(parts ...[]event.Event) *fitted.PopularWeights {
		ages := [][]float64{j.Rows.Sample.TrainAge, j.Rows.Sample.SelectAge, j.Rows.Sample.GateAge}
		var list []choice
		for i, part := range parts {
			for k := range part {
				if c := (choice{of: &part[k]}); c.of.Label > 0 {
					if len(ages[i]) == len(part) {
						c.age = ages[i][k]
					}
					list = append(list, c)
				}
			}
		}
		slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(b.age, a.age) })
		p := fitted.NewPopularity(j.Model)
		if len(list) > 0 {
			p.Now = -list[0].age // of the oldest
		}
		for i, c := range list {
			p.Judge(i >= len(list)-judgedChoices)
			p.ChooseAt(c.of, -c.age)
		}
		return p.Weights()
	}
	j.Criteria.popularLearned, j.Criteria.PopularAll = count(train), count(train, selected, gate)
	// What a model has learned of who chooses is judged without what its lists get in addition.
	j.Criteria.popularLearned.CoChoices = nil
}

// Bounds of what calibrates popularity: with less than leastPopular numbers of 32 bits could no longer order names, and
// more than 1 is more than popularity says.
const (
	leastPopular = 0.05
	fitSteps     = 30
)

// CalibratePopular returns with which scale and offset the popularity of the training rows says best which held-out
// rows are choices: Platt's scaling (Platt 1999). Negatives are names as popular as what was chosen, so that it says
// little.
func (j *Task) CalibratePopular() (scale, offset float64) {
	w := j.Criteria.popularLearned
	var x []float64
	var ones []bool
	n := 2.0
	share := 1.0
	for _, part := range [][]event.Event{j.Rows.Select_.Events, j.Rows.Gate.Events} {
		for i := range part {
			x, ones = append(x, w.Of(&part[i])), append(ones, part[i].Label > 0)
			n++
			if part[i].Label > 0 {
				share++
			}
		}
	}
	share /= n
	prior := math.Log(share / (1 - share))
	scale, offset = leastPopular, prior
	free := true
	for range fitSteps { // Newton's steps; with a scale out of bounds of the offset alone
		var ga, gb, aa, ab, bb float64
		for i, v := range x {
			p := 1 / (1 + math.Exp(-scale*v-offset))
			d := p
			if ones[i] {
				d--
			}
			h := p * (1 - p)
			ga, gb, aa, ab, bb = ga+d*v, gb+d, aa+h*v*v, ab+h*v, bb+h
		}
		gb, aa, bb = gb+(offset-prior), aa+1, bb+1
		if free {
			det := aa*bb - ab*ab
			scale -= (bb*ga - ab*gb) / det
			offset -= (aa*gb - ab*ga) / det
			if bounded := min(max(scale, leastPopular), 1); bounded != scale {
				scale, offset, free = bounded, prior, false
			}
		} else {
			offset -= gb / bb
		}
	}
	if math.IsNaN(scale+offset) || math.IsInf(scale+offset, 0) {
		return leastPopular, prior
	}
	return scale, offset
}
