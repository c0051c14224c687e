package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/refitd/refitd/solver"
)

// proximal is the peer of figure 1 of Blondel et al. 2015: the proximal gradient method on the interactions of a convex
// factorization machine over ratings, each of one user and one item. The step there shrinks the eigenvalues of Z; with
// the diagonal ignored Z counts by its block B of users and items alone, and its least nuclear norm for a B is 2‖B‖_*,
// so that the method works on
//
//	min over B, w of  ½ Σ_i (y_i − w_u(i) − w_m(i) − B_u(i)m(i))² + β‖B‖_*
//
// and shrinks singular values. It is given all that is known to make it fast: B is kept by its singular vectors, the
// gradient as a sparse matrix, the singular vectors come from a block iteration that begins with those of the step
// before, the step has length 1 (no user rates an item twice), w is at its optimum at every point, and points are
// extrapolated as in FISTA, with restarts.
type proximal struct {
	set  *ratingSet
	y    []float64
	user []int32 // of each rating
	item []int32 // from 0
	beta float64

	w                []float64 // of users, then of items
	counts, sums     []float64
	residual         []float64 // y − Xw − the predictions of B
	current, last    lowRank
	pred, lastPred   []float64 // of B at those
	extrapolation    float64   // momentum of the step
	random           *numpyRandom
	value, lastValue float64
}

// lowRank is Σ_r u_r v_r'.
type lowRank struct{ u, v [][]float64 }

// Limits of the peer.
const (
	proximalSteps = 400
	// proximalSpan is over how many steps the objective has to fall by proximalFall of itself.
	proximalSpan, proximalFall = 10, 1e-6
	proximalSpare              = 5 // vectors of a block beyond the rank of the step before
	// A block iteration ends when no singular value moves by more than proximalMove of itself, or after proximalRounds.
	proximalMove, proximalRounds = 1e-3, 20
	linearSweeps                 = 50
)

func newProximal(set *ratingSet, rows []int, beta float64) *proximal {
	p := &proximal{
		set: set, y: pick(set.level, rows), beta: beta, random: newNumpyRandom(0),
		w: make(
			[]float64,
			set.users+set.items,
		), counts: make([]float64, set.users+set.items), sums: make([]float64, set.users+set.items),
		residual: make([]float64, len(rows)), pred: make([]float64, len(rows)), lastPred: make([]float64, len(rows)),
	}
	for _, row := range rows {
		index, _ := set.x.Row(row)
		p.user, p.item = append(p.user, index[0]), append(p.item, index[1]-int32(set.users))
		p.counts[index[0]]++
		p.counts[index[1]]++
	}
	return p
}

// run calls step with the objective after each step, and returns the model, its objective and its rank.
func (p *proximal) run(ctx context.Context, step func(objective float64)) (*solver.Model, error) {
	theta := 1.0
	p.moveLinear(p.pred)
	p.value = p.objective()
	step(p.value)
	trace := []float64{p.value}
	for range proximalSteps {
		next := 0.5 * (1 + math.Sqrt(1+4*theta*theta))
		p.extrapolation, theta = (theta-1)/next, next
		if err := p.step(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p.value > p.lastValue {
			theta = 1
		}
		step(p.value)
		trace = append(trace, p.value)
		if at := len(trace) - 1 - proximalSpan; at >= 0 && trace[at]-p.value <= proximalFall*p.value {
			break
		}
	}
	return p.model(), nil
}

// step goes to the proximal point of the extrapolated one.
func (p *proximal) step() error {
	m := p.extrapolation
	at := make([]float64, len(p.y))
	for i, x := range p.pred {
		at[i] = x + m*(x-p.lastPred[i])
	}
	p.moveLinear(at)
	next, err := p.shrunk()
	if err != nil {
		return err
	}
	p.last, p.current = p.current, next
	p.lastPred, p.pred = p.pred, p.lastPred
	clear(p.pred)
	for r, u := range next.u {
		v := next.v[r]
		for i := range p.pred {
			p.pred[i] += u[p.user[i]] * v[p.item[i]]
		}
	}
	p.moveLinear(p.pred)
	p.lastValue, p.value = p.value, p.objective()
	return nil
}

// objective is that of the current point, where w and residual are.
func (p *proximal) objective() float64 {
	value := 0.5*floats.Dot(p.residual, p.residual) + 0.5*convexRidge*floats.Dot(p.w, p.w)
	for r, u := range p.current.u {
		value += p.beta * floats.Norm(u, 2) * floats.Norm(p.current.v[r], 2)
	}
	return value
}

// moveLinear brings w to its optimum given the predictions of B, from where it was, by turns of users and items, and
// stores the residuals.
func (p *proximal) moveLinear(pred []float64) {
	for i, y := range p.y {
		p.residual[i] = y - pred[i] - p.w[p.user[i]] - p.w[p.set.users+int(p.item[i])]
	}
	for range linearSweeps {
		moved := 0.0
		for field := range 2 {
			index, offset, size := p.user, 0, p.set.users
			if field == 1 {
				index, offset, size = p.item, p.set.users, p.set.items
			}
			w, sums := p.w[offset:offset+size], p.sums[offset:offset+size]
			for j, x := range w {
				sums[j] = -convexRidge * x
			}
			for i, x := range p.residual {
				sums[index[i]] += x
			}
			for j, count := range p.counts[offset : offset+size] {
				sums[j] /= count + convexRidge
				w[j] += sums[j]
				moved += count * sums[j] * sums[j]
			}
			for i := range p.residual {
				p.residual[i] -= sums[index[i]]
			}
		}
		if moved <= 1e-10*floats.Dot(p.residual, p.residual) {
			return
		}
	}
}

// mul returns (B + the gradient step) x, or its transpose, for each column x; B is the extrapolated point.
func (p *proximal) mul(block [][]float64, transposed bool) [][]float64 {
	from, to, size := p.item, p.user, p.set.users
	if transposed {
		from, to, size = p.user, p.item, p.set.items
	}
	out := make([][]float64, len(block))
	for t, x := range block {
		y := make([]float64, size)
		for i, g := range p.residual {
			y[to[i]] += g * x[from[i]]
		}
		for _, part := range []struct {
			b     lowRank
			share float64
		}{{p.current, 1 + p.extrapolation}, {p.last, -p.extrapolation}} {
			left, right := part.b.u, part.b.v
			if transposed {
				left, right = right, left
			}
			if part.share == 0 {
				continue
			}
			for r, v := range right {
				floats.AddScaled(y, part.share*floats.Dot(v, x), left[r])
			}
		}
		out[t] = y
	}
	return out
}

// shrunk returns the gradient step with its singular values shrunk by β. It looks for as many as the current point has
// and a few, and for more as long as all of them are above β.
func (p *proximal) shrunk() (lowRank, error) {
	block := make([][]float64, 0, len(p.current.v)+proximalSpare)
	for _, v := range p.current.v {
		block = append(block, slices.Clone(v))
	}
	for {
		for range proximalSpare {
			block = append(block, make([]float64, p.set.items))
			for j := range block[len(block)-1] {
				block[len(block)-1][j] = p.random.normal()
			}
		}
		left, right, values, err := p.singular(block)
		if err != nil {
			return lowRank{}, err
		}
		if values[len(values)-1] > p.beta && len(values) < min(p.set.users, p.set.items)-proximalSpare {
			block = right
			continue
		}
		var out lowRank
		for r, x := range values {
			if x > p.beta {
				floats.Scale(x-p.beta, left[r])
				out.u, out.v = append(out.u, left[r]), append(out.v, right[r])
			}
		}
		return out, nil
	}
}

// singular returns the leading singular vectors and values of the gradient step by block iterations from a block of
// right ones.
func (p *proximal) singular(block [][]float64) (left, right [][]float64, values []float64, err error) {
	q := len(block)
	for round := 1; ; round++ {
		before := values
		orthonormalize(block)
		image := p.mul(block, false)
		orthonormalize(image)
		back := p.mul(image, true)
		matrix := mat.NewDense(p.set.items, q, nil)
		for t, x := range back {
			matrix.SetCol(t, x)
		}
		var svd mat.SVD
		if !svd.Factorize(matrix, mat.SVDThin) {
			return nil, nil, nil, fmt.Errorf("paper: no singular values of a block of %d vectors", q)
		}
		values = svd.Values(nil)
		moved := before == nil
		for t, x := range before {
			moved = moved || max(x, values[t]) > p.beta && math.Abs(x-values[t]) > proximalMove*x
		}
		var own, turn mat.Dense
		svd.UTo(&own)
		svd.VTo(&turn)
		right, left = make([][]float64, q), make([][]float64, q)
		for t := range q {
			right[t], left[t] = mat.Col(nil, t, &own), make([]float64, p.set.users)
			for s := range q {
				floats.AddScaled(left[t], turn.At(s, t), image[s])
			}
		}
		if !moved || round == proximalRounds {
			return left, right, values, nil
		}
		block = right
	}
}

// orthonormalize makes columns orthonormal in place, by the Gram–Schmidt process done twice; what is in the span of
// those before becomes 0.
func orthonormalize(block [][]float64) {
	for t, x := range block {
		size := floats.Norm(x, 2)
		for range 2 {
			for _, other := range block[:t] {
				floats.AddScaled(x, -floats.Dot(other, x), other)
			}
		}
		if rest := floats.Norm(x, 2); rest > 1e-12*size {
			floats.Scale(1/rest, x)
		} else {
			clear(x)
		}
	}
}

// model returns that of the current point: basis vectors (u_r, v_r) of weight 1, and w.
func (p *proximal) model() *solver.Model {
	d, k := p.set.users+p.set.items, len(p.current.u)
	m := solver.NewModel(solver.ANOVA, d, 1, true)
	m.NumBasis, m.Basis, m.Weights = k, make([]float64, d*k), slices.Repeat([]float64{1}, k)
	copy(m.Linear, p.w)
	for r, u := range p.current.u {
		size := math.Sqrt(
			floats.Norm(u, 2) / floats.Norm(p.current.v[r], 2),
		) // halves of equal length have the least norm
		for j, x := range u {
			m.Basis[j*k+r] = x / size
		}
		for j, x := range p.current.v[r] {
			m.Basis[(p.set.users+j)*k+r] = x * size
		}
	}
	return m
}
