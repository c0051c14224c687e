package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// Objective is one way to learn a task.
type Objective struct {
	Task event.Task
	Loss solver.Loss
	// Link turns outputs into predictions, and so says what the targets are: see package snapshot.
	Link string
	// Likelihood is what the variational stage and the fold-in take the loss for.
	Likelihood posterior.Likelihood
}

// objectives are all there are. What configurations, flags, targets, manifests and the stages of a refit know of losses comes from here. The
// first of a task is its default.
var objectives = []Objective{
	{event.Regression, solver.Squared{}, snapshot.Identity, posterior.Gaussian},
	{event.Binary, solver.BinaryLogistic{}, snapshot.Logistic, posterior.Logistic},
	{event.Binary, solver.Squared{}, snapshot.Identity, posterior.Gaussian},
	{event.Multiclass, solver.MultinomialLogistic{}, snapshot.Softmax, posterior.Multinomial},
	{event.Multiclass, solver.SmoothedHinge{}, snapshot.Identity, posterior.Logistic},
	{event.Multiclass, solver.SquaredHinge{}, snapshot.Identity, posterior.Logistic},
	{event.Multiclass, solver.BinaryLogistic{}, snapshot.Logistic, posterior.Logistic},
	{event.Multiclass, solver.Squared{}, snapshot.Identity, posterior.Gaussian},
	{event.Multilabel, solver.BinaryLogistic{}, snapshot.Logistic, posterior.Logistic},
	{event.Multilabel, solver.Squared{}, snapshot.Identity, posterior.Gaussian},
	{event.Ordinal, solver.BinaryLogistic{}, snapshot.OrdinalLink, posterior.Logistic},
	{event.Ordinal, solver.Squared{}, snapshot.Identity, posterior.Gaussian},
}

// Objective returns that of a model, once its settings are resolved.
func (m *Model) Objective() (Objective, error) {
	for _, o := range objectives {
		if o.Task == event.Task(m.Schema.Task) && o.Loss.Name() == m.Train.Loss {
			return o, nil
		}
	}
	return Objective{}, fmt.Errorf("config: no loss %q for the task %q: use %s", m.Train.Loss, m.Schema.Task,
		strings.Join(Losses(event.Task(m.Schema.Task)), ", "))
}

// Losses returns the names of the losses of the given tasks, without any of all, the default of a task before its others.
func Losses(tasks ...event.Task) (names []string) {
	for _, o := range objectives {
		if name := o.Loss.Name(); (len(tasks) == 0 || slices.Contains(tasks, o.Task)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
