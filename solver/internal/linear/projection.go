package linear

import (
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/loss"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Eliminated keeps linear term and bias of one output at their optimum under squared loss, whatever the rest of the
// model predicts: of few columns that is a system of d+1 equations with a matrix that never changes. On dense rows they
// and squares and products of the columns depend on each other, so that refits in turns crawl; with them eliminated the
// others are refitted on what is left. The optimum is affine in the predictions of the rest.
type Eliminated struct {
	Linear *LinearFit
	factor blas64.Triangular // Cholesky, of the Hessian in theta
}

// maxEliminated bounds the columns of a linear term that is eliminated.
const maxEliminated = 128

// eliminateBlock is after how many rows a sum over them looks whether it is called off.
const eliminateBlock = 1024

// NewEliminated returns nil where there is nothing to eliminate, the loss is not the squared one, or the matrix, of n
// d²/2 operations, is too large or numerically singular, and where the solve is cancelled.
func NewEliminated(f *LinearFit) *Eliminated {
	d := f.p.X.NumColumns
	if _, isSquared := f.p.Loss.(loss.Squared); !isSquared || f.Idle() || f.p.Outputs != 1 || d > maxEliminated {
		return nil
	}
	hessian := eigen.NewSymmetric(d + 1)
	at := func(j, l int, x float64) { hessian.Data[j*hessian.Stride+l] += x }
	for i := range f.p.X.NumRows() {
		if i%eliminateBlock == 0 && !f.Workers.Yield() {
			return nil
		}
		index, value := f.p.X.Row(i)
		weight := f.p.Weight(i)
		for e, j := range index {
			for o := e; o < len(index); o++ {
				at(int(j), int(index[o]), weight*value[e]*value[o])
			}
			at(int(j), d, weight*value[e])
		}
		at(d, d, weight)
	}
	for j := range d + 1 { // a block that is left out stays 0
		ridge := f.Ridge
		if j == d {
			ridge = f.BiasRidge
		}
		if at(j, j, ridge); ridge > 0 {
			continue
		}
		for l := range d + 1 {
			hessian.Data[min(j, l)*hessian.Stride+max(j, l)] = 0
		}
		at(j, j, 1)
	}
	factor, ok := lapack64.Potrf(hessian)
	if !ok {
		return nil
	}
	return &Eliminated{Linear: f, factor: factor}
}

// MoveTo stores in theta the optimum on top of predictions, given the gradients of the loss there without linear term
// and bias (n), and adds its predictions to those. Rows is room for n numbers.
func (e *Eliminated) MoveTo(theta, predictions, gradients, rows []float64) {
	e.Linear.sumRows(theta, gradients)
	e.Linear.ClearFixed(theta)
	floats.Scale(-1, theta)
	lapack64.Potrs(e.factor, blas64.General{Rows: len(theta), Cols: 1, Stride: 1, Data: theta})
	e.Linear.PredictTo(rows, theta)
	floats.Add(predictions, rows)
}
