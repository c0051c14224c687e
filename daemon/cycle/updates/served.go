package updates

import (
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// Stored is how far the log is stored: events are observed before they are.
type Stored struct {
	Cut       []report.Cut
	Watermark int64 // newest event time, milliseconds since 1970; 0 is not known
	Events    *format.Counts
}

// Served is the version that consumers have, with the baselines that the champion's refit fitted, and the two that it
// is one of or could have been:
// the last promoted refit and the newest update, which has no model before there is one. It does not change.
type Served struct {
	fitted.FixedModel
	Means  *fitted.BaselineMeans
	Refit  fitted.FixedModel
	Update fitted.FixedModel
	Limit  float64 // of outputs; 0 for none

	Forms [mixture.NumForms]fitted.FixedModel // the newest update in every form, of which update is one; no model without
}

// Score is what the version that consumers have, and the baselines of its sample, make of one event: what of its
// scoring does not depend on the events before it.
type Score struct {
	Of        *Served // nil of an event that was not scored
	Published evaluate.EventOutcome
	Baseline0 evaluate.EventOutcome
	Baseline1 evaluate.EventOutcome     // of numeric labels
	Compared  bool                      // the two that follow are there
	Update    float64                   // loss by which predictors are compared, of the newest update
	Refit     float64                   // of the last promoted refit
	Forms     [mixture.NumForms]float64 // of the newest update in every form, NaN without
	Names     evaluate.NameCounts
	Slice     evaluate.Slice
	Chance    float64   // of the positive class of a binary label; -1 of other labels
	Outputs   []float64 // m

	Candidates   []float64 // if Compared, m each of the refit, the update and each variant of it, NaN of one that is not
	RefitOutputs []float64 // m, of the last promoted refit; empty where consumers have that
}
