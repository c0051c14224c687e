package task

import "github.com/refitd/refitd/consumer/event"

// CapEntities scales the weights of rows, nil for equal ones, so that no entity has more than its share of their sum.
func (j *Task) CapEntities(weights []float64, rows []event.Event) []float64 {
	return j.CapNames(weights, j.EntitiesOf(rows))
}
