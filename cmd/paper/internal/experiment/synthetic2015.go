package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// generated is a row of table 1 of Blondel et al. 2015: how the data came about, and the test RMSE of the paper and of
// the reference in numpy, in the order of syntheticModels.
type generated struct {
	dense, definite, diagonal bool
	paper, reference          [5]float64
}

func (g *generated) String() string {
	name := [...]string{"sparse", "dense"}[toInt(g.dense)] + [...]string{", not PSD", ", PSD"}[toInt(g.definite)]
	return name + [...]string{", ignore diag", ", use diag"}[toInt(g.diagonal)]
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// matching is the place of the convex model that makes the same of the diagonal as the data does.
func (g *generated) matching() int { return 1 - toInt(g.diagonal) }

var syntheticModels = []string{
	"convex FM (use diag)",
	"convex FM (ignore diag)",
	"original FM",
	"ridge",
	"kernel ridge",
}

var generations = []generated{
	{true, true, true, [5]float64{68.35, 110.18, 104.39, 104.67, 76.77}, [5]float64{1.7, 135, 157, 145, 53}},
	{true, true, false, [5]float64{27.45, 5.93, 5.97, 56.91, 31.74}, [5]float64{28.3, 1.6, 0.9, 82, 52}},
	{true, false, true, [5]float64{92.31, 159.47, 165.90, 223.76, 154.12}, [5]float64{2.9, 69, 171, 154, 95}},
	{true, false, false, [5]float64{60.74, 21.17, 139.66, 208.55, 138.17}, [5]float64{26.5, 2.9, 135, 145, 93}},
	{false, true, true, [5]float64{23.12, 25.23, 23.82, 25.45, 25.10}, [5]float64{0.44, 3.5, 3.7, 7.6, 3.2}},
	{false, true, false, [5]float64{8.93, 5.10, 5.92, 21.41, 14.39}, [5]float64{1.8, 0.44, 0.55, 7.0, 3.2}},
	{false, false, true, [5]float64{12.75, 23.13, 30.60, 36.43, 25.17}, [5]float64{0.83, 3.8, 10.1, 13.5, 4.8}},
	{false, false, false, [5]float64{11.66, 7.91, 27.46, 34.62, 21.75}, [5]float64{1.7, 0.64, 9.4, 13.2, 4.6}},
}

// Sizes and noise of the data, after section 5.1, and what the reference in numpy has: α, folds of the
// cross-validation and grids.
const (
	syntheticRows, syntheticColumns, syntheticRank = 1000, 50, 5
	syntheticDraws                                 = 5 // features of a sparse row
	syntheticNoise                                 = 0.01
	syntheticRidge                                 = 0.1
	syntheticFolds                                 = 3
	syntheticSamples                               = 3     // draws of each row of the table
	syntheticTolerance                             = 1e-5  // of the fit of all rows
	machineSweeps, machineStarts                   = 60, 3 // of factorization machines; starts of the fit of all rows
	// Bars: winners that agree with the reference's, and the error of the matching convex model over the reference's.
	syntheticWinners = 7
	syntheticExcess  = 1.3
)

var (
	// syntheticStrengths are β over the dominant |eigenvalue| of Σ (y − ȳ) x x'.
	syntheticStrengths = powers(-0.3, -5, 9)
	syntheticRanks     = []int{5, 10}
	machineBetas       = []float64{0.1, 1, 10, 100}
	kernelOffsets      = []float64{0.1, 1, 10}
	kernelRidges       = powers(-3, 4, 8)
)

// powers are 10^a to 10^b in n steps of equal ratio.
func powers(a, b float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Pow(10, a+(b-a)*float64(i)/float64(n-1))
	}
	return out
}

// syntheticSet is a draw: rows of numbers with targets, those of the training rows with noise.
type syntheticSet struct {
	x    [][]float64
	y    []float64
	fold []int // of the training rows, the first len(fold)
}

// draw generates a set, the numbers of the reference's: a linear term of normal weights and a matrix of interactions of
// rank 5.
func (g *generated) draw(seed uint32) *syntheticSet {
	const n, d, k = syntheticRows, syntheticColumns, syntheticRank
	r := newNumpyRandom(seed)
	normals := func(count int) []float64 {
		out := make([]float64, count)
		for i := range out {
			out[i] = r.normal()
		}
		return out
	}
	w, vectors, values := normals(d), normals(d*k), make([]float64, k)
	for s := range values {
		if g.definite {
			values[s] = r.uniform()
		} else {
			values[s] = r.normal()
		}
	}
	set := &syntheticSet{x: make([][]float64, n), y: make([]float64, n)}
	if g.dense {
		for i := range set.x {
			set.x[i] = normals(d)
		}
	} else {
		p := make([]float64, d)
		for j := range p {
			p[j] = r.uniform()
		}
		floats.Scale(1/floats.Sum(p), p)
		for i := range set.x {
			set.x[i] = r.multinomial(syntheticDraws, p)
		}
	}
	for i, x := range set.x {
		set.y[i] = floats.Dot(w, x)
		for s, value := range values {
			inner, squares := 0.0, 0.0
			for j, at := range x {
				product := vectors[j*k+s] * at
				inner, squares = inner+product, squares+product*product
			}
			if g.diagonal {
				squares = 0
			}
			set.y[i] += value * (inner*inner - squares)
		}
	}
	train := 3 * n / 4
	_, deviation := stat.PopMeanStdDev(set.y[:train], nil)
	for i := range train {
		set.y[i] += syntheticNoise * deviation * r.normal()
	}
	set.fold = permutation(train, seed+5)
	for i := range set.fold {
		set.fold[i] %= syntheticFolds
	}
	return set
}

// rows returns the training rows in or out of a fold; those out of fold −1 are all of them.
func (s *syntheticSet) rows(fold int, in bool) []int {
	var rows []int
	for i, f := range s.fold {
		if (f == fold) == in {
			rows = append(rows, i)
		}
	}
	return rows
}

// test are the rows that are not trained on.
func (s *syntheticSet) test() []int {
	var rows []int
	for i := len(s.fold); i < len(s.y); i++ {
		rows = append(rows, i)
	}
	return rows
}

// problem is squared loss on some rows.
func (s *syntheticSet) problem(rows []int) *solver.Problem {
	d := len(s.x[0])
	p := &solver.Problem{
		X:       solver.NewRows(d, len(rows), len(rows)*d),
		Targets: pick(s.y, rows),
		Outputs: 1,
		Loss:    solver.Squared{},
	}
	index, value := make([]int32, 0, d), make([]float64, 0, d)
	for _, i := range rows {
		index, value = index[:0], value[:0]
		for j, x := range s.x[i] {
			if x != 0 {
				index, value = append(index, int32(j)), append(value, x)
			}
		}
		p.X.Append(index, value)
	}
	return p
}

// rmse is the root mean squared error of predictions of rows.
func (s *syntheticSet) rmse(predictions []float64, rows []int) float64 {
	return floats.Distance(predictions, pick(s.y, rows), 2) / math.Sqrt(float64(len(rows)))
}

// chooser fits a model for each setting of its grid in order, as many as upTo, to rows, and calls visit with what it
// predicts of others.
type chooser func(ctx context.Context, train, judged []int, upTo int, visit func(setting int,
	predictions []float64)) error

// choose returns the test error of the setting that cross-validation chooses, and which it is.
func (s *syntheticSet) choose(ctx context.Context, fit chooser, settings int) (rmse float64, chosen int, err error) {
	sums := make([]float64, settings)
	for fold := range syntheticFolds {
		judged := s.rows(fold, true)
		if err := fit(ctx, s.rows(fold, false), judged, settings, func(setting int, predictions []float64) {
			sums[setting] += s.rmse(predictions, judged)
		}); err != nil {
			return 0, 0, err
		}
	}
	chosen = floats.MinIdx(sums)
	err = fit(ctx, s.rows(-1, false), s.test(), chosen+1, func(setting int, predictions []float64) {
		if setting == chosen {
			rmse = s.rmse(predictions, s.test())
		}
	})
	return rmse, chosen, err
}

// convex is a convex factorization machine along the path over β, warm-started.
func (s *syntheticSet) convex(o *Options, kernel solver.Kernel) chooser {
	all := s.rows(-1, false)
	strongest := s.dominant(all)
	return func(ctx context.Context, train, judged []int, upTo int, visit func(int, []float64)) error {
		p, others := s.problem(train), s.problem(judged)
		scale := strongest * float64(len(train)) / float64(len(all))
		var warm *solver.Warm
		for i, strength := range syntheticStrengths[:upTo] {
			settings := convexSettings(kernel, strength*scale, syntheticRidge)
			settings.MaxBasis, settings.Tolerance, settings.Rough = syntheticColumns, 1e-3, true
			if len(train) == len(all) && i == upTo-1 {
				settings.Tolerance = syntheticTolerance
			}
			f, err := o.fit(ctx, solver.ConvexFM{}, p, warm, settings)
			if err != nil {
				return err
			}
			warm = &solver.Warm{Model: f.result.Model}
			visit(i, predictionsOf(f.result.Model, others.X))
		}
		return nil
	}
}

// dominant is the largest |eigenvalue| of Σ (y − ȳ) x x' over rows.
func (s *syntheticSet) dominant(rows []int) float64 {
	mean, sum := stat.Mean(pick(s.y, rows), nil), mat.NewSymDense(len(s.x[0]), nil)
	for _, i := range rows {
		sum.SymRankOne(sum, s.y[i]-mean, mat.NewVecDense(len(s.x[i]), s.x[i]))
	}
	var e mat.EigenSym
	if !e.Factorize(sum, false) {
		return math.NaN()
	}
	return floats.Norm(e.Values(nil), math.Inf(1))
}

// machine is the factorization machine of problem (3), of 5 or 10 basis vectors.
func (s *syntheticSet) machine(o *Options) chooser {
	return func(ctx context.Context, train, judged []int, upTo int, visit func(int, []float64)) error {
		p, others := s.problem(train), s.problem(judged)
		for i := range upTo {
			if len(train) == len(s.fold) && i < upTo-1 {
				continue // nothing is warm-started: the last one is wanted
			}
			settings := convexSettings(solver.ANOVA, machineBetas[i%len(machineBetas)], syntheticRidge)
			settings.MaxBasis, settings.Tolerance, settings.MaxIterations = syntheticRanks[i/len(machineBetas)], 1e-4,
				machineSweeps
			descent := coordinate.Descent{Objective: coordinate.Direct, Weights: coordinate.Ones, Starts: 1}
			if len(train) == len(s.fold) {
				descent.Starts = machineStarts
			}
			f, err := o.fit(ctx, descent, p, nil, settings)
			if err != nil {
				return err
			}
			visit(i, predictionsOf(f.result.Model, others.X))
		}
		return nil
	}
}

// linear is ridge regression.
func (s *syntheticSet) linear(o *Options) chooser {
	return func(ctx context.Context, train, judged []int, _ int, visit func(int, []float64)) error {
		settings := convexSettings(solver.ANOVA, 1, syntheticRidge)
		settings.MaxBasis = 0
		f, err := o.fit(ctx, solver.ConvexFM{}, s.problem(train), nil, settings)
		if err == nil {
			visit(0, predictionsOf(f.result.Model, s.problem(judged).X))
		}
		return err
	}
}

// kernelRidge is kernel ridge regression with (γ + ⟨x, z⟩)².
func (s *syntheticSet) kernelRidge(_ context.Context, train, judged []int, upTo int, visit func(int, []float64)) error {
	square := func(a, b int, offset float64) float64 {
		x := offset + floats.Dot(s.x[a], s.x[b])
		return x * x
	}
	y := mat.NewVecDense(len(train), pick(s.y, train))
	for i := range upTo {
		if len(train) == len(s.fold) && i < upTo-1 {
			continue // as above
		}
		offset, ridge := kernelOffsets[i/len(kernelRidges)], kernelRidges[i%len(kernelRidges)]
		system := mat.NewSymDense(len(train), nil)
		for a, row := range train {
			for b := a; b < len(train); b++ {
				system.SetSym(a, b, square(row, train[b], offset))
			}
			system.SetSym(a, a, system.At(a, a)+ridge)
		}
		var factor mat.Cholesky
		var alpha mat.VecDense
		if !factor.Factorize(system) || factor.SolveVecTo(&alpha, y) != nil {
			return fmt.Errorf("paper: kernel of offset %g with ridge %g has no Cholesky factor", offset, ridge)
		}
		predictions := make([]float64, len(judged))
		for j, row := range judged {
			for a, known := range train {
				predictions[j] += alpha.AtVec(a) * square(row, known, offset)
			}
		}
		visit(i, predictions)
	}
	return nil
}

// generatedTable adds table 1 to r: test RMSE on generated data, each model with the settings that three folds of the
// training rows choose, means over draws.
func generatedTable(ctx context.Context, o *Options, r *Report) error {
	samples, rows := o.splits(syntheticSamples), generations
	if o.Quick {
		rows = rows[len(rows)-1:]
	}
	found := make([][5]float64, len(rows)*samples)
	if err := o.each(ctx, len(found), func(ctx context.Context, job int) error {
		g, draw := &rows[job%len(rows)], job/len(rows)
		began := o.Now()
		err := g.judge(ctx, o, uint32(draw), &found[job])
		o.Log.Info("draw", "data", g.String(), "draw", draw, "rmse", found[job], "seconds", o.Now().Sub(began).Seconds())
		return err
	}); err != nil {
		return err
	}
	main := Table{
		Name:   "table1",
		Header: append([]string{"data"}, append(slices.Clone(syntheticModels), "least", "least of the reference")...),
		Title:  "Table 1 of Blondel et al. 2015: test RMSE on generated data, means over draws [reference in numpy] (paper)",
	}
	numbers := Table{Name: "draws", Header: append([]string{"data", "draw"}, syntheticModels...)}
	agree := 0
	for at := range rows {
		g, mean := &rows[at], [5]float64{}
		for draw := range samples {
			values := found[draw*len(rows)+at]
			floats.AddScaled(mean[:], 1/float64(samples), values[:])
			line := []any{g.String(), draw}
			for _, x := range values {
				line = append(line, x)
			}
			numbers.add(line...)
		}
		row := []string{g.String()}
		for m, x := range mean {
			row = append(row, fmt.Sprintf("%.3g [%.3g] (%.4g)", x, g.reference[m], g.paper[m]))
		}
		least, theirs := floats.MinIdx(mean[:]), floats.MinIdx(g.reference[:])
		agree += toInt(least == theirs)
		main.Rows = append(main.Rows, append(row, syntheticModels[least], syntheticModels[theirs]))
		r.Bars = append(
			r.Bars,
			Bar{
				Name:   g.String() + ", RMSE of the matching model over the reference's",
				Got:    mean[g.matching()] / g.reference[g.matching()],
				AtMost: true,
				Want:   syntheticExcess,
			},
		)
	}
	r.Bars = append(r.Bars, Bar{Name: "rows with the reference's winner", Got: float64(agree), Want: syntheticWinners})
	r.Tables, r.Numbers = append(r.Tables, main), append(r.Numbers, numbers)
	return nil
}

// judge stores the test errors of the models on one draw.
func (g *generated) judge(ctx context.Context, o *Options, seed uint32, rmse *[5]float64) (err error) {
	s := g.draw(seed)
	for m, c := range []struct {
		fit      chooser
		settings int
	}{
		{s.convex(o, solver.Homogeneous), len(syntheticStrengths)}, {s.convex(o, solver.ANOVA), len(syntheticStrengths)},
		{s.machine(o), len(syntheticRanks) * len(machineBetas)}, {s.linear(o), 1}, {s.kernelRidge, len(kernelOffsets) * len(
			kernelRidges)},
	} {
		if rmse[m], _, err = s.choose(ctx, c.fit, c.settings); err != nil {
			return err
		}
	}
	return nil
}
