package task

import (
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// Task is one refit: a sample, what it continues from, and what it found so far.
type Task struct {
	Model      *config.Model
	Schema     *event.Schema
	Champion   *fitted.Fitted // nil before the first version
	Fallback   *Fallback
	Updated    bool // consumers have an update of the champion
	Cold       ColdStart
	Rejections int          // in a row before it
	Rough      bool         // the convex stage is polished and certified only where its model is published
	Carries    bool         // each λ of a path of Algorithm 1 starts from the solution of the one before
	Paired     [][2]float64 // of the fold-in and of what consumers have, on the last events, oldest first
	Repeats    *keptStart   // what a refit that is repeated starts from
	Workers    int
	Yield      func() // solver.Settings.Yield
	Budget     Budget
	Now        func() time.Time
	Judge      func(*solver.Model) float64 // loss on the select rows
	Guard      *guard.Guard                // of what is published; nil of a fit that publishes nothing
	Progress   *FitProgress                // of an offline fit

	HeldOutSweeps int                   // of a refit that is repeated
	Began         fitted.PrecisionStart // of its variational stage
	// the champion's posterior with the recent rows folded in, nil until it is asked for
	Folded *experts.FoldIn

	Target         *encode.Target
	Vocab          *encode.Vocabulary
	Train          *encode.Encoded
	Select_        *encode.Encoded
	Gate           *encode.Encoded
	Problem        *solver.Problem
	Swept          *VariationalFit   // nil without the variational stage
	SweptGaussian  *VariationalFit   // of GaussianTarget
	Link           *encode.LevelLink // for that
	Weights        []float64         // of the training rows before they fade, nil counting every row once
	Unbounded      bool              // choices, by entity and by row: of a refit of an earlier build that is repeated
	HalfLife       int               // in horizons
	AlarmAge       float64           // events since the last alarm of the drift detector, +Inf without one
	Ahead          *Sweeper          // the sweeps by which the horizon was chosen; nil without
	Given          int               // the horizon of a refit that is repeated, -1 of any other
	Recent         []event.Event     // training rows since the champion's cut, for rival
	Groups         []int32           // posterior.State.Group, nil: every field for itself
	RowIDs         []fitted.RowID    // of the training rows, where dual variables are kept by them
	MainOnly       []bool            // posterior.State.MainOnly, by ChooseInteractions
	Ridge          float64           // of weights on the feature map, by ChooseFeatureMap
	Plain          bool              // by ChooseFeatureMap: no basis vectors are looked for
	Whole          bool              // the model has all products of numbers already
	Forms          []report.FitForm
	popularLearned *fitted.PopularWeights // of choices, by the training rows; nil of events with labels
	PopularAll     *fitted.PopularWeights // by all rows
	Chosen         *lists                 // what versions of choices are judged by; nil of events with labels
	Lists          *lists                 // the same while they are
	Precisions     fitted.PrecisionChoice // by variational and gaussian
	// set where a last variational stage exists and this one does not continue it
	Restarted  bool
	HeldOut    fitted.HeldOutNames
	Means      *fitted.BaselineMeans
	Least      float64               // what a loss counts as at least where models are compared
	MeansOfAll *fitted.BaselineMeans // of held-out rows, too
	Golden     []event.Event
	Sample     *encode.Sample
}
