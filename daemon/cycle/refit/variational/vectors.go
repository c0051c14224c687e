package variational

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// vectorRidges are the ridges that a prior by vectors chooses from, in names: coordinates have variance 1. Chosen by
// hand.
var vectorRidges = []float64{1000, 100, 10, 1}

// TakeVectors lets the rows of names follow their vectors where select rows are predicted better then, with less and
// less of a ridge as long as that is better. The posterior of a stage is not changed but replaced.
func TakeVectors(j *task.Task, fit *task.VariationalFit, judge func(*solver.Model) float64) {
	if fit == nil {
		return
	}
	for _, c := range j.Rows.Vectors {
		if !c.Differ() {
			fit.Ridges = append(fit.Ridges, 0)
			continue
		}
		regression, taken := vectors.NewRegression(c, fit.State, columnsOf(j.Vocab, c.Field)), 0.0
		for _, ridge := range vectorRidges {
			p := regression.Prior(ridge)
			state := regression.Apply(p)
			model := state.Model()
			loss := judge(model)
			if !(loss < fit.Loss) {
				if taken > 0 {
					break
				}
				continue
			}
			if taken == 0 {
				fit.Priors = append(fit.Priors, p)
			}
			fit.Priors[len(fit.Priors)-1], taken = p, ridge
			fit.State, fit.Model, fit.Loss = state, model, loss
		}
		fit.Ridges = append(fit.Ridges, taken)
	}
}

// withVectors is what TakeVectors does to another posterior, with the ridges that it chose.
func withVectors(j *task.Task, v *encode.Vocabulary, s *posterior.State,
	ridges []float64) (*posterior.State, []*vectors.Prior) {
	var priors []*vectors.Prior
	for i, ridge := range ridges {
		if s == nil || ridge == 0 {
			continue
		}
		c := j.Rows.Vectors[i]
		regression := vectors.NewRegression(c, s, columnsOf(v, c.Field))
		priors = append(priors, regression.Prior(ridge))
		s = regression.Apply(priors[len(priors)-1])
	}
	return s, priors
}

func columnsOf(v *encode.Vocabulary, field int) func(name string) int32 {
	return func(name string) int32 { return v.Column(field, name) }
}
