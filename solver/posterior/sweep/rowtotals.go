package sweep

import (
	"context"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// rowTotals are, for outputs that share z, what each example adds up to over all its entries that interact. What an
// example says about the row of one entry follows from them and that row in O(k²), however many entries there are, and
// a row that moves moves them in as much. They are good within a sweep, from take on; E[z] is Refit.mean.
type rowTotals struct {
	refit   *Refit
	k       int
	numbers []float64 // n×rowTotalsSize
}

// rowTotalsSize is how many numbers the totals of an example take.
func rowTotalsSize(k int) int { return 2*k + posterior.PackedSize(k+1) }

// shortRow is how many entries that interact examples have in the mean at most for their partners to be gone through
// one by one: that is no slower, and takes no memory. Measured, as said.
const shortRow = 3

// newRowTotals returns nil for groups, whose features do not meet, and for short rows.
func newRowTotals(r *Refit) *rowTotals {
	if r.state.Group != nil {
		return nil
	}
	entries := 0
	for j, f := range r.state.Field {
		if !r.state.IsMainOnly(int(f)) {
			entries += r.columns.count(j)
		}
	}
	if entries <= shortRow*r.problem.X.NumRows() {
		return nil
	}
	k := r.state.NumBasis
	return &rowTotals{refit: r, k: k, numbers: make([]float64, r.problem.X.NumRows()*rowTotalsSize(k))}
}

// of returns S_r = Σ_l x_l E[h_lr], P_r = Σ_l x_l³ Σ_t C_l[r,t] s_t h_lt, both of length k, and the packed T = Σ_l
// x_l² C_l of example i.
func (a *rowTotals) of(i int32) (sum, pull, cov []float64) {
	size := rowTotalsSize(a.k)
	v := a.numbers[int(i)*size:][:size]
	return v[:a.k], v[a.k : 2*a.k], v[2*a.k:]
}

// take computes the totals from the rows, at the start of every sweep: so rounding does not add up from sweep to sweep.
// O(nnz·k²).
func (a *rowTotals) take() {
	r := a.refit
	r.parallel(r.problem.X.NumRows(), func(_, lo, hi int) {
		view, image := posterior.NewRowView(r.state.Sign), make([]float64, a.k)
		for i := lo; i < hi; i++ {
			index, value := r.problem.X.Row(i)
			r.mean[i] = view.Gather(r.state, index, value)
			sum, pull, cov := a.of(int32(i))
			copy(sum, view.Sum)
			clear(pull)
			clear(cov)
			for l, x := range view.Parts.Value {
				dense.AddScaled(cov, x*x, view.Parts.Cov[l])
				signedImage(image, view.Parts.Cov[l], view.Sign, view.Parts.Mean[l][1:])
				dense.AddScaled(pull, x*x*x, image)
			}
		}
	})
}

// signedImage stores Σ_t C[r,t] s_t h_t over the coordinates of a packed covariance in dst.
func signedImage(dst, cov, sign, h []float64) {
	clear(dst)
	at := 0
	for r, sr := range sign {
		at += r + 1
		row, total := cov[at+1:][:r+1], 0.0
		sr *= h[r]
		for t, c := range row[:r] {
			total += c * sign[t] * h[t]
			dst[t] += c * sr
		}
		dst[r] += total + row[r]*sr
	}
}

// rowUpdate is what one goroutine needs to update rows from totals.
type rowUpdate struct {
	*rowTotals
	solve  *posterior.RowSolver
	pairs  []float64 // as in RowView
	slope  []float64 // q, x (1, s_r (S_r − x h_r)): E[∂z/∂row]
	image  []float64 // q
	cov    []float64 // packed, Σ ω x² T
	couple []float64 // q, Σ ω (T slope − x P)
	own    []float64 // q, Σ ω x² slope
	fourth float64   // Σ ω x⁴
	before []float64 // q, the mean row
	moved  []float64 // packed, by how much its covariance has grown
	pulled []float64 // k, and C[r,·] s h
}

func newRowUpdate(a *rowTotals) *rowUpdate {
	k, sign := a.k, a.refit.state.Sign
	q := k + 1
	return &rowUpdate{
		rowTotals: a,
		solve:     posterior.NewSolver(q),
		pairs:     posterior.NewRowView(sign).Pairs,
		slope:     make([]float64, q),
		image:     make([]float64, q),
		cov:       make([]float64, posterior.PackedSize(q)),
		couple:    make([]float64, q),
		own:       make([]float64, q),
		before:    make([]float64, q),
		moved:     make([]float64, posterior.PackedSize(q)),
		pulled:    make([]float64, k),
	}
}

// gradient stores E[∂z/∂row] of an entry in slope: x (1, s_r (S_r − x h_r)).
func (u *rowUpdate) gradient(x float64, mean, sum []float64) {
	slope, h := u.slope[1:], mean[1:]
	slope, h = slope[:len(sum)], h[:len(sum)]
	u.slope[0] = x
	for r, s := range u.refit.state.Sign[:len(sum)] {
		slope[r] = s * x * (sum[r] - x*h[r])
	}
}

// accumulate adds example i to the evidence of the entry with the value x and the given mean row. O(k²).
func (u *rowUpdate) accumulate(i int32, x float64, mean []float64) {
	sum, pull, cov := u.of(i)
	u.gradient(x, mean, sum)
	omega, right := u.refit.omega[i], u.refit.right[i]
	right -= omega * (u.refit.mean[i] - floats.Dot(u.slope, mean)) // what the others leave
	dense.AddScaled(u.solve.Right, right, u.slope)
	square := x * x
	dense.AddScaled(u.cov, omega*square, cov)
	dense.AddScaled(u.own, omega*square, u.slope)
	u.fourth += omega * square * square
	posterior.Multiply(u.image, cov, u.slope)
	dense.AddScaled(u.couple, omega, u.image)
	dense.AddScaled(u.couple[1:], -omega*x, pull)
	posterior.AddOuter(u.solve.Evidence, omega, u.slope)
}

// finish adds to the evidence what comes of the partners' uncertainty: Cov(y) = x² Σ_{l≠e} x_l² C_l, with signs,
// and Cov(y, rest) = x Σ_{l≠e} x_l s∘(C_l g_l), g_l the gradient of the rest by row l. Sums over the partners are
// totals less the row's own part.
func (u *rowUpdate) finish(mean, cov []float64) {
	// T has the entry's own x² C: with ω x² before it, Σ ω x⁴ C is taken off again.
	dense.AddScaled(u.cov, -u.fourth, cov)
	dense.AddScaledProduct(u.solve.Evidence, 1, u.pairs, u.cov)
	posterior.Multiply(u.image, cov, u.own)
	sign := u.refit.state.Sign
	signedImage(u.pulled, cov, sign, mean[1:])
	for r, s := range sign {
		u.solve.Right[r+1] -= s * (u.couple[r+1] - u.image[r+1] + u.fourth*u.pulled[r])
	}
}

// updateFeature solves for the posterior of feature j and moves the totals of its examples.
func (u *rowUpdate) updateFeature(j int) {
	r := u.refit
	rows, place := r.columns.column(j)
	if len(rows) == 0 {
		r.reset(j)
		return
	}
	s, x := r.state, r.problem.X
	mean, cov := s.Row(j)
	u.solve.Start()
	clear(u.cov)
	clear(u.couple)
	clear(u.own)
	u.fourth = 0
	for e, i := range rows {
		u.accumulate(i, x.Value[x.Start[i]+int(place[e])], mean)
	}
	u.finish(mean, cov)
	copy(u.before, mean)
	copy(u.moved, cov)
	u.solve.Finish(s.PrecisionOf(int(s.Field[j])), mean, cov, &r.logDet[j])
	// Totals are sums over entries: they move by differences of this row's part.
	floats.SubTo(u.moved, cov, u.moved)
	signedImage(u.image[:u.k], cov, s.Sign, mean[1:])
	floats.SubTo(u.pulled, u.image[:u.k], u.pulled)
	floats.SubTo(u.image, mean, u.before)
	for e, i := range rows {
		u.move(i, x.Value[x.Start[i]+int(place[e])])
	}
}

// move takes the totals of example i, whose entry has the value x, to where its row has gone. O(k²).
func (u *rowUpdate) move(i int32, x float64) {
	sum, pull, cov := u.of(i)
	u.gradient(x, u.before, sum)
	u.refit.mean[i] += floats.Dot(u.slope, u.image)
	dense.AddScaled(sum, x, u.image[1:])
	dense.AddScaled(cov, x*x, u.moved)
	dense.AddScaled(pull, x*x*x, u.pulled)
}

// sweepField updates the features of one field; see Refit.sweepField.
func (a *rowTotals) sweepField(ctx context.Context, field int) error {
	return a.refit.eachFeature(ctx, field, func() func(j int) { return newRowUpdate(a).updateFeature })
}
