package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/solver"
)

// penalties in the order of the paper's tables.
var penalties = []solver.Penalty{solver.L1, solver.L1L2, solver.L1Linf}

// penaltyName is the penalty as it is written in text.
func penaltyName(p solver.Penalty) string {
	return map[solver.Penalty]string{solver.L1: "ℓ1", solver.L1L2: "ℓ1/ℓ2", solver.L1Linf: "ℓ1/ℓ∞"}[p]
}

// classBenchmark is a multi-class set of table 2 with the grid that is searched on it, and what others reached. Grids,
// limits and the reference are those of the independent implementation in numpy whose measurements the project is
// compared with (its section a); the reference's deviations are over the 2 to 10 splits that it ran.
type classBenchmark struct {
	name          string
	file          []string
	lambdas       []float64
	basis         int // largest k
	fullEvery     int // basis vectors between full refits
	fullIteration int // iterations of one
	splits        int
	tuneOnce      bool    // λ is searched on the first split alone, for its cost; k on each
	output, full  [3]cell // by penalty
	linear        cell    // one-vs-rest logistic regression
}

// cell is what is known of one cell of table 2, in percent. Paper is the paper's one split; 0 where it has none.
type cell struct {
	paper      float64
	paperUnits int
	mean, sd   float64
}

var classBenchmarks = []classBenchmark{
	{"vowel.t", []string{"vowel", "vowel.scale.t"}, []float64{0.01, 0.1, 0.5, 2}, 50, 1, 200, 5, false,
		[3]cell{{80.00, 21, 91.5, 3.6}, {85.22, 15, 92.3, 3.9}, {86.96, 41, 93.0, 3.8}},
		[3]cell{{87.83, 12, 91.7, 2.6}, {89.57, 15, 91.1, 3.7}, {86.96, 15, 92.3, 3.8}}, cell{60.00, 0, 63.8, 5.3}},
	{"vowel", []string{"vowel", "vowel.scale"}, []float64{0.01, 0.1, 0.5, 2}, 50, 1, 200, 5, false,
		[3]cell{{0, 0, 89.7, 2.6}, {0, 0, 91.9, 2.5}, {0, 0, 90.4, 3.9}},
		[3]cell{{0, 0, 90.0, 1.9}, {0, 0, 91.2, 3.9}, {0, 0, 90.9, 4.3}}, cell{}},
	{"segment", []string{"segment", "segment.scale.gz"}, []float64{0.01, 0.1, 1}, 50, 1, 200, 5, false,
		[3]cell{{97.05, 20, 95.6, 0.4}, {96.36, 21, 96.0, 0.6}, {96.19, 16, 96.2, 0.5}},
		[3]cell{{96.71, 41, 95.8, 0.9}, {96.71, 40, 95.6, 0.1}, {96.71, 24, 95.4, 0.1}}, cell{92.55, 0, 92.55, 0.28}},
	{"satimage", []string{"satimage", "satimage.scale.gz"}, []float64{0.1, 1, 3, 10}, 50, 1, 200, 5, false,
		[3]cell{{89.71, 40, 88.4, 1.1}, {89.71, 50, 88.6, 0.6}, {89.35, 41, 88.4, 1.1}},
		[3]cell{{89.80, 25, 88.8, 1.0}, {89.08, 18, 89.4, 1.0}, {88.99, 20, 89.2, 0.8}}, cell{83.03, 0, 84.4, 1.3}},
	{"letter", []string{"letter", "letter.scale.gz"}, []float64{0.1, 0.3, 1, 3}, 150, 5, 100, 3, true,
		[3]cell{{91.01, 139, 91.9, 0.1}, {92.24, 150, 92.30, 0.18}, {91.68, 128, 91.8, 0.3}},
		[3]cell{{92.29, 150, 91.3, 0.2}, {91.81, 106, 91.9, 0.3}, {92.35, 149, 91.8, 0.6}}, cell{71.17, 0, 70.99, 0}},
}

// letterBar is what ℓ1/ℓ2 with output refits must reach on letter, on average over the splits.
const letterBar = 92.0

// overSets reads each set of the options, of the usual ones if they name none, and calls f with it. The short form
// has another usual set.
func (o *Options) overSets(usual []string, f func(*classBenchmark, *classSet) error) error {
	if o.Quick {
		usual = []string{quickSet}
	}
	names := o.Sets
	if len(names) == 0 {
		names = usual
	}
	var benches []classBenchmark
	for _, name := range names {
		i := slices.IndexFunc(classBenchmarks, func(b classBenchmark) bool { return b.name == name })
		if i < 0 {
			return fmt.Errorf("%w: --sets names %q: known are %s", ErrOptions, name, strings.Join(setNames(), ", "))
		}
		b := classBenchmarks[i]
		if o.Quick {
			b.lambdas, b.basis, b.fullIteration = b.lambdas[1:2], min(b.basis, quickBasis), quickIterations
		}
		benches = append(benches, b)
	}
	for i := range benches {
		set, err := readClasses(o.file(benches[i].file...))
		if err == nil {
			err = f(&benches[i], set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// oneSet reads a set, whatever the options name; in the short form its own.
func (o Options) oneSet(name string) (b *classBenchmark, set *classSet, err error) {
	o.Sets = nil
	err = o.overSets([]string{name}, func(bench *classBenchmark, read *classSet) error {
		b, set = bench, read
		return nil
	})
	return b, set, err
}

// What is left of the limits in the short form of an experiment.
const (
	quickSet        = "vowel.t"
	quickBasis      = 15
	quickIterations = 50
)

func setNames() []string {
	var names []string
	for i := range classBenchmarks {
		names = append(names, classBenchmarks[i].name)
	}
	return names
}

// settings are those of a polynomial network: the constant column takes the place of linear term and bias. Refits drop
// basis vectors, so the path has half as many steps again as the largest k: with three times as many, ℓ1/ℓ2 on
// letter gained 0.3 points over as many.
func (b *classBenchmark) settings(p solver.Penalty, lambda float64, refit solver.Depth) solver.Settings {
	s := solver.DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.Refit = solver.Homogeneous, p, lambda, refit
	s.FullEvery, s.FullIterations, s.MaxBasis = b.fullEvery, b.fullIteration, b.basis
	s.MaxSteps = 3 * b.basis / 2
	s.Solver, s.LinearRidge, s.BiasRidge = solver.Newton, 0, 0
	return s
}
