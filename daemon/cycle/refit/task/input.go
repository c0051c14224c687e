package task

import (
	"context"
	"errors"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/report"
)

// FitInput is an offline fit: λ and k are chosen on the validation events.
type FitInput struct {
	Model   *config.Model
	Train   []event.Event
	Valid   []event.Event
	Tables  *tables.Set // joined to the events, for the version; nil without tables
	Lambdas []float64   // per 10,000 rows; empty chooses them from λ_max
	OfMax   []bool      // those of Lambdas that are fractions of λ_max instead; nil for none
	Workers int
	// MaxSteps bounds the basis vectors tried per λ; 0 does not.
	MaxSteps int
	// Thorough runs the convex path over all rows even where the variational stage is better on a share of them, every
	// λ from nothing and to its end, and polishes and certifies the model of every λ rather than that of the chosen
	// one.
	Thorough bool
	// OnStep, if not nil, sees every step of every λ.
	OnStep func(report.Step)
	// OnProgress, if not nil, hears how far a stage is: so many of its units of at most so many, as it may end earlier;
	// 0 if that is not known.
	OnProgress func(stage, unit string, done, most int)
	Group      func(*event.Event) string // ranking group, or nil
}

// EventWeights returns the weights of events scaled to mean 1, nil if all are equal.
func EventWeights(events []event.Event) []float64 {
	for i := range events {
		if events[i].Weight != events[0].Weight {
			heaviest := HeaviestOf(events)
			return ScaledWeights(events, MeanWeight(events, heaviest), heaviest)
		}
	}
	return nil
}

// HeaviestOf returns what the weight of an event counts as at most.
func HeaviestOf(events []event.Event) float64 {
	weights := make([]float64, len(events))
	for i := range events {
		weights[i] = events[i].Weight
	}
	return (&encode.Sample{WeightLimit: encode.WeightLimit(weights, nil)}).Heaviest()
}

func MeanWeight(events []event.Event, heaviest float64) float64 {
	total := 0.0
	for i := range events {
		total += min(events[i].Weight, heaviest)
	}
	return total / float64(len(events))
}

// ScaledWeights returns the weights of events over a unit.
func ScaledWeights(events []event.Event, unit, heaviest float64) []float64 {
	w := make([]float64, len(events))
	for i := range events {
		w[i] = min(events[i].Weight, heaviest) / unit
	}
	return w
}

// StreamTolerance is the solver's tolerance in a streaming refit, coarser than that of an offline fit: the next refit
// starts where this one stopped. Chosen by hand.
const StreamTolerance = 1e-3

// IsInterrupted reports whether a refit ended without a model because its context did.
func IsInterrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
