package margin

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
)

// replaced returns a problem of n rows of which the last so many are new, and what a fit before, of the first n rows,
// left to start from.
func replaced(t *testing.T, loss Loss, n, fresh int, s solver.Settings) (*solver.Problem, *solver.Warm) {
	t.Helper()
	const m = 5
	all := planted(12, n+fresh, 8, m, loss)
	part := func(lo int) *solver.Problem {
		p, rows := *all, make([]int, n)
		for i := range rows {
			rows[i] = lo + i
		}
		p.X, p.Targets = all.X.Select(rows), all.Targets[lo*m:(lo+n)*m]
		return &p
	}
	old := fitted(t, SVM{}, part(0), nil, s)
	warm := &solver.Warm{
		Model: old.Model,
		Dual:  append(append([]float64(nil), old.Dual[fresh*m:]...), make([]float64, fresh*m)...),
	}
	for i := n - fresh; i < n; i++ {
		warm.New = append(warm.New, int32(i))
	}
	return part(fresh), warm
}

// TestNewRows: where new rows are named, earlier ones that need no dual variables are not swept over with them, and the
// result is as certain. Names of rows that are not there are refused.
func TestNewRows(t *testing.T) {
	for _, kind := range []Kind{MaxHinge, WeightedUsunier} {
		s := settings(1)
		p, warm := replaced(t, Loss{Kind: kind}, 2000, 100, s)
		unnamed := *warm
		unnamed.New = nil
		visits := func(warm *solver.Warm) int {
			f := newFit(t, SVM{}, p, s)
			if err := f.load(warm.Dual); err != nil {
				t.Fatal(err)
			}
			f.enter(warm, s.Tolerance)
			return f.scratch[0].visits
		}
		if with, without := visits(warm), visits(&unnamed); with >= without {
			t.Errorf("%s: %d visits before the first evaluation with the names of new rows, %d without", kind, with,
				without)
		}
		cold, r := fitted(t, SVM{}, p, nil, s), fitted(t, SVM{}, p, warm, s)
		if r.Status != solver.Converged || r.Gap > s.Tolerance*r.Objective ||
			math.Abs(r.Objective-cold.Objective) > r.Gap+cold.Gap {
			t.Errorf("%s: %v, %g ± %g, from nothing %g ± %g", kind, r.Status, r.Objective, r.Gap, cold.Objective,
				cold.Gap)
		}
		f := newFit(t, SVM{}, p, s)
		if err := f.load(r.Dual); err != nil {
			t.Fatal(err)
		}
		if f.sum(); !near(f.dual(), r.Objective-r.Gap, 1e-9, 0) {
			t.Errorf("%s: the dual variables have the value %g, and the gap is to %g", kind, f.dual(),
				r.Objective-r.Gap)
		}
		for _, row := range []int32{-1, 2000} {
			warm.New = []int32{row}
			if _, err := (SVM{}).Fit(t.Context(), p, warm, s); !errors.Is(err, solver.ErrSettings) {
				t.Errorf("row %d is new: %v", row, err)
			}
		}
	}
}

// TestFarModel: the weights of a model are a part of the first point, and of one that is far from the rows not.
func TestFarModel(t *testing.T) {
	for _, kind := range []Kind{MaxHinge, WeightedUsunier} {
		s := settings(1)
		p, warm := replaced(t, Loss{Kind: kind}, 2000, 100, s)
		mixed := func() bool {
			f := newFit(t, SVM{}, p, s)
			if err := f.load(warm.Dual); err != nil {
				t.Fatal(err)
			}
			f.enter(warm, s.Tolerance)
			return f.mixture != nil
		}
		if !mixed() {
			t.Errorf("%s: the model before has no part in the first point", kind)
		}
		for i := range warm.Model.Linear {
			warm.Model.Linear[i] = 30 * math.Sin(float64(i))
		}
		if mixed() {
			t.Errorf("%s: a far model has a part in the first point", kind)
		}
		if r := fitted(t, SVM{}, p, warm, s); r.Status != solver.Converged {
			t.Errorf("%s: from a far model: %v", kind, r.Status)
		}
	}
}

// TestBegin: where there is a model, new rows begin at the negative subgradients of their losses there, one by one, and
// those that have dual variables keep them. The dual is then nearer its largest value than without those rows.
func TestBegin(t *testing.T) {
	for _, loss := range []Loss{{Kind: MaxHinge}, {Kind: WeightedUsunier}, {Kind: MaxHinge, Moreau: 0.1}} {
		s := settings(1)
		p, warm := replaced(t, loss, 1000, 200, s)
		f := newFit(t, SVM{}, p, s)
		if err := f.load(warm.Dual); err != nil {
			t.Fatal(err)
		}
		clear(f.alpha[:f.m])
		f.alpha[f.class[0]], f.alpha[(int(f.class[0])+1)%f.m] = 0.3, -0.3
		f.sum()
		without, known := f.dual(), slices.Clone(f.alpha[:f.m])
		f.begin(append([]int32{0}, warm.New...), f.weightsOf(warm.Model))
		if !slices.Equal(f.alpha[:f.m], known) {
			t.Errorf("%+v: a row that had dual variables has others", loss)
		}
		scores, grad := make([]float64, f.m), make([]float64, f.m)
		for _, i := range warm.New {
			index, value := p.X.Row(int(i))
			copy(scores, warm.Model.Bias)
			for e, j := range index {
				for c := range scores {
					scores[c] += value[e] * warm.Model.Linear[int(j)*f.m+c]
				}
			}
			loss.Eval(grad, scores, p.Target(int(i)))
			for c, g := range grad {
				if !near(f.alpha[int(i)*f.m+c], -g, 1e-9, 1e-9) {
					t.Fatalf("%+v, row %d: dual variable of class %d is %g, the subgradient there %g", loss, i, c,
						f.alpha[int(i)*f.m+c], g)
				}
			}
		}
		f.sum()
		if best := fitted(t, SVM{}, p, nil, s).Objective; best-f.dual() > 0.8*(best-without) {
			t.Errorf("%+v: the dual is %g, %g without the new rows, the objective %g", loss, f.dual(), without, best)
		}
	}
}

// TestFree: dual variables are free unless they are 0 or at a corner, of which a loss with several weights has those
// where each of them has a rival.
func TestFree(t *testing.T) {
	const m = 5
	for _, c := range []struct {
		loss  Loss
		alpha []float64 // of class 0
		free  bool
	}{
		{Loss{Kind: MaxHinge}, []float64{0, 0, 0, 0, 0}, false},
		{Loss{Kind: MaxHinge}, []float64{1, 0, 0, -1, 0}, false},
		{Loss{Kind: MaxHinge}, []float64{0.4, 0, 0, -0.4, 0}, true},
		{Loss{Kind: MaxHinge}, []float64{1, 0, -0.1, -0.9, 0}, true},
		{Loss{Kind: WeightedUsunier, Weights: []float64{0.6, 0.4}}, []float64{1, 0, -0.6, -0.4, math.Copysign(0, -1)}, false},
		{Loss{Kind: WeightedUsunier, Weights: []float64{0.6, 0.4}}, []float64{1, -0.2, -0.4, -0.4, 0}, true},
		{Loss{Kind: WeightedUsunier, Weights: []float64{0.6, 0.4}}, []float64{0.6, 0, -0.6, 0, 0}, true},
	} {
		f := &fit{m: m, rule: c.loss.rule(m), alpha: c.alpha, class: []int32{0}}
		rows, used := f.freeOf([]int32{0}, []int32{7})
		if got := len(rows) == 2; got != c.free || rows[0] != 7 || got && rows[1] != 0 || used != (c.alpha[0] != 0) {
			t.Errorf("%s: of %v free are %v, with some: %t", c.loss.Name(), c.alpha, rows[1:], used)
		}
	}
}
