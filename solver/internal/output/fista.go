package output

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/problem"
)

// OutputFit refits the output weights V with the basis fixed: min_V Σ_i w_i ℓ(t_i, offset_i + (ΦV)_i) + λ Ω(V), a
// convex problem (Blondel et al. 2017, section 4 and appendix D). Φ is kept as k columns of length n, so that a basis
// vector is added or dropped without moving the others.
type OutputFit struct {
	P       *problem.Problem
	Form    penalty.Form
	Workers parallel.Workers

	Phi    [][]float64 // k columns of K(h_r, x_i), n each
	Offset []float64   // n×m: linear term and bias
	smooth float64     // Lipschitz estimate carried over from refit to refit; 0 at first
	Gram   *GramMatrices

	// In tiles, see ToTiles:
	base    []float64 // n×m: offset
	Target  []float64 // n×m
	Current []float64 // n×m predictions at the last point
	Next    []float64 // n×m predictions at the trial point

	Scratch []FitScratch
	parts   [][]float64 // per block: loss at the trial point, loss at the extrapolated point, gradient k×m
}

// FitScratch belongs to one worker.
type FitScratch struct {
	Tile   []float64 // m×FitTile: extrapolated predictions, then gradients
	Target []float64 // m×FitTile where targets are not kept in tiles, else nil
	Row    []float64 // m
	Loss   *loss.LossTile
}

func NewFitScratch(p *problem.Problem, workers int) []FitScratch {
	scratch := make([]FitScratch, workers)
	for w := range scratch {
		scratch[w] = FitScratch{
			Tile: make([]float64, p.Outputs*loss.FitTile),
			Row:  make([]float64, p.Outputs),
			Loss: loss.NewLossTile(p.Loss, p.Outputs),
		}
	}
	return scratch
}

func NewOutputFit(p *problem.Problem, form penalty.Form, workers parallel.Workers) *OutputFit {
	n, m := p.X.NumRows(), p.Outputs
	f := &OutputFit{P: p, Form: form, Workers: workers}
	f.Offset = make([]float64, n*m)
	f.base = make([]float64, n*m)
	f.Target = make([]float64, n*m)
	f.Current = make([]float64, n*m)
	f.Next = make([]float64, n*m)
	loss.ToTiles(f.Target, p.Targets, m, 0, n)
	f.parts = make([][]float64, problem.NumBlocks(n))
	f.Scratch = NewFitScratch(p, workers.Size)
	return f
}

// FitLimits says when a refit ends: at iterations, or when the objective falls by less than tolerance of itself over
// span iterations.
// The size of steps or parameter changes would stop far too early on ill-conditioned features.
type FitLimits struct {
	Tolerance        float64
	Span, Iterations int
}

// Minimize improves v (k×m) by FISTA, see accelerated, and returns the iterations used.
func (f *OutputFit) Minimize(v []float64, limits FitLimits) int {
	if len(f.Phi) == 0 || f.Workers.Cancelled() {
		return 0
	}
	f.TakeOffset()
	return Accelerated(f, f.Workers, &f.smooth, v, limits)
}

func (f *OutputFit) Accept() { f.Current, f.Next = f.Next, f.Current }

func (f *OutputFit) Term(v []float64) float64 { return f.Form.Term(v, len(f.Phi), f.P.Outputs) }

func (f *OutputFit) Step(v []float64, t float64) { f.Form.Step(v, len(f.Phi), f.P.Outputs, t) }

// InitialSmoothness is ‖Φ‖_F² · curvature / 16: the estimate ends 13 to 50 times below the bound, and a value
// too small is doubled.
func (f *OutputFit) InitialSmoothness() float64 {
	sum := 0.0
	for _, column := range f.Phi {
		for i, a := range column {
			sum += a * a * f.P.Weight(i)
		}
	}
	return max(sum*f.P.Loss.Curvature(f.P.Outputs)/16, 1e-12)
}

// Pass stores the predictions of v in f.next and evaluates the loss there and at the point extrapolated from f.current
// by momentum, with the gradient of the latter in V (k×m).
func (f *OutputFit) Pass(v []float64, momentum float64) (value, valueY float64, gradient []float64) {
	k, m := len(f.Phi), f.P.Outputs
	f.Workers.Blocks(f.P.X.NumRows(), problem.RowBlock(f.P.X.NumRows()), func(worker, b, lo, hi int) {
		f.parts[b] = problem.Room(f.parts[b], 2+k*m)
		for a := lo; a < hi; a += loss.FitTile {
			f.tile(f.parts[b], v, momentum, &f.Scratch[worker], a, min(hi, a+loss.FitTile))
		}
	})
	total := make([]float64, 2+k*m)
	parallel.SumInto(total, f.parts)
	return total[0], total[1], total[2:]
}

func (f *OutputFit) tile(part, v []float64, momentum float64, work *FitScratch, lo, hi int) {
	m, size := f.P.Outputs, hi-lo
	at := f.Next[lo*m : hi*m]
	f.predict(at, v, lo, hi)
	y, target := work.Tile[:size*m], f.Target[lo*m:hi*m]
	weight := f.weightsOf(lo, hi)
	var value, valueY float64
	if momentum == 0 {
		value = work.Loss.Eval(y, at, target, weight, size)
		valueY = value
	} else {
		value = work.Loss.Eval(nil, at, target, weight, size)
		for i, last := range f.Current[lo*m : hi*m] {
			y[i] = at[i] + momentum*(at[i]-last)
		}
		valueY = work.Loss.Eval(y, y, target, weight, size)
	}
	part[0] += value
	part[1] += valueY
	dense.DotAdd(part[2:], f.Phi, lo, size, y, size, m)
}

// weightsOf returns the weights of rows lo..hi−1, nil for weights of 1.
func (f *OutputFit) weightsOf(lo, hi int) []float64 {
	if f.P.Weights == nil {
		return nil
	}
	return f.P.Weights[lo:hi]
}

// predict stores base + ΦV of the tile of rows lo..hi−1 in dst.
func (f *OutputFit) predict(dst, v []float64, lo, hi int) {
	m := f.P.Outputs
	copy(dst, f.base[lo*m:hi*m])
	dense.MulAdd(dst, hi-lo, f.Phi, lo, hi-lo, v, m)
}

// TakeOffset lays offset out in tiles.
func (f *OutputFit) TakeOffset() {
	f.Workers.Blocks(f.P.X.NumRows(), problem.RowBlock(f.P.X.NumRows()), func(_, _, lo, hi int) {
		loss.ToTiles(f.base, f.Offset, f.P.Outputs, lo, hi)
	})
}

// Activate stores ΦV in dst (n×m, in tiles).
func (f *OutputFit) Activate(dst, v []float64) {
	m := f.P.Outputs
	f.Workers.Blocks(f.P.X.NumRows(), loss.FitTile, func(_, _, lo, hi int) {
		clear(dst[lo*m : hi*m])
		dense.MulAdd(dst[lo*m:hi*m], hi-lo, f.Phi, lo, hi-lo, v, m)
	})
}

// Predictions stores offset + ΦV in dst (n×m).
func (f *OutputFit) Predictions(dst, v []float64) {
	f.TakeOffset()
	m := f.P.Outputs
	f.Workers.Blocks(f.P.X.NumRows(), loss.FitTile, func(worker, _, lo, hi int) {
		tile := f.Scratch[worker].Tile[:(hi-lo)*m]
		f.predict(tile, v, lo, hi)
		loss.FromTile(dst[lo*m:hi*m], tile, m, hi-lo)
	})
}
