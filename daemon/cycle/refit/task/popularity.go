package task

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// judgedChoices is how many choices of a sample, the last, say how names that are chosen together count in lists.
// Chosen by hand.
const judgedChoices = 8192

// CountChoices counts the choices of a sample, oldest first: of the training rows for what is judged on held-out ones,
// of all rows for versions.
func (j *Task) CountChoices(train, selected, gate []event.Event) (learned, all *fitted.PopularWeights) {
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
	learned, all = count(train), count(train, selected, gate)
	// What a model has learned of who chooses is judged without what its lists get in addition.
	learned.CoChoices = nil
	return learned, all
}

// Bounds of what calibrates popularity: with less than leastPopular numbers of 32 bits could no longer order names.
// Chosen by hand.
const (
	leastPopular, mostPopular = 0.05, 2.0
	fitSteps                  = 30
)

// CalibratePopular returns with which scale and offset the popularity of the training rows says best which of a
// held-out choice and names drawn uniformly, as many as negatives.per_event, was chosen: Platt's scaling (Platt 1999).
// Of names that the training rows do not have nothing is asked.
func (j *Task) CalibratePopular() (scale, offset float64) {
	w := j.Criteria.PopularLearned
	var chosen []float64
	choices := 1.0 // one more, so that either label is there
	for _, part := range [][]event.Event{j.Rows.Select_.Events, j.Rows.Gate.Events} {
		for i := range part {
			if !(part[i].Label > 0) {
				continue
			}
			choices++
			if _, known := w.Names[part[i].Categorical[w.Field]]; known {
				chosen = append(chosen, w.Of(&part[i]))
			}
		}
	}
	// Negatives are drawn uniformly from all names: each counts for as many as chance would draw of it.
	others := make([]float64, 0, len(w.Names))
	for _, weight := range w.Names {
		others = append(others, w.Shared+weight)
	}
	slices.Sort(others) // sums do not depend on the order of the map
	negatives := choices * float64(j.Model.Input.Negatives.PerEvent)
	prior := math.Log((float64(len(chosen)) + 1) / negatives)
	scale, offset = 1, prior
	free := true
	for range fitSteps { // Newton's steps; with a scale out of bounds of the offset alone
		ga, gb, aa, ab, bb := scale-1, offset-prior, 1.0, 0.0, 1.0 // of a prior of one row
		add := func(v, weight, label float64) {
			p := 1 / (1 + math.Exp(-scale*v-offset))
			d, h := weight*(p-label), weight*p*(1-p)
			ga, gb, aa, ab, bb = ga+d*v, gb+d, aa+h*v*v, ab+h*v, bb+h
		}
		for _, v := range chosen {
			add(v, 1, 1)
		}
		for _, v := range others {
			add(v, negatives/float64(len(others)), 0)
		}
		if !free {
			offset -= gb / bb
			continue
		}
		det := aa*bb - ab*ab
		scale -= (bb*ga - ab*gb) / det
		offset -= (aa*gb - ab*ga) / det
		if bounded := min(max(scale, leastPopular), mostPopular); bounded != scale {
			scale, offset, free = bounded, prior, false
		}
	}
	if math.IsNaN(scale+offset) || math.IsInf(scale+offset, 0) {
		return 1, prior
	}
	return scale, offset
}
