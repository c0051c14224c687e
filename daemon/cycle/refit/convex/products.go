package convex

import (
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// What an offline fit takes of the products of its columns: as many as a matrix of that order can be factored for at
// each ridge, 256 MiB over all rows, and one for each quadraticRows rows at most, with fewer of which that many weights
// rarely predict better. Derived: the sizes, from that memory. The others are chosen by hand.
const (
	quadraticColumns   = 2000
	quadraticNumbers   = 32 << 20
	quadraticRows      = 4
	quadraticTolerance = 1e-4
	quadraticMaxSteps  = 1000
)

// quadraticRace is on how many rows the path and the polynomial are compared before the path runs over all of them.
// Chosen by hand.
const quadraticRace = 2000

// The forms of an offline fit.
const (
	FormVectors  = "basis_vectors" // of the path
	formProducts = "products"      // all of them
)

// TriesQuadratic reports whether an offline fit may take the whole polynomial of degree 2 in place of as many basis
// vectors as max_basis allows: classes of few numbers without names, the kernel that has squares, too, nobody asked for
// a path or a strength, and rows to choose on. It is one of the maps that train.feature_map: auto tries.
func TriesQuadratic(j *task.Task, in *task.FitInput, s solver.Settings) bool {
	columns, n := format.MapColumns(format.Products, 2, len(j.Vocab.Numeric)), j.Rows.Problem.X.NumRows()
	return j.Model.Train.FeatureMap.IsAuto() && j.Target.Task.HasClasses() &&
		s.Kernel == solver.Homogeneous && (s.LinearRidge > 0 || j.Vocab.Augment) &&
		len(j.Vocab.Names) == 0 && columns > 0 && !in.Thorough && len(in.Lambdas) == 0 &&
		j.Model.Train.Lambda == 0 && in.MaxSteps == 0 && len(in.Valid) > 0 &&
		columns <= quadraticColumns && columns*n <= quadraticNumbers &&
		columns*quadraticRows <= n
}

// polynomial fits linear weights of the columns of rows and of their products, standardised. The ridge is on the
// weights.
type polynomial struct {
	fit     *solver.DenseFit
	columns int // but for the constant
	mean    []float64
	inverse []float64 // of the deviation
}

// newPolynomial returns the fit to a problem on top of given outputs.
func newPolynomial(ctx context.Context, j *task.Task, p *solver.Problem, offset []float64) *polynomial {
	n, d := p.X.NumRows(), len(j.Vocab.Numeric)
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
		s := encode.MapScaling(values)
		q.mean[f], q.inverse[f] = s.Center, 1/s.Scale
	}
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.Workers, j.Yield, quadraticTolerance, quadraticMaxSteps
	q.fit = solver.NewDenseFit(ctx, p, offset, d*(d+3)/2, s)
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

// model returns the polynomial as basis vectors of the homogeneous kernel, linear term and bias, in the columns as they
// are, nil where it is not finite.
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

// quadratic fits the polynomial to a problem with the ridge that predicts the select rows best, less and less of it as
// long as that is better, nil where nothing is finite.
func quadratic(ctx context.Context, j *task.Task, p *solver.Problem, ridges []float64,
	linear bool) (best *task.Candidate, ridge float64) {
	q, least, weights := newPolynomial(ctx, j, p, make([]float64, len(p.Targets))), math.Inf(1), j.SelectWeights()
	for _, r := range ridges {
		if !q.fit.Fit(r) {
			break
		}
		model := q.model(p.X.NumColumns, linear)
		if model == nil {
			break
		}
		loss := evaluate.Loss(j.Rows.Select_, j.Target, model, weights)
		if !(loss < least) {
			break
		}
		objective, converged := q.fit.Objective()
		status := solver.Stalled
		if converged {
			status = solver.Converged
		}
		least, ridge = loss, r
		best = &task.Candidate{
			Model:     model,
			Step:      solver.Step{K: model.NumBasis, Objective: objective},
			Result:    &solver.Result{Model: model, Status: status},
			Loss:      j.Judge(model),
			Unsolved:  true,
			Quadratic: true,
		}
	}
	return best, ridge
}

// QuadraticStage fits the polynomial, of many rows only where a coarse path on a share of them is not better by a
// standard error. alone says that there the polynomial has no more errors: more rows gain the form of more weights
// more, so the path over all rows is left out. Otherwise both forms are fitted to all rows.
// The forms that were compared are returned as well, whatever came of it.
func QuadraticStage(ctx context.Context, j *task.Task, s solver.Settings,
	onStep func(*task.Candidate)) (best *task.Candidate, alone bool, forms []report.FitForm, err error) {
	many, linear := j.Rows.Problem.X.NumRows() > quadraticRace, s.LinearRidge > 0
	lambda := 0.0
	if many {
		part := j.OnShare(quadraticRace, j.Rows.Select_.Events)
		rough := s
		rough.Rough = true
		lambdas, err := LambdasFor(ctx, part, part.Rows.Problem, rough)
		if err != nil {
			return nil, false, nil, err
		}
		path, err := SolvePath(ctx, part, part.Rows.Problem, lambdas, 1, rough, nil)
		if err != nil {
			return nil, false, nil, err
		}
		own, ridge := quadratic(ctx, part, part.Rows.Problem, task.MapRidges, linear)
		if own == nil || ctx.Err() != nil {
			return nil, false, nil, ctx.Err()
		}
		forms = []report.FitForm{ComparedFit(part, FormVectors, path, 0), ComparedFit(part, formProducts, own, ridge)}
		// The path is clearly better on a share of the rows: the polynomial of all is not fitted.
		if FewerErrors(part, path.Model, own.Model) {
			return nil, false, forms, nil
		}
		alone = own.Loss <= path.Loss
		lambda = path.Lambda * LambdaUnit(j.Rows.Problem) / LambdaUnit(part.Rows.Problem)
	}
	best, ridge := quadratic(ctx, j, j.Rows.Problem, task.MapRidges, linear)
	if best == nil || ctx.Err() != nil {
		return nil, false, forms, ctx.Err()
	}
	forms = append(forms, ComparedFit(j, formProducts, best, ridge))
	if best.Ridge = ridge; !alone {
		return best, false, forms, nil
	}
	best.Lambda = lambda // that of the path on the share, for all rows
	s.Rough, s.MaxSteps = true, 0
	straight, err := SolveOne(ctx, j, j.Rows.Problem, nil, lambda, s)
	if err == nil {
		onStep(straight)
	}
	return best, true, forms, err
}

// FewerErrors reports whether one model has fewer errors than another on the select rows, by more than FeatureMapErrors
// standard errors.
func FewerErrors(j *task.Task, a, b *solver.Model) bool {
	return task.IsLess(j.Errors(a), j.Errors(b), j.SelectWeights(), task.FeatureMapErrors)
}

// ComparedFit describes a form that an offline fit compared on the select rows.
func ComparedFit(j *task.Task, name string, c *task.Candidate, ridge float64) report.FitForm {
	f := report.FitForm{Form: name, K: c.Model.NumBasis, Rows: int64(j.Rows.Problem.X.NumRows())}
	if v := evaluate.MetricsOf(j.Rows.Select_, j.Target, c.Model, nil); v != nil {
		f.Loss, f.Accuracy = v.Loss, v.Accuracy
	}
	if name == formProducts {
		f.Ridge = report.Some(ridge)
	}
	return f
}

// MarkChosen marks the form of a candidate among those that were compared. rows are those of the whole fit: a form that
// was compared on a share of them is not the one chosen.
func MarkChosen(forms []report.FitForm, best *task.Candidate, rows int64) []report.FitForm {
	chosen := FormVectors
	if best.Quadratic {
		chosen = formProducts
	}
	for i := range forms {
		forms[i].Chosen = forms[i].Form == chosen && forms[i].Rows == rows
	}
	return forms
}

// LearnValidWhole fits a chosen polynomial again to training and validation events together, with the ridge that was
// chosen, on top of what its weights on a feature map say. The version's figures of the validation part stay those of
// the choice. A fit that is called off leaves what was chosen.
func LearnValidWhole(ctx context.Context, j *task.Task, ch *fitted.Fitted, best *task.Candidate, in *task.FitInput) {
	events := slices.Concat(in.Train, in.Valid)
	weights := task.EventWeights(in.Train)
	if weights != nil {
		weights = append(weights, j.Rows.Sample.HeldOutWeights...)
	}
	all, kept := encode.Encode(j.Vocab, j.Target, events, weights)
	p := *j.Rows.Problem
	p.X, p.Targets, p.Weights = all.X, all.Targets, kept
	offset, m := make([]float64, len(all.Targets)), p.Outputs
	var phi []float64
	for i := range all.Events {
		phi = j.Vocab.AddMapped(offset[i*m:i*m+m], ch.Model, all.Events[i].Numeric, phi)
	}
	q := newPolynomial(ctx, j, &p, offset)
	if !q.fit.Fit(best.Ridge) {
		return
	}
	model := q.model(p.X.NumColumns, best.Model.Linear != nil)
	if model == nil {
		return
	}
	model.Map = ch.Model.Map
	objective, _ := q.fit.Objective()
	ch.Model, ch.Version.K, ch.Version.Objective, ch.Version.Rows = model, model.NumBasis, report.Number(
		objective), int64(p.X.NumRows())
}
