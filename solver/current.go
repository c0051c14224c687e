package solver

import (
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
)

// current is the model that a solve is at, its predictions and what they lose. Methods that change the model leave
// predictions, gradients and scores as they were; evaluate and total bring them up to date. p and s are never written.
type current struct {
	p       *Problem
	s       Settings
	workers parallel.Workers
	k, m    int               // basis vectors, outputs
	basis   [][]float64       // k vectors of length d, shared with saved points; of unit norm but after full refits
	v       []float64         // k×m weights
	output  *output.OutputFit // with the activations of the rows, one column for each basis vector
	linear  *linear.LinearFit // with the linear term and the bias, Theta
	gamma   *gamma.Gamma      // with the gradients of the rows, Grad (n×m)
	pred    []float64         // n×m predictions of the whole model
	scores
}

// scores are those of the current point. Methods total and refits.score set them.
type scores struct {
	loss, norm, objective float64 // sum of the losses, Ω(V), and both with all ridge terms
}

// point is a complete model to come back to.
type point struct {
	basis                  [][]float64
	phi                    [][]float64
	v, theta               []float64
	objective, convex, gap float64 // convex as in Result.ConvexObjective
}

// here returns the current point, for which the objective bounds the gap.
func (r *current) here() *point {
	return &point{
		basis: append([][]float64(nil), r.basis...), phi: append([][]float64(nil), r.output.Phi...),
		v: append([]float64(nil), r.v...), theta: append([]float64(nil), r.linear.Theta...),
		objective: r.objective, convex: r.objective, gap: r.objective,
	}
}

// back returns to a point. Predictions and gradients are those of the point before until score is called.
func (r *current) back(to *point) {
	r.basis, r.output.Phi, r.v = to.basis, to.phi, to.v
	r.k = len(r.basis)
	copy(r.linear.Theta, to.theta)
	r.objective = to.objective
}

// evaluate stores the predictions of the current point in pred.
func (r *current) evaluate() {
	r.linear.PredictTo(r.output.Offset, r.linear.Theta)
	r.output.Predictions(r.pred, r.v)
}

// total derives the objective from the loss.
func (r *current) total() {
	r.loss = max(0, r.loss) // no loss is negative, but for rounding
	r.norm = r.s.Penalty.Norm(r.v, r.k, r.m)
	r.objective = r.loss + r.output.Form.Term(r.v, r.k, r.m) + r.linear.Penalty() + r.basisRidge()
}

// append adds basis vectors with zero weights, in one pass over the rows.
func (r *current) append(vectors ...[]float64) {
	n, d, size := r.p.X.NumRows(), r.p.X.NumColumns, len(vectors)
	added := Model{Kernel: r.s.Kernel, NumBasis: size, Basis: make([]float64, d*size)}
	columns := make([][]float64, size)
	for b, h := range vectors {
		columns[b] = make([]float64, n)
		for j, x := range h {
			added.Basis[j*size+b] = x
		}
	}
	r.workers.Blocks(n, problem.RowBlock(n), func(_, _, lo, hi int) {
		work, tile := make([]float64, 2*size), make([]float64, loss.FitTile*size)
		for ; lo < hi; lo += loss.FitTile {
			rows := min(hi-lo, loss.FitTile)
			for i := range rows {
				index, value := r.p.X.Row(lo + i)
				phi := tile[i*size : i*size+size]
				if r.s.Kernel != ANOVA || len(index) != 2 {
					added.Activations(phi, work, index, value)
					continue
				}
				// the same, in a third of the time
				x, a, b := value[0]*value[1], added.Basis[int(index[0])*size:], added.Basis[int(index[1])*size:]
				for c := range phi {
					phi[c] = x * a[c] * b[c]
				}
			}
			// one after the other: as long as they are, they lie in each other's way in the caches
			for c, column := range columns {
				for i := range column[lo : lo+rows] {
					column[lo+i] = tile[i*size+c]
				}
			}
		}
	})
	r.basis = append(r.basis, vectors...)
	r.output.Phi = append(r.output.Phi, columns...)
	r.v = append(r.v, make([]float64, size*r.m)...)
	r.k += size
}

// keep drops the basis vectors for which wanted is false.
func (r *current) keep(wanted func(row int) bool) {
	to := 0
	for row := range r.k {
		if !wanted(row) {
			continue
		}
		r.basis[to], r.output.Phi[to] = r.basis[row], r.output.Phi[row]
		copy(r.v[to*r.m:to*r.m+r.m], r.v[row*r.m:row*r.m+r.m])
		to++
	}
	r.basis, r.output.Phi, r.v, r.k = r.basis[:to], r.output.Phi[:to], r.v[:to*r.m], to
}

// rough reports whether the solve ends where nothing more is found at once: the noise of minibatches would hide what a
// conclusion gains.
func (r *current) rough() bool {
	return r.s.Rough || !r.bySteps() && (r.s.Solver == Stochastic || r.s.Solver == SVRG)
}

// model returns a copy of the current model.
func (r *current) model() *Model {
	d := r.p.X.NumColumns
	model := NewModel(r.s.Kernel, d, r.m, r.s.LinearRidge > 0)
	model.NumBasis = r.k
	model.Basis = make([]float64, d*r.k)
	for row, h := range r.basis {
		for j, x := range h {
			model.Basis[j*r.k+row] = x
		}
	}
	model.Weights = append([]float64(nil), r.v...)
	copy(model.Linear, r.linear.Theta[:d*r.m])
	copy(model.Bias, r.linear.Theta[d*r.m:])
	return model
}
