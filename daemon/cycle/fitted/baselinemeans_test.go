package fitted

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestMeansOfParts: parts one after the other have the means of all events in one, each with its own weight.
func TestMeansOfParts(t *testing.T) {
	target := &encode.Target{Objective: config.Objective{Task: event.Ordinal}, Levels: 5}
	var events []event.Event
	var weights []float64
	for i := range 30 {
		events = append(events,
			event.Event{Label: float64(1 + i*i%5), Categorical: []string{"u", string(rune('a' + i%4))}})
		weights = append(weights, float64(1+i%3))
	}
	for _, w := range [][]float64{nil, weights} {
		whole := FitBaselineMeans(target, w, 1, events)
		parts := FitBaselineMeans(target, w, 1, events[:10], nil, events[10:])
		if whole.Global != parts.Global || len(whole.ByName) != 4 {
			t.Fatalf("means %v and %v by %d names", whole.Global, parts.Global, len(whole.ByName))
		}
		for name, v := range whole.ByName {
			if parts.ByName[name] != v {
				t.Errorf("%s has the mean %v in parts, %v in one", name, parts.ByName[name], v)
			}
		}
	}
}
