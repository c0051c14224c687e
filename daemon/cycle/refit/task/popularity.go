package task

import (
	"cmp"
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
}
