package cycletest

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// ChessModel is a model of three classes over two numbers, one of which an event may lack.
func ChessModel(asked config.FeatureMap) *config.Model {
	m := config.DefaultModel()
	m.Name = "chess"
	m.Schema = config.Schema{
		Task:     "multiclass",
		Label:    "c",
		Classes:  []string{"black", "white", "none"},
		TimeUnit: "ms",
		Numeric:  []string{"x", "y"},
		Optional: []string{"y"},
	}
	m.Train.MaxBasis, m.Train.FeatureMap = 3, asked
	m.Evaluate.Window = 500
	m.Resolve()
	return &m
}

// Chess draws the fields of a board of unit squares, scaled, or with linear true the sides of a line, without an event
// that lacks a field.
func Chess(seed uint64, n int, scale float64, linear bool) []event.Event {
	r := rand.New(rand.NewPCG(seed, 3))
	events := make([]event.Event, n)
	for i := range events {
		x, y := 3*r.Float64(), 3*r.Float64()
		white := (int(x)+int(y))%2 == 0
		if linear {
			white = r.NormFloat64() < 3*(x-y)
		}
		class := "black"
		if white {
			class = "white"
		}
		events[i] = event.Event{Weight: 1, Numeric: []float64{scale * x, 100 + scale*y}, Classes: []string{class}}
		if !linear && r.IntN(40) == 0 {
			events[i].Numeric[1], events[i].Classes = math.NaN(), []string{"none"}
		}
	}
	return events
}
