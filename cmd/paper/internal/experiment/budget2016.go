package experiment

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// budgetModel is a line of figure 4 of the 2016 paper.
type budgetModel struct {
	name      string
	kernel    solver.Kernel
	d         coordinate.Descent
	variances []float64 // of random starts
	constants int
	linear    bool // with a linear term and bias in place of constant columns
}

var budgetModels = []budgetModel{
	{"H³ lifted", solver.Homogeneous3, coordinate.Descent{Starts: budgetTrials}, budgetVariances, 1, false},
	{"H² lifted", solver.Homogeneous, coordinate.Descent{Starts: budgetTrials}, budgetVariances[1:2], 1, false},
	{"A³ direct", solver.ANOVA3, coordinate.Descent{Starts: budgetTrials}, budgetVariances, 2, false},
	{"A² direct", solver.ANOVA, coordinate.Descent{Starts: budgetTrials}, budgetVariances[1:2], 1, false},
	{
		"A² direct and linear term",
		solver.ANOVA,
		coordinate.Descent{Starts: budgetTrials},
		budgetVariances[1:2],
		0,
		true,
	},
	{
		"A² lifted",
		solver.ANOVA,
		coordinate.Descent{Objective: coordinate.Lifted, Starts: budgetTrials},
		budgetVariances[1:2],
		1,
		false,
	},
}

// budgetVariances are those that a start of degree 3 chooses among, whose gradients at small points are products of two
// small numbers. Degree 2 has the paper's, which is the second.
var budgetVariances = []float64{0.002, 0.01, 0.05}

// budgetBars are what models must reach on cpusmall, as means over starts, by k.
var budgetBars = map[string]map[int]float64{"H³ lifted": {6: 0.965, 24: 0.965}, "A² lifted": {6: 0.74, 24: 0.76}}

var (
	budgetBetas = []float64{1e-3, 1e-2, 0.1, 1, 10, 100}
	budgetSizes = []int{3, 6, 12, 18, 24, 30}
)

const (
	budgetSweeps = 300
	budgetStarts = 3
	budgetTrials = 4    // random points that a start chooses among
	budgetLinear = 0.01 // ridge of a linear term
	kernelRows   = 2000 // that kernel ridge regression is trained on, for its cost
)

// Budget2016 repeats figure 4 of Blondel et al. 2016: test R² of regression against the number of basis vectors k, of
// the models of the paper and of expansions of the inhomogeneous polynomial kernel of degree 3 over k training rows. β
// and, of degree 3, the variance of the random start are chosen on validation rows; means over starts. The paper lifts
// A³; here it is direct.
func Budget2016(ctx context.Context, o Options) (*Report, error) {
	names, sizes, betas := o.Sets, budgetSizes, budgetBetas
	if len(names) == 0 {
		names = []string{"abalone", "cadata", "cpusmall"}
	}
	if o.Quick {
		names, sizes, betas = []string{"diabetes"}, sizes[:2], betas[2:5]
	}
	main := Table{
		Title:  "2016, figure 4: test R² against the number of basis vectors, means over starts",
		Header: []string{"set", "model"},
	}
	for _, k := range sizes {
		main.Header = append(main.Header, fmt.Sprintf("k = %d", k))
	}
	numbers := Table{
		Name:   "r2",
		Header: []string{"set", "model", "k", "start", "variance", "beta", "valid", "test", "seconds"},
	}
	r := &Report{Name: "2016-figure4"}
	var figure Figure
	for _, name := range names {
		if _, ok := regressionFiles[name]; !ok {
			return nil, fmt.Errorf(
				"%w: --sets names %q: known are abalone, cadata, cpusmall and diabetes",
				ErrOptions,
				name,
			)
		}
		set, err := o.readRegression(name)
		if err != nil {
			return nil, err
		}
		panel := plot.Panel{Title: name, XLabel: "basis vectors", YLabel: "test R²"}
		for _, model := range budgetModels {
			cells, err := o.budgetCells(ctx, set, &model, sizes, betas)
			if err != nil {
				return nil, err
			}
			line, row := plot.Line{Name: model.name}, []string{name, model.name}
			for at, k := range sizes {
				var tests []float64
				for start, c := range cells[at] {
					numbers.add(name, model.name, k, start, c.variance, c.beta, c.valid, c.test, c.seconds)
					tests = append(tests, c.test)
				}
				mean := stat.Mean(tests, nil)
				line.X, line.Y, row = append(line.X, float64(k)), append(
					line.Y,
					mean,
				), append(row, fmt.Sprintf("%.4f", mean))
				if want, ok := budgetBars[model.name][k]; ok && name == "cpusmall" {
					r.Bars = append(
						r.Bars,
						Bar{Name: fmt.Sprintf("cpusmall, %s, k = %d, R²", model.name, k), Got: mean, Want: want},
					)
				}
			}
			panel.Lines, main.Rows = append(panel.Lines, line), append(main.Rows, row)
			o.Log.Info("model", "set", name, "model", model.name, "r2", line.Y)
		}
		for _, way := range []string{"Nyström", "random rows", "kernel ridge"} {
			line, row := plot.Line{Name: way, Dashed: true}, []string{name, way}
			for _, k := range sizes {
				value := set.expansion(way, k)
				line.X, line.Y, row = append(line.X, float64(k)), append(
					line.Y,
					value,
				), append(row, fmt.Sprintf("%.4f", value))
				if way == "kernel ridge" { // of all rows, whatever k
					line.X, line.Y = []float64{float64(sizes[0]), float64(sizes[len(sizes)-1])}, []float64{value, value}
					for len(row) < len(main.Header) {
						row = append(row, row[2])
					}
					break
				}
			}
			panel.Lines, main.Rows = append(panel.Lines, line), append(main.Rows, row)
		}
		figure.Columns++
		figure.Panels = append(figure.Panels, panel)
	}
	main.Notes = []string{fmt.Sprintf("Kernel ridge regression has the first %d training rows at most.", kernelRows)}
	r.Tables, r.Numbers, r.Figures = []Table{main}, []Table{numbers}, []Figure{figure}
	return r, nil
}

// budgetCell is one start of a model.
type budgetCell struct{ variance, beta, valid, test, seconds float64 }

// budgetCells fits a model with each number of basis vectors from each start, and chooses variance and β.
func (o *Options) budgetCells(
	ctx context.Context,
	set *regressionSet,
	model *budgetModel,
	sizes []int,
	betas []float64,
) ([][]budgetCell, error) {
	train, valid, test := set.problem(set.train, model.constants), set.problem(
		set.valid,
		model.constants,
	), set.problem(set.test, model.constants)
	starts := budgetStarts
	if o.Quick {
		starts = 1
	}
	cells := make([][]budgetCell, len(sizes))
	for at := range cells {
		cells[at] = make([]budgetCell, starts)
	}
	err := o.each(ctx, len(sizes)*starts, func(ctx context.Context, job int) error {
		cell := &cells[job/starts][job%starts]
		cell.valid = math.Inf(-1)
		s := solver.DefaultSettings()
		s.Kernel, s.MaxBasis, s.LinearRidge, s.BiasRidge = model.kernel, sizes[job/starts], 0, 0
		if model.linear {
			s.LinearRidge, s.BiasRidge = budgetLinear, budgetLinear
		}
		s.MaxIterations, s.Tolerance, s.Seed = budgetSweeps, 1e-6, uint64(job%starts)
		for _, variance := range model.variances {
			d := model.d
			d.Variance = variance
			for _, beta := range betas {
				s.Lambda = beta
				started := o.Now()
				res, err := d.Fit(ctx, train, nil, s)
				if err != nil {
					return err
				}
				cell.seconds += o.Now().Sub(started).Seconds()
				if got := set.modelExplained(res.Model, valid, set.valid); got > cell.valid {
					cell.variance, cell.beta, cell.valid, cell.test = variance, beta, got, set.modelExplained(
						res.Model,
						test,
						set.test,
					)
				}
			}
		}
		return nil
	})
	return cells, err
}

// expansion returns the test R² of Σ_s α_s (1 + ⟨p_s,x⟩)³ over k training rows p_s, its strength of ridge chosen on
// validation rows: on α'Kα for the Nyström method and kernel ridge regression, which takes kernelRows rows, on ‖α‖² for
// random rows.
func (s *regressionSet) expansion(way string, k int) float64 {
	train := s.train
	if way == "kernel ridge" {
		k = min(kernelRows, len(train))
		train = train[:k]
	}
	bases := train[:min(k, len(train))]
	cubes := func(rows []int) *mat.Dense {
		out := mat.NewDense(len(rows), len(bases), nil)
		for a, i := range rows {
			for b, j := range bases {
				sum := 1.0
				for c, x := range s.x[i] {
					sum += x * s.x[j][c]
				}
				out.Set(a, b, sum*sum*sum)
			}
		}
		return out
	}
	phi, valid, test := cubes(train), cubes(s.valid), cubes(s.test)
	y := mat.NewVecDense(len(train), pick(s.y, train))
	best, found := math.Inf(-1), math.NaN()
	for power := -4.0; power <= 3; power++ {
		ridge := math.Pow(10, power)
		system, right := mat.NewDense(len(bases), len(bases), nil), mat.NewVecDense(len(bases), nil)
		if way == "kernel ridge" { // K²+ridge·K without the factor K
			system.Copy(phi)
			right.CopyVec(y)
		} else {
			system.Mul(phi.T(), phi)
			right.MulVec(phi.T(), y)
		}
		for a := range bases {
			if way != "Nyström" {
				system.Set(a, a, system.At(a, a)+ridge)
				continue
			}
			for b := range bases {
				system.Set(a, b, system.At(a, b)+ridge*phi.At(a, b)) // bases are the first training rows
			}
		}
		symmetric := mat.NewSymDense(len(bases), nil)
		for a := range bases {
			for b := a; b < len(bases); b++ {
				symmetric.SetSym(a, b, system.At(a, b))
			}
		}
		var factor mat.Cholesky
		var alpha, at mat.VecDense
		if !factor.Factorize(symmetric) || factor.SolveVecTo(&alpha, right) != nil {
			continue
		}
		at.MulVec(valid, &alpha)
		if got := s.explained(at.RawVector().Data, s.valid); got > best {
			best = got
			var last mat.VecDense
			last.MulVec(test, &alpha)
			found = s.explained(last.RawVector().Data, s.test)
		}
	}
	return found
}
