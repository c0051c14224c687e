package cycle

import (
	"context"
	"math"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// What an offline fit has room for of the products of its columns: as many as a matrix of that order can be factored for at each ridge, and 256 MiB over
// all rows.
const (
	quadraticColumns   = 2000
	quadraticNumbers   = 32 << 20
	quadraticTolerance = 1e-4
	quadraticMaxSteps  = 1000
)

// quadraticRace is on how many rows the path and the polynomial are compared before the path runs over all of them.
const quadraticRace = 2000

// The forms of an offline fit.
const (
	formVectors  = "basis_vectors" // of the path
	formProducts = "products"      // all of them
)

// triesQuadratic reports whether an offline fit may take the whole polynomial of degree 2 in place of as many basis vectors as max_basis allows: classes
// of few numbers without names, the kernel that has squares, too, nobody asked for a path or a strength, and rows to choose on. It is one of the maps
// that train.feature_map: auto tries.
func (j *refitJob) triesQuadratic(in *FitInput, s solver.Settings) bool {
	columns := snapshot.MapColumns(snapshot.Products, 2, len(j.vocab.Numeric))
	return j.model.Train.FeatureMap.IsAuto() && j.target.Task.HasClasses() && s.Kernel == solver.Homogeneous && (s.LinearRidge > 0 || j.vocab.Augment) &&
		len(j.vocab.Names) == 0 && columns > 0 && !in.Thorough && len(in.Lambdas) == 0 && j.model.Train.Lambda == 0 && in.MaxSteps == 0 && len(in.Valid) > 0 &&
		columns <= quadraticColumns && columns*j.problem.X.NumRows() <= quadraticNumbers
}

// polynomial fits linear weights of the columns of rows and of their products, standardised. The ridge is on the weights.
type polynomial struct {
	fit     *solver.DenseFit
	columns int // but for the constant
	mean    []float64
	inverse []float64 // of the deviation
}

// newPolynomial returns the fit to a problem.
func (j *refitJob) newPolynomial(ctx context.Context, p *solver.Problem) *polynomial {
	n, d := p.X.NumRows(), len(j.vocab.Numeric)
	q := &polynomial{columns: d, mean: make([]float64, d), inverse: make([]float64, d)}
	rows := make([]float64, n*d)
	for i := range n {
		index, value := p.X.Row(i)
		for e, column := range index {
			if int(column) < d {
				rows[i*d+int(column)] = value[e]
			}
		}
	}
	values := make([]float64, n)
	for f := range d {
		for i := range values {
			values[i] = rows[i*d+f]
		}
		s := mapScaling(values)
		q.mean[f], q.inverse[f] = s.Center, 1/s.Scale
	}
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.workers, j.yield, quadraticTolerance, quadraticMaxSteps
	q.fit = solver.NewDenseFit(ctx, p, make([]float64, len(p.Targets)), d*(d+3)/2, s)
	columns := make([]float64, 0, d*(d+3)/2)
	for i := range n {
		z := columns[:d]
		for f := range z {
			z[f] = (rows[i*d+f] - q.mean[f]) * q.inverse[f]
		}
		columns = z
		for f, x := range z {
			for _, y := range z[f:] {
				columns = append(columns, x*y)
			}
		}
		q.fit.SetRow(i, columns)
	}
	return q
}

// model returns the polynomial as basis vectors of the homogeneous kernel, linear term and bias, in the columns as they are, nil where it is not finite.
func (q *polynomial) model(features int, linear bool) *solver.Model {
	weights, bias := q.fit.Weights()
	m, d := len(bias), q.columns
	model := solver.NewModel(solver.Homogeneous, features, m, linear)
	copy(model.Bias, bias)
	slope, products := make([]float64, d*m), make([]float64, features*(features+1)/2*m)
	for f := range d {
		for c, w := range weights[f*m : (f+1)*m] {
			slope[f*m+c] = w * q.inverse[f]
			model.Bias[c] -= w * q.inverse[f] * q.mean[f]
		}
	}
	from, pair := weights[d*m:], products
	for f := range d {
		for g := f; g < d; g++ {
			for c, w := range from[:m] {
				w *= q.inverse[f] * q.inverse[g] // of (x_f − mean_f)(x_g − mean_g)
				pair[c] = w
				slope[f*m+c] -= w * q.mean[g]
				slope[g*m+c] -= w * q.mean[f]
				model.Bias[c] += w * q.mean[f] * q.mean[g]
			}
			from, pair = from[m:], pair[m:]
		}
		if features > d { // the pair with the constant
			if !linear {
				copy(pair, slope[f*m:(f+1)*m])
			}
			pair = pair[m:]
		}
	}
	if linear {
		copy(model.Linear, slope)
	}
	if !model.AddProducts(products) || !model.IsFinite() {
		return nil
	}
	return model
}

// quadratic fits the polynomial to a problem with the ridge that predicts the select rows best, less and less of it as long as that is better, nil where
// nothing is finite.
func (j *refitJob) quadratic(ctx context.Context, p *solver.Problem, ridges []float64, linear bool) (best *candidate, ridge float64) {
	q, least := j.newPolynomial(ctx, p), math.Inf(1)
	for _, r := range ridges {
		if !q.fit.Fit(r) {
			break
		}
		model := q.model(p.X.NumColumns, linear)
		if model == nil {
			break
		}
		loss := j.select_.loss(j.target, model, nil)
		if !(loss < least) {
			break
		}
		objective, converged := q.fit.Objective()
		status := solver.BasisLimit
		if converged {
			status = solver.Converged
		}
		least, ridge = loss, r
		best = &candidate{model: model, step: solver.Step{K: model.NumBasis, Objective: objective}, result: &solver.Result{Model: model, Status: status},
			loss: j.judge(model), unsolved: true, quadratic: true}
	}
	return best, ridge
}

// quadraticStage fits the polynomial, and on a share of the rows compares it with a coarse path. alone says that it predicts the select rows no worse
// there: more rows gain the form of more weights more, so the path over all rows is left out. Otherwise, and for few rows, the better one counts.
func (j *refitJob) quadraticStage(ctx context.Context, s solver.Settings, onStep func(*candidate)) (best *candidate, alone bool, err error) {
	best, ridge := j.quadratic(ctx, j.problem, mapRidges, s.LinearRidge > 0)
	if best == nil || ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	j.compared(formProducts, best, j.problem, ridge)
	if j.problem.X.NumRows() <= quadraticRace {
		return best, false, nil
	}
	part := *j
	part.problem = thin(j.problem, quadraticRace)
	rough := s
	rough.Rough = true
	lambdas, err := part.lambdasFor(ctx, part.problem, rough)
	if err != nil {
		return nil, false, err
	}
	path, err := part.solvePath(ctx, part.problem, lambdas, 1, rough, nil)
	if err != nil {
		return nil, false, err
	}
	own, _ := part.quadratic(ctx, part.problem, []float64{ridge}, s.LinearRidge > 0)
	if own == nil || own.loss > path.loss {
		return best, false, ctx.Err()
	}
	part.compared(formVectors, path, part.problem, 0)
	part.compared(formProducts, own, part.problem, ridge)
	j.forms = part.forms
	rough.MaxSteps = 0
	best.lambda = path.lambda * lambdaUnit(j.problem) / lambdaUnit(part.problem)
	linear, err := j.solveOne(ctx, j.problem, nil, best.lambda, rough)
	if err == nil {
		onStep(linear)
	}
	return best, true, err
}

// compared notes a form that an offline fit compared.
func (j *refitJob) compared(name string, c *candidate, p *solver.Problem, ridge float64) {
	f := report.FitForm{Form: name, K: c.model.NumBasis, Rows: int64(p.X.NumRows())}
	if v := j.select_.metrics(j.target, c.model, nil); v != nil {
		f.Loss, f.Accuracy = v.Loss, v.Accuracy
	}
	if name == formProducts {
		f.Ridge = report.Some(ridge)
	}
	j.forms = append(j.forms, f)
}

// chosenForm returns the forms that were compared, with that of a candidate marked.
func (j *refitJob) chosenForm(best *candidate) []report.FitForm {
	chosen := formVectors
	if best.quadratic {
		chosen = formProducts
	}
	for i := range j.forms {
		f := &j.forms[i]
		f.Chosen = f.Form == chosen && f.Rows == int64(j.problem.X.NumRows())
	}
	return j.forms
}
