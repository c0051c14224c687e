package cycle

import (
	"math"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// precisionStart says where the precisions of a variational stage begin that goes on from the last one; empty for a stage that starts from nothing.
type precisionStart string

// Precisions that are carried from refit to refit have adapted to their rows, again and again: as a sample grows that is what predicts best, and where the
// rows change they have to be left behind.
const (
	precisionsAnew    precisionStart = "anew"    // at the cap of the prior, as those of a young basis
	precisionsCarried precisionStart = "carried" // where the last stage ended
)

func (p precisionStart) other() precisionStart {
	if p == precisionsCarried {
		return precisionsAnew
	}
	return precisionsCarried
}

// How the two are compared: at every precisionRefits-th refit, at one after another was kept back or after an alarm of the drift detector, and at the first
// that can carry any. The one that was chosen last is left where the mean loss on the select rows is less by precisionErrors standard errors.
const (
	precisionRefits = 4
	precisionErrors = 1.0
)

// precisionChoice is what a refit chose.
type precisionChoice struct {
	Stage, Gaussian precisionStart // of the variational stage and of that of gaussianTarget
	Refits          int            // since both ways were compared
}

// lastPrecisions returns what the champion's refit chose, and whether a refit that goes on from it tries both ways. Precisions of a stage that the convex
// one has beaten are not worth carrying.
func (j *refitJob) lastPrecisions() (last precisionChoice, both bool) {
	if last = j.champion.precisions; j.champion.Version.Sweeps == 0 {
		return precisionChoice{Refits: precisionRefits}, false
	}
	if last.Stage == "" || last.Refits+1 >= precisionRefits || j.rejections > 0 {
		return last, true
	}
	since, ok := j.eventsSince(j.champion)
	return last, !math.IsInf(j.alarmAge, 1) && (!ok || j.alarmAge <= since)
}

// continuation is a variational stage that goes on from the last one.
type continuation struct {
	state  *posterior.State // where the last one ended; it is swept in place
	prior  posterior.Prior
	last   precisionStart // what the last refit chose
	both   bool           // both ways are tried
	sweep  func(*posterior.State, *budget) (*variationalFit, error)
	losses func(*solver.Model) []float64 // on the select rows
	weight []float64                     // of these, nil counting each once
	budget *budget
}

// run returns the stage and where its precisions began; compared says that both ways were tried. The second of them does not count where the clock cuts
// it short.
func (c *continuation) run() (fit *variationalFit, began precisionStart, compared bool, err error) {
	if began = c.last; began == "" {
		began = precisionsAnew
	}
	var again *posterior.State
	if c.both {
		again = c.state.Clone()
	}
	fit, err = c.sweep(c.begin(c.state, began), c.budget)
	if fit == nil || err != nil || !c.both || c.budget.endedInSweeps() {
		return fit, began, false, err
	}
	own := budget{deadline: c.budget.deadline}
	other, err := c.sweep(c.begin(again, began.other()), &own)
	if err != nil || other == nil || own.cut != nil {
		return fit, began, false, err
	}
	if c.isBetter(other.model, fit.model) {
		return other, began.other(), true, nil
	}
	return fit, began, true, nil
}

// begin sets the precisions that sweeps of a state begin with.
func (c *continuation) begin(s *posterior.State, at precisionStart) *posterior.State {
	if at == precisionsAnew {
		renewed := c.prior
		renewed.Basis = c.prior.Cap
		s.SetPrior(renewed)
	}
	return s
}

// isBetter reports whether a model predicts the select rows better than another by more than chance.
func (c *continuation) isBetter(model, than *solver.Model) bool {
	return isLess(c.losses(model), c.losses(than), c.weight, precisionErrors)
}
