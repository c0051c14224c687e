package task

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// Candidate is a model on the path of the convex stage.
type Candidate struct {
	Model  *solver.Model
	Lambda float64 // absolute
	Step   solver.Step
	Result *solver.Result // of the solve it belongs to
	Path   *solver.Model  // of a polished candidate: where the path it was taken from ended
	Final  bool           // it is the model that solve ended with
	Rough  bool           // that solve was: nothing is polished or certified
	Left   bool           // as solver.PathPoint.Left
	Loss   float64        // on the select rows

	Scale     float64 // its outputs are those of the solve times this; 0 is 1
	Unsolved  bool    // no basis vector was looked for: there is no gap to speak of
	Quadratic bool    // the whole polynomial of degree 2
	Ridge     float64 // of that
}

// MappedFit is a model with weights on the feature map.
type MappedFit struct {
	Model *solver.Model
	Ridge float64
	Loss  []float64 // on each of the select rows
}

// Continuation is a variational stage that continues the last one.
type Continuation struct {
	State  *posterior.State // where the last one ended; it is swept in place
	Prior  posterior.Prior
	Last   fitted.PrecisionStart // what the last refit chose
	Both   bool                  // both ways are tried
	Sweep  func(*posterior.State, *Budget) (*VariationalFit, error)
	Losses func(*solver.Model) []float64 // on the select rows
	Weight []float64                     // of these, nil counting each once
	Budget *Budget
	// ByEvidence says that the select rows do not decide (gate.SelectDecides): the evidence does.
	ByEvidence bool
}

// Pilot is what the two stages of an offline fit came to on a share of the rows.
type Pilot struct {
	Lambda float64 // of the best model of the convex path, for all rows
	Loss   float64 // of that model, on all select rows
	Won    bool    // by the variational stage
}

type VariationalFit struct {
	State    *posterior.State
	Start    *posterior.State // before its sweeps
	Model    *solver.Model
	Loss     float64 // on the select rows
	Sweeps   int
	Evidence float64
	Uncapped bool // its precisions
	// Priors are where rows of names with vectors begin, and Ridges what they were fitted with, 0 for no prior: of each of
	// Rows.Vectors.
	Priors []*vectors.Prior
	Ridges []float64
}

// GaussianFit is what the variational stage of GaussianTarget came to.
type GaussianFit struct {
	*VariationalFit
	Link  *encode.LevelLink     // what its numbers are for the levels
	Began fitted.PrecisionStart // with which precisions it began; empty where it started from nothing
}

// Sweeping is what sweep goes by.
type Sweeping struct {
	Problem *solver.Problem
	Prior   posterior.Prior
	Limit   int
	Judge   func(*solver.Model) float64 // loss on the select rows
	Budget  *Budget
}

// A Sweeper makes the sweeps of a stage, the first of which may have been made before, when horizons were compared.
type Sweeper struct {
	Start *posterior.State // before the first
	State *posterior.State // after those made
	Refit *sweep.Refit
	Ahead []Swept // made, but not asked for yet
}

// Swept is what a sweep came to.
type Swept struct {
	State    *posterior.State
	Evidence float64
}

// Stages are what the stages have fitted so far.
type Stages struct {
	Swept    *VariationalFit // nil without the variational stage
	Gaussian *GaussianFit    // nil without one
	Ahead    *Sweeper        // the sweeps by which the horizon was chosen; nil without
	// the champion's posterior with the recent rows folded in, nil until it is asked for
	Folded        *experts.FoldIn
	HeldOutSweeps int                   // of a refit that is repeated
	Began         fitted.PrecisionStart // of its variational stage
}
