package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
	"github.com/refitd/refitd/solver/margin"
)

// Values of train.algorithm, ConditionalGradient being the default.
const (
	ConditionalGradient = "conditional_gradient"
	FrankWolfeSVM       = "frank_wolfe_svm"
)

// Values of train.features, RawFeatures being the default: what a support vector machine is learned over.
const (
	RawFeatures   = "raw"   // the features themselves
	BasisFeatures = "basis" // basis vectors that Algorithm 1 has found, in addition to the features
)

// An algorithm is a value of train.algorithm: what it can fit, and which keys of train it has no use for.
type algorithm struct {
	name string
	doc  string // what it does, for configs/docs/components.md
	// fits makes it, once the settings are valid.
	fits func(*Model) solver.Algorithm
	// losses are the names of those it minimises, of any task; the default of a task is the first one that the task
	// has.
	losses  []string
	single  bool // it has one output
	degrees []int
	refits  []string          // values of train.refit; the first is auto where the variational stage does not apply
	unused  map[string]string // keys of train whose value would be ignored, with what to write instead
}

// Keys that algorithms have no use for, with what to write instead.
var (
	ofMargins = map[string]string{
		"top_k":    "train.algorithm: frank_wolfe_svm with a loss of the best k classes, or leave it out",
		"cost":     "train.algorithm: frank_wolfe_svm with train.loss: structured, or leave it out",
		"moreau":   "train.algorithm: frank_wolfe_svm, whose losses it smooths, or leave it out",
		"features": "train.algorithm: frank_wolfe_svm, which learns over them, or leave it out",
	}
	ofGradients = map[string]string{
		"solver":      "leave it out: what is next to it is train.refit",
		"new_basis":   "train.max_basis, which bounds all of them",
		"feature_map": "none, or train.kernel: homogeneous, which has the squares and products of numbers",
	}
)

// with returns all keys of several lists.
func with(lists ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, list := range lists {
		maps.Copy(all, list)
	}
	return all
}

// algorithms are all there are, the default first. To add one, write its value of solver.Algorithm in a package below
// solver and its row here.
var algorithms = []*algorithm{
	{
		name:    ConditionalGradient,
		doc:     "Algorithm 1 of Blondel et al. 2017: basis vectors one after the other, with a certificate of the optimum",
		fits:    func(*Model) solver.Algorithm { return solver.ConditionalGradient{} },
		losses:  smoothLosses(),
		degrees: []int{2, 3},
		refits:  []string{"output", "full", "line_search", "variational"},
		unused:  ofMargins,
	},
	{
		name:   "convex_fm",
		doc:    "one output whose interactions are a matrix with a nuclear norm (convex factorization machines)",
		fits:   func(m *Model) solver.Algorithm { return solver.ConvexFM{Diagonal: m.Train.Refit == "output"} },
		single: true,
		losses: []string{
			"squared",
			"binary_logistic",
			squaredHinge,
		},
		degrees: []int{2},
		refits:  []string{"full", "output", "variational"},
		unused: with(
			ofMargins,
			ofGradients,
			map[string]string{
				"penalty": "train.lambda, the strength of the nuclear norm, which is the penalty there is",
			},
		),
	},
	{
		name:    "coordinate_descent",
		doc:     "factorization machines with a fixed number of vectors, one coordinate after the other",
		fits:    descent,
		losses:  smoothLosses(),
		degrees: []int{2, 3},
		refits:  []string{"output", "variational"},
		unused:  with(ofMargins, ofGradients),
	},
	{
		name:    FrankWolfeSVM,
		doc:     "linear support vector machines with losses of margins, in the dual",
		fits:    func(*Model) solver.Algorithm { return margin.SVM{} },
		losses:  kindsOfMargin(),
		degrees: []int{2},
		refits:  []string{"output", "variational"},
		unused: with(ofGradients, map[string]string{
			"penalty":     "train.lambda, the strength of the ridge, which is the penalty there is",
			"linear":      "train.lambda, the ridge of its weights, which are all linear",
			"max_basis":   "train.features: basis, or schema.cross for products of names: its model is linear",
			"new_basis":   "train.features: basis: its model is linear",
			"feature_map": "none, or train.features: basis: its model is linear",
		}),
	},
}

// kindsOfMargin returns the names of the losses of frank_wolfe_svm.
func kindsOfMargin() (names []string) {
	for _, kind := range margin.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// descentStarts is how many random points coordinate descent begins from where there is no model to continue from.
const descentStarts = 3

// classSweeps bounds the sweeps of a fit of several classes, whose losses depend on all outputs of a row, so that a
// sweep takes many exponentials. Of letter as many leave an error a point above that of 150, in a third of the time;
// of satimage they leave none. A warm refit continues from there.
const classSweeps = 40

// descent lets the outputs of a model share their basis vectors, as those of the other algorithms do.
func descent(m *Model) solver.Algorithm {
	d := coordinate.Descent{Shared: m.Schema.Outputs() > 1, Starts: descentStarts}
	if m.Schema.Task == string(event.Multiclass) {
		d.MaxSweeps = classSweeps
	}
	return d
}

// Algorithms returns the names of the algorithms, the default first.
func Algorithms() (names []string) {
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// AlgorithmDocs returns what each algorithm does, in the order of Algorithms.
func AlgorithmDocs() (docs []string) {
	for _, a := range algorithms {
		docs = append(docs, a.doc)
	}
	return docs
}

// Refits returns the values of train.refit but for auto, each once.
func Refits() (names []string) {
	for _, a := range algorithms {
		for _, refit := range a.refits {
			if !slices.Contains(names, refit) {
				names = append(names, refit)
			}
		}
	}
	return names
}

// algorithmsOf returns the names of those that have a loss for a task.
func algorithmsOf(task event.Task) (names []string) {
	for _, a := range algorithms {
		if len(a.lossesOf(task)) > 0 {
			names = append(names, a.name)
		}
	}
	return names
}

// AlgorithmWith returns the name of the first algorithm that minimises a loss for a task, or nothing if none does: what
// is known of versions is their loss.
func AlgorithmWith(task event.Task, loss string) string {
	for _, a := range algorithms {
		if slices.Contains(a.lossesOf(task), loss) {
			return a.name
		}
	}
	return ""
}

// algorithmOf returns the algorithm of train.algorithm, nil for an unknown name. A model that was stored before there
// was a choice has the default.
func (t *Train) algorithmOf() *algorithm {
	name := cmp.Or(t.Algorithm, ConditionalGradient)
	if i := slices.IndexFunc(algorithms, func(a *algorithm) bool { return a.name == name }); i >= 0 {
		return algorithms[i]
	}
	return nil
}

// Algorithm returns what fits the model, once its settings are resolved and valid.
func (m *Model) Algorithm() (solver.Algorithm, error) {
	if a := m.Train.algorithmOf(); a != nil {
		return a.fits(m), nil
	}
	return nil, fmt.Errorf("config: no algorithm %q: use the build that wrote this", m.Train.Algorithm)
}

// Choose makes another algorithm or degree that of the model, unless empty or 0, and what follows from them automatic
// again. Resolve it afterwards.
func (m *Model) Choose(name string, degree int) {
	t := &m.Train
	if name == "" && degree == 0 {
		return
	}
	t.Algorithm, t.Degree = cmp.Or(name, t.Algorithm), cmp.Or(degree, t.Degree)
	t.Refit, t.Augment = Auto, Switch(Auto)
	if a := t.algorithmOf(); a != nil && !slices.Contains(a.lossesOf(m.Schema.Learned()), t.Loss) {
		t.Loss = Auto
	}
	if t.FeatureMap == "" && !t.ConvexAlone() {
		t.FeatureMap = Auto
	}
}

// KernelDegree is train.degree, 2 in what was stored before there was a choice.
func (t *Train) KernelDegree() int { return cmp.Or(t.Degree, 2) }

// ConvexAlone reports whether versions hold what the convex stage fits and nothing else: somebody asked for another
// algorithm or degree than those that the variational stage improves on. Where that stage applies its posterior is the
// base of the fold-in.
func (t *Train) ConvexAlone() bool {
	return cmp.Or(t.Algorithm, ConditionalGradient) != ConditionalGradient || t.KernelDegree() != 2
}

// lossesOf returns the names of the losses that an algorithm minimises for a task, the default first.
func (a *algorithm) lossesOf(task event.Task) (names []string) {
	for _, o := range objectives {
		if o.of(task, a) && !slices.Contains(names, o.Name()) {
			names = append(names, o.Name())
		}
	}
	return names
}

// algorithm checks that the keys of train go together.
func (v *validator) algorithm(m *Model, path string) {
	t := &m.Train
	v.oneOf(path+".algorithm", cmp.Or(t.Algorithm, ConditionalGradient), Algorithms()...)
	v.oneOf(path+".features", cmp.Or(t.Features, RawFeatures), RawFeatures, BasisFeatures)
	a := t.algorithmOf()
	if a == nil {
		return
	}
	if !slices.Contains(a.degrees, t.KernelDegree()) {
		v.bad(path+".degree", t.Degree, fmt.Sprintf("2: %s has no other", a.name))
	}
	if s, d := &m.Schema, t.KernelDegree(); d > 2 && t.Kernel == solver.ANOVA.String() && len(s.Multi) == 0 &&
		len(s.Names())+len(s.Numeric) < d {
		v.bad(
			path+".degree",
			d,
			fmt.Sprintf(
				"2, or train.kernel: homogeneous: the schema has %d fields, and kernel anova multiplies different ones",
				len(s.Names())+len(s.Numeric)),
		)
	}
	task := m.Schema.Learned()
	switch losses := a.lossesOf(task); {
	case !slices.Contains(event.Tasks, task):
	case len(losses) == 0:
		v.bad(path+".algorithm", a.name,
			fmt.Sprintf("%s: %s has no loss for the task %s", strings.Join(algorithmsOf(task), " or "), a.name, task))
	case t.Loss != Auto:
		v.oneOf(path+".loss", t.Loss, append([]string{Auto}, losses...)...)
	}
	if slices.Contains(Refits(), t.Refit) && !slices.Contains(a.refits, t.Refit) {
		v.bad(path+".refit", t.Refit, "auto: "+a.name+" has one kind of refit")
	}
	// The kernel of a fold-in on a linear model is anova; the other one would only keep it from having one.
	if a.name == FrankWolfeSVM && t.Features != BasisFeatures && t.Kernel == solver.Homogeneous.String() &&
		m.ownKernel() != t.Kernel {
		v.bad(path+".kernel", t.Kernel,
			"auto, or train.features: basis, whose basis vectors have a kernel ("+a.name+" has no use for it)")
	}
	v.marginLoss(m, path)
	standard := DefaultModel().Train
	for i, key := range strictyaml.Keys(reflect.TypeFor[Train]()) {
		instead, unused := a.unused[key]
		if !unused || t.Features == BasisFeatures && (key == "max_basis" || key == "new_basis") {
			continue
		}
		value := reflect.ValueOf(t).Elem().Field(i)
		if key == "top_k" && t.TopK == scalar.UsualTopK { // which printed defaults had
			continue
		}
		if (!value.IsZero() || key == "linear") &&
			!reflect.DeepEqual(value.Interface(), reflect.ValueOf(standard).Field(i).Interface()) {
			shown := value.Interface()
			if text, ok := shown.(encoding.TextMarshaler); ok { // as it is written: linear is none, not 0
				b, _ := text.MarshalText()
				shown = string(b)
			}
			v.bad(strictyaml.Join(path, key), shown, instead+" ("+a.name+" has no use for it)")
		}
	}
}

// marginLoss reads the cost matrix and checks what a loss of margins has to have.
func (v *validator) marginLoss(m *Model, path string) {
	t := &m.Train
	v.file(path+".cost", t.Cost)
	if f, err := os.Open(t.Cost); err == nil {
		costs, names, err := margin.ReadCost(f)
		f.Close()
		switch classes := m.Schema.Classes; {
		case err != nil:
			v.bad(path+".cost", t.Cost,
				"the path of a CSV file with a cost for each class in place of each ("+err.Error()+")")
		case names != nil && len(classes) > 0 && !slices.Equal(names, classes):
			v.bad(
				path+".cost",
				t.Cost,
				fmt.Sprintf("a file whose first line has the classes of the schema in their order, %q, or numbers",
					classes),
			)
		default:
			t.Costs = costs
		}
	}
	if v.whole(path+".top_k", t.TopK.Of(0), 1, MaxClasses); t.TopK > MaxClasses {
		return
	}
	switch loss := m.marginLoss(); {
	case t.Algorithm != FrankWolfeSVM || !slices.Contains(margin.Kinds(), loss.Kind) || t.Cost != "" && t.Costs == nil:
	case loss.Kind == margin.Structured && t.Cost == "":
		v.bad(path+".cost", nil, "the path of a CSV file: the loss structured is of the costs in it")
	case loss.Kind != margin.Structured && t.Cost != "":
		v.bad(path+".cost", t.Cost, "train.loss: structured, or leave it out: "+string(loss.Kind)+" has no costs")
	case (loss.Kind == margin.MaxHinge || loss.Kind == margin.Structured) && t.TopK != 0 && t.TopK != scalar.UsualTopK:
		v.bad(path+".top_k", t.TopK,
			"train.loss: top_k or usunier, or leave it out: "+string(loss.Kind)+" looks at one margin")
	case loss.Kind != margin.MaxHinge && loss.Kind != margin.Structured && m.Schema.Outputs() > 1 && int(
		t.TopK) >= m.Schema.Outputs():
		v.bad(path+".top_k", t.TopK,
			fmt.Sprintf("from 1 to %d: all but the true one of %d classes", m.Schema.Outputs()-1, m.Schema.Outputs()))
	default:
		classes := m.Schema.Outputs()
		if err := loss.Validate(classes); err != nil && classes > 1 {
			key := ".moreau"
			if loss.Kind == margin.Structured && len(loss.Cost) != classes {
				key = ".cost"
			}
			v.bad(path+key, map[string]any{".moreau": t.Moreau, ".cost": t.Cost}[key],
				"what the loss takes ("+err.Error()+")")
		}
	}
}
