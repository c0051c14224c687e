package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
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
	// Margin is the name of a loss of margins that refits minimise in place of Loss, which then is what predictions are
	// judged by; empty for none.
	Margin string
	// Fitted is that loss where it is one of package solver, else nil.
	Fitted solver.Loss
	// Doc says what the loss is for the task, for configs/docs/components.md.
	Doc string
}

// ofMargin is the objective of a loss of margins of classes, whose Fitted Model.Objective makes. Predictions are judged
// as those of a multinomial logistic loss, once they are calibrated.
func ofMargin(kind margin.Kind, doc string) Objective {
	return Objective{
		event.Multiclass,
		solver.MultinomialLogistic{},
		format.Softmax,
		posterior.Multinomial,
		string(kind),
		nil,
		doc,
	}
}

// marginLoss returns the loss of margins of the model. The weights of a weighted one fall evenly to the k-th margin and
// add up to 1, as in the paper's experiments with k = 5.
func (m *Model) marginLoss() margin.Loss {
	t := &m.Train
	k := t.TopK.Of(m.Schema.Outputs())
	loss := margin.Loss{Kind: margin.Kind(t.Loss), K: k, Cost: t.Costs, Moreau: t.Moreau}
	if loss.Kind == margin.WeightedTopK || loss.Kind == margin.WeightedUsunier {
		for j := range k {
			loss.Weights = append(loss.Weights, 2*float64(k-j)/float64(k*(k+1)))
		}
	}
	return loss
}

// Name is the name of the loss that refits minimise: that of train.loss and of manifests.
func (o *Objective) Name() string { return cmp.Or(o.Margin, o.Loss.Name()) }

// of reports whether the objective is one of a task and of what an algorithm minimises.
func (o *Objective) of(task event.Task, a *algorithm) bool {
	return o.Task == task && slices.Contains(a.losses, o.Name()) && !(a.single && o.Link == format.OrdinalLink) &&
		!(a.single && task.HasClasses()) && (o.Margin == "" || a.name != ConditionalGradient)
}

// squaredHinge is the name of a loss of margins of a binary label, as it is of classes.
const squaredHinge = "squared_hinge"

// objectives are all there are. What configurations, flags, targets, manifests and the stages of a refit know of losses
// comes from here. The first of a task is its default. To add one, write its loss in a file of solver/loss and a row
// for each task here.
var objectives = []Objective{
	{event.Regression, solver.Squared{}, format.Identity, posterior.Gaussian, "", nil, "squared error"},
	{event.Binary, solver.BinaryLogistic{}, format.Logistic, posterior.Logistic, "", nil, "logistic regression"},
	{event.Binary, solver.Squared{}, format.Identity, posterior.Gaussian, "", nil, "squared error of 0 and 1"},
	{
		event.Binary,
		solver.BinaryLogistic{},
		format.Logistic,
		posterior.Logistic,
		squaredHinge,
		solver.BinarySquaredHinge{},
		"square of what the margin lacks of 1",
	},
	{
		event.Multiclass, solver.MultinomialLogistic{}, format.Softmax, posterior.Multinomial, "", nil,
		"multinomial logistic regression",
	},
	{
		event.Multiclass, solver.SmoothedHinge{}, format.Identity, posterior.Logistic, "", nil,
		"the logistic loss with every wrong class one unit ahead",
	},
	{
		event.Multiclass, solver.SquaredHinge{}, format.Identity, posterior.Logistic, "", nil,
		"squares of what margins over the other classes lack of 1",
	},
	{
		event.Multiclass, solver.BinaryLogistic{}, format.Logistic, posterior.Logistic, "", nil,
		"one logistic regression for each class",
	},
	{event.Multiclass, solver.Squared{}, format.Identity, posterior.Gaussian, "", nil, "squared error of each class"},
	ofMargin(margin.MaxHinge, "the largest margin of another class"),
	ofMargin(margin.Structured, "the same with the costs of `train.cost`"),
	ofMargin(margin.TopK, "the mean of the `train.top_k` largest margins, cut off at 0 as a whole"),
	ofMargin(margin.WeightedTopK, "the same with weights that fall evenly"),
	ofMargin(margin.Usunier, "the mean of the `train.top_k` largest margins, each cut off at 0"),
	ofMargin(margin.WeightedUsunier, "the same with weights that fall evenly"),
	{
		event.Multilabel, solver.BinaryLogistic{}, format.Logistic, posterior.Logistic, "", nil,
		"one logistic regression for each label",
	},
	{event.Multilabel, solver.Squared{}, format.Identity, posterior.Gaussian, "", nil, "squared error of each label"},
	{
		event.Ordinal, solver.BinaryLogistic{}, format.OrdinalLink, posterior.Logistic, "", nil,
		"one logistic regression for each threshold between levels",
	},
	{event.Ordinal, solver.Squared{}, format.Identity, posterior.Gaussian, "", nil, "squared error of the level"},
}

// Objectives returns all of them, in order.
func Objectives() []Objective { return slices.Clone(objectives) }

// smoothLosses returns the names of the losses that have gradients.
func smoothLosses() (names []string) {
	for _, o := range objectives {
		if o.Margin == "" && !slices.Contains(names, o.Loss.Name()) {
			names = append(names, o.Loss.Name())
		}
	}
	return names
}

// Objective returns that of a model, once its settings are resolved.
func (m *Model) Objective() (Objective, error) {
	a, task := m.Train.algorithmOf(), m.Schema.Learned()
	if a == nil {
		a = algorithms[0]
	}
	for _, o := range objectives {
		if o.of(task, a) && o.Name() == m.Train.Loss {
			if o.Task == event.Multiclass && o.Margin != "" {
				o.Fitted = m.marginLoss()
			}
			return o, nil
		}
	}
	return Objective{}, fmt.Errorf("config: no loss %q for the task %q and the algorithm %s: use %s", m.Train.Loss,
		m.Schema.Task, a.name, strings.Join(a.lossesOf(task), ", "))
}

// Losses returns the names of the losses of the given tasks, without any of all, the default of a task before its
// others.
func Losses(tasks ...event.Task) (names []string) {
	for _, o := range objectives {
		if name := o.Name(); (len(tasks) == 0 || slices.Contains(tasks, o.Task)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
