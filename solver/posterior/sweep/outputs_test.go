package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
	"gonum.org/v1/gonum/mat"
)

// mixedRows draws n examples of two names, a multi-hot field of one or two names with value ½ or 1, and a number.
// Columns: 0–4 and 5–8 names, 9–12 multi-hot, 13 the number; column 4 never occurs.
func mixedRows(r *rand.Rand, n int) (*solver.Rows, []int32) {
	x := solver.NewRows(14, n, 5*n)
	for range n {
		index, value := []int32{int32(r.IntN(4)), int32(5 + r.IntN(4))}, []float64{1, 1}
		a, b := int32(9+r.IntN(4)), int32(9+r.IntN(4))
		if a == b {
			index, value = append(index, a), append(value, 1)
		} else {
			index, value = append(index, min(a, b), max(a, b)), append(value, 0.5, 0.5)
		}
		x.Append(append(index, 13), append(value, 2*r.Float64()-1))
	}
	return x, []int32{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3}
}

// outputProblem draws labels of the likelihood from a planted model over rows.
func outputProblem(r *rand.Rand, l posterior.Likelihood, x *solver.Rows, field []int32,
	numFields, m int) *solver.Problem {
	planted := posterior.NewSeparate(l, m, field, numFields, posterior.PriorFor(l, 1))
	addRandomVectors(r, planted, 2)
	for i := range planted.Mean {
		planted.Mean[i] = r.NormFloat64()
	}
	p := &solver.Problem{X: x, Outputs: m, Field: field, NumFields: numFields}
	v := posterior.NewOutputView(planted)
	for i := range x.NumRows() {
		v.Gather(x.Row(i))
		switch l {
		case posterior.Gaussian:
			p.Loss = solver.Squared{}
			for c, o := range v.Out {
				p.Targets = append(p.Targets, float64(c)+o+0.3*r.NormFloat64())
			}
		case posterior.Logistic:
			p.Loss = solver.BinaryLogistic{}
			for _, o := range v.Out {
				t := -1.0
				if o > 0.5*r.NormFloat64() {
					t = 1
				}
				p.Targets = append(p.Targets, t)
			}
		default:
			p.Loss = solver.MultinomialLogistic{}
			p.Targets = append(p.Targets, posteriortest.DrawClass(r, v.Out)...)
		}
	}
	return p
}

func addRandomVectors(r *rand.Rand, s *posterior.State, k int) {
	for range k {
		h, v := make([]float64, len(s.Field)), make([]float64, len(s.Bias))
		for j := range h {
			h[j] = 0.3 * r.NormFloat64()
		}
		for c := range v {
			v[c] = r.NormFloat64()
		}
		s.AddBasis(h, v, 8)
	}
}

// randomOutputs returns a state with random means and covariances, and every feature's whole covariance.
func randomOutputs(r *rand.Rand, p *solver.Problem, l posterior.Likelihood, k int) (*posterior.State, []*mat.SymDense) {
	m := p.Outputs
	s := posterior.NewSeparate(l, m, p.Field, p.NumFields, posterior.PriorFor(l, 1))
	addRandomVectors(r, s, k)
	whole := make([]*mat.SymDense, len(s.Field))
	for j := range s.Field {
		mean, cov := s.Row(j)
		for a := range mean {
			mean[a] = 0.5 * r.NormFloat64()
		}
		whole[j] = symmetric(randomPositive(r, m+k), m+k)
		whole[j].ScaleSym(0.05, whole[j])
		packOutputs(cov, whole[j], m, k)
	}
	for c := range s.Bias {
		s.Bias[c] = 0.5 * r.NormFloat64()
	}
	return s, whole
}

// packOutputs stores the parts of a covariance that a state keeps.
func packOutputs(dst []float64, c mat.Symmetric, m, k int) {
	at := m + m*k
	for a := range m {
		dst[a] = c.At(a, a)
		for r := range k {
			dst[m+a*k+r] = c.At(a, m+r)
		}
	}
	for r := range k {
		for t := 0; t <= r; t++ {
			dst[at] = c.At(m+r, m+t)
			at++
		}
	}
}

// eachPoint calls f with every combination of cubature points of the given rows: mean ± √q·(column of the Cholesky
// factor). All have the same weight. Expectations of polynomials of degree at most 2 in each row are exact.
func eachPoint(means [][]float64, cov []*mat.SymDense, f func(rows [][]float64)) (points int) {
	q := len(means[0])
	factors := make([]mat.TriDense, len(cov))
	for l, c := range cov {
		var chol mat.Cholesky
		if !chol.Factorize(c) {
			panic("not positive definite")
		}
		chol.LTo(&factors[l])
	}
	rows := make([][]float64, len(means))
	for l := range rows {
		rows[l] = make([]float64, q)
	}
	var each func(l int)
	each = func(l int) {
		if l == len(rows) {
			points++
			f(rows)
			return
		}
		for at := range 2 * q {
			sign := math.Sqrt(float64(q))
			if at >= q {
				sign = -sign
			}
			for a := range q {
				rows[l][a] = means[l][a] + sign*factors[l].At(a, at%q)
			}
			each(l + 1)
		}
	}
	each(0)
	return points
}

// outputsOf returns o_c − θ_c by the definition of the model, without entry skip.
func outputsOf(s *posterior.State, rows [][]float64, value []float64, skip int) []float64 {
	m := len(s.Bias)
	out := make([]float64, m)
	for c := range m {
		for e, x := range value {
			if e == skip {
				continue
			}
			out[c] += x * rows[e][c]
			for f := range e {
				if f == skip {
					continue
				}
				for r := range s.NumBasis {
					out[c] += s.Weights[r*m+c] * x * value[f] * rows[e][m+r] * rows[f][m+r]
				}
			}
		}
	}
	return out
}

// TestOutputMomentsAgainstDefinition checks the moments of the outputs against exact integration over all rows of an
// example.
func TestOutputMomentsAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	x, field := mixedRows(r, 12)
	p := outputProblem(r, posterior.Gaussian, x, field, 4, 2)
	s, whole := randomOutputs(r, p, posterior.Gaussian, 2)
	v, spread := posterior.NewOutputView(s), make([]float64, 2)
	for i := range 3 {
		index, value := x.Row(i)
		// two of the multi-hot field, or one and a name, and the number
		index, value = index[len(index)-3:], value[len(index)-3:]
		v.Gather(index, value)
		v.Covariances()
		v.Spread(spread)
		var means [][]float64
		var cov []*mat.SymDense
		for _, j := range index {
			mean, _ := s.Row(int(j))
			means, cov = append(means, mean), append(cov, whole[j])
		}
		sum, square := make([]float64, 2), make([]float64, 2)
		n := float64(eachPoint(means, cov, func(rows [][]float64) {
			for c, o := range outputsOf(s, rows, value, -1) {
				sum[c] += o
				square[c] += o * o
			}
		}))
		for c := range sum {
			mean := sum[c] / n
			posteriortest.Nearly(t, "mean", v.Out[c], mean, 1e-9)
			posteriortest.Nearly(t, "variance", spread[c], square[c]/n-mean*mean, 1e-9)
		}
	}
}

// slowOutputs is the posterior of one feature from the definition: a dense system of order m+k whose moments are exact
// integrals over the partners' rows.
func slowOutputs(s *posterior.State, whole []*mat.SymDense, p *solver.Problem, omega, right []float64,
	j int) (mean *mat.VecDense, cov *mat.SymDense, logDet float64) {
	m, k := p.Outputs, s.NumBasis
	q := m + k
	a, b := mat.NewSymDense(q, nil), mat.NewVecDense(q, nil)
	for i, d := range s.PrecisionOf(int(s.Field[j])) {
		a.SetSym(i, i, d)
	}
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		at := slices.Index(index, int32(j))
		if at < 0 {
			continue
		}
		var means [][]float64
		var covs []*mat.SymDense
		for e, l := range index {
			if e != at {
				row, _ := s.Row(int(l))
				means, covs = append(means, row), append(covs, whole[l])
			}
		}
		points := 1.0
		for range means {
			points *= float64(2 * q)
		}
		eachPoint(means, covs, func(partners [][]float64) {
			rows := slices.Insert(slices.Clone(partners), at, make([]float64, q))
			rest := outputsOf(s, rows, value, at)
			for c := range m {
				y := mat.NewVecDense(q, nil)
				y.SetVec(c, value[at])
				for r := range k {
					sum := 0.0
					for e, x := range value {
						if e != at {
							sum += x * rows[e][m+r]
						}
					}
					y.SetVec(m+r, value[at]*s.Weights[r*m+c]*sum)
				}
				w := omega[i*m+c]
				a.SymRankOne(a, w/points, y)
				b.AddScaledVec(b, (right[i*m+c]-w*rest[c])/points, y)
			}
		})
	}
	var chol mat.Cholesky
	if !chol.Factorize(a) {
		panic("not positive definite")
	}
	mean, cov = mat.NewVecDense(q, nil), mat.NewSymDense(q, nil)
	if err := chol.SolveVecTo(mean, b); err != nil {
		panic(err)
	}
	if err := chol.InverseTo(cov); err != nil {
		panic(err)
	}
	return mean, cov, -chol.LogDet()
}

func TestOutputUpdateAgainstDefinition(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic, posterior.Multinomial} {
		r := rand.New(rand.NewPCG(21, uint64(l)))
		x, field := mixedRows(r, 16)
		p := outputProblem(r, l, x, field, 4, 2)
		s, whole := randomOutputs(r, p, l, 1)
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		o := f.outputs
		for j := range s.Field {
			o.predict()
			o.observe()
			o.takeTotals()
			mean, cov := s.Row(j)
			wantMean, wantCov, wantLogDet := slowOutputs(s, whole, p, o.omega, o.right, j)
			oldMean, oldCov := slices.Clone(mean), slices.Clone(cov)
			newOutputUpdate(o).updateFeature(j)
			for a := range mean {
				posteriortest.Nearly(t, l.String()+" mean", mean[a], wantMean.AtVec(a), 1e-9)
			}
			want := make([]float64, len(cov))
			packOutputs(want, wantCov, 2, 1)
			for a := range cov {
				posteriortest.Nearly(t, l.String()+" covariance", cov[a], want[a], 1e-9)
			}
			posteriortest.Nearly(t, l.String()+" log det", o.logDet[j], wantLogDet, 1e-9)
			copy(mean, oldMean) // whole belongs to the state before
			copy(cov, oldCov)
		}
	}
}

// TestOneOutputIsTheSharedForm: with one output and V = ±1 both forms are the same model, and go the same way.
func TestOneOutputIsTheSharedForm(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		r := rand.New(rand.NewPCG(31, uint64(l)))
		x, field := mixedRows(r, 80)
		p := outputProblem(r, l, x, field, 4, 1)
		shared := posterior.New(l, 1, 0, field, 4, posterior.PriorFor(l, 1))
		separate := posterior.NewSeparate(l, 1, field, 4, posterior.PriorFor(l, 1))
		for range 3 {
			h := make([]float64, len(field))
			for j := range h {
				h[j] = 0.5 * r.NormFloat64()
			}
			sign := []float64{float64(1 - 2*r.IntN(2))}
			shared.AddBasis(h, sign, 8)
			separate.AddBasis(h, sign, 8)
		}
		a, err := NewRefit(shared, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewRefit(separate, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			want, err := a.Sweep(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			o := b.outputs
			o.observe()
			o.takeTotals()
			for f := range 4 {
				if err := o.sweepField(context.Background(), f); err != nil {
					t.Fatal(err)
				}
			}
			o.predict()
			o.updateBias()
			o.updateNoises()
			o.recenter(o.mean)
			o.updatePrecision()
			posteriortest.Nearly(t, l.String()+" evidence", o.likelihood()-o.divergence(), want, 1e-10)
			posteriortest.Nearly(t, l.String()+" bias", separate.Bias[0], shared.Bias[0], 1e-10)
			for i := range shared.Mean {
				posteriortest.Nearly(t, l.String()+" mean", separate.Mean[i], shared.Mean[i], 1e-10)
			}
			for i := range shared.Precision {
				posteriortest.Nearly(t, l.String()+" precision", separate.Precision[i], shared.Precision[i], 1e-9)
			}
		}
	}
}

// TestRestoreInvertsFinish: the evidence behind a row comes back from its posterior.
func TestRestoreInvertsFinish(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	x, field := mixedRows(r, 60)
	p := outputProblem(r, posterior.Logistic, x, field, 4, 3)
	s, _ := randomOutputs(r, p, posterior.Logistic, 2)
	f, err := NewRefit(s, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.outputs.observe()
	f.outputs.takeTotals()
	u := newOutputUpdate(f.outputs)
	u.updateFeature(2)
	mean, cov := s.Row(2)
	precision, right := make([]float64, len(cov)), make([]float64, len(mean))
	got := posterior.NewOutputEvidence(precision, right, 3, 2)
	u.solver.Restore(&got, s.PrecisionOf(0), mean, cov)
	for i, want := range u.precision {
		posteriortest.Nearly(t, "precision", precision[i], want, 1e-9)
	}
	for i, want := range u.right {
		posteriortest.Nearly(t, "right side", right[i], want, 1e-9)
	}
}
