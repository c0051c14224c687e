package task

import (
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// WarmStart is what a refit continues from, on its own vocabulary.
type WarmStart struct {
	Model          *solver.Model
	Posterior      *posterior.State // nil without a variational stage
	Gaussian       *posterior.State // that of GaussianTarget
	Lambda         float64
	Horizon        int
	Rows           int64                  // of the champion's refit
	Version        int64                  // of the champion
	Up             bool                   // look for a better λ above the last one, else below
	Precisions     fitted.PrecisionChoice // of the champion
	BothPrecisions bool                   // by lastPrecisions
	Dual           []float64              // of the rows of the refit, n×m; nil without
	Entered        []int32                // rows that dual knows nothing of; nil for those without any that is not 0
	Lean           bool                   // the convex stage is left out where it cannot win, by leavesConvexOut

	Scales     []format.NumericField
	FeatureMap *format.FeatureMap // nil without
	MapWeights []float64          // of the champion on it; nil without
	MapRidge   float64
}

type keptStart struct {
	Warm      bool // false: the refit started from nothing
	Model     *solver.Model
	Posterior *posterior.State
	Lambda    float64
	Up        bool
	Horizon   int
	Rows      int64
	Version   int64
	Map       *format.FeatureMap
	Weights   []float64 // on the map
	Ridge     float64   // of them
	HeldOut   fitted.HeldOutNames
	Lean      bool // the convex stage was left out
	Dual      []float64
	// the variational stage runs from nothing, too, where the convex one is better: not in records of builds before
	// that
	Anew    bool
	Rough   bool                  // Task.rough: not in records of builds before that
	Carries bool                  // Task.carries: nor
	Entered []int32               // rows that Dual knows nothing of: nor
	Scales  []format.NumericField // of the version that it starts from: nor
	Limits  []float64             // Task.limits: nor
	Bounded bool                  // not Task.unbounded: nor
}
