package gate

import (
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver/posterior"
)

// FoldRecent returns the fold-in on a posterior over a vocabulary, after the training rows since the champion's cut.
func FoldRecent(j *task.Task, t *encode.Target, v *encode.Vocabulary, on *posterior.State) *experts.FoldIn {
	l := experts.NewFoldIn(j.Model, j.Schema, t, &fitted.Fitted{Vocabulary: v, Posterior: on})
	if !j.Model.Train.FoldIn.Enabled {
		return l
	}
	targets := make([]float64, t.Outputs())
	limits, counts := admission.NewEntityCap(j.Model, j.Schema), new(rows.Counted)
	unit := j.Rows.WeightUnit()
	for i := range j.Rows.Recent {
		if ev := j.Rows.Recent[i]; t.Encode(targets, &ev) { // a copy: both fold-ins learn from these rows at once
			limits.Take(counts, &ev, rows.Position{})
			l.Gather(&ev)
			ev.Weight = unit.Of(ev.Weight)
			experts.LearnPart(l, &ev, targets, counts)
		}
	}
	return l
}
