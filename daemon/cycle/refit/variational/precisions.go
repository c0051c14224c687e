package variational

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver/posterior"
)

// Precisions that are carried from refit to refit have adapted to their rows, again and again: as a sample grows that
// is what predicts best, and where the rows change they have to be left behind.
const (
	PrecisionsAnew    fitted.PrecisionStart = "anew"    // at the cap of the prior, as those of a young basis
	PrecisionsCarried fitted.PrecisionStart = "carried" // where the last stage ended
)

func Other(p fitted.PrecisionStart) fitted.PrecisionStart {
	if p == PrecisionsCarried {
		return PrecisionsAnew
	}
	return PrecisionsCarried
}

// How the two are compared: at every PrecisionRefits-th refit, at one after another was kept back or after an alarm of
// the drift detector, and at the first that can carry any. The one that was chosen last is left where the mean loss on
// the select rows is less by precisionErrors standard errors. Chosen by hand.
const (
	PrecisionRefits = 4
	precisionErrors = 1.0
)

// lastPrecisions returns what the champion's refit chose, and whether a refit that starts from it tries both ways.
// Precisions of a stage that lost to the convex one are not carried over.
func lastPrecisions(j *task.Task) (last fitted.PrecisionChoice, both bool) {
	if j.Model.LeavesOut(task.ChoicePrecisions) {
		return last, false
	}
	if last = j.Champion.Precisions; j.Champion.Version.Sweeps == 0 {
		return fitted.PrecisionChoice{Refits: PrecisionRefits}, false
	}
	if last.Stage == "" || last.Refits+1 >= PrecisionRefits || j.Rejections > 0 {
		return last, true
	}
	since, ok := gate.EventsSince(j, j.Champion)
	return last, !math.IsInf(j.Criteria.AlarmAge, 1) && (!ok || j.Criteria.AlarmAge <= since)
}

// Run returns the stage and where its precisions began; compared says that both ways were tried. The second of them
// does not count where the clock cuts it short.
func Run(c *task.Continuation) (fit *task.VariationalFit, began fitted.PrecisionStart, compared bool, err error) {
	if began = c.Last; began == "" {
		began = PrecisionsAnew
	}
	var again *posterior.State
	if c.Both {
		again = c.State.Clone()
	}
	fit, err = c.Sweep(begin(c, c.State, began), c.Budget)
	if fit == nil || err != nil || !c.Both || c.Budget.EndedInSweeps() {
		return fit, began, false, err
	}
	own := task.Budget{Deadline: c.Budget.Deadline}
	other, err := c.Sweep(begin(c, again, Other(began)), &own)
	if err != nil || other == nil || own.Cut != nil {
		return fit, began, false, err
	}
	if isBetter(c, other, fit) {
		return other, Other(began), true, nil
	}
	return fit, began, true, nil
}

// begin sets the precisions that sweeps of a state begin with.
func begin(c *task.Continuation, s *posterior.State, at fitted.PrecisionStart) *posterior.State {
	if at == PrecisionsAnew {
		renewed := c.Prior
		renewed.Basis = c.Prior.Cap
		s.SetPrior(renewed)
	}
	return s
}

// isBetter reports whether a stage predicts the select rows better than another by more than chance, or where these do
// not decide has more evidence.
func isBetter(c *task.Continuation, fit, than *task.VariationalFit) bool {
	if c.ByEvidence {
		return fit.Evidence > than.Evidence
	}
	return task.IsLess(c.Losses(fit.Model), c.Losses(than.Model), c.Weight, precisionErrors)
}
