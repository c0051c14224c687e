package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// convexSettings are accurate ones of a problem in the scale of the paper.
func convexSettings(kernel Kernel, alpha, beta float64, d int) Settings {
	s := DefaultSettings()
	s.Kernel, s.Lambda, s.LinearRidge, s.BiasRidge, s.MaxBasis, s.Workers = kernel, beta, alpha, 0, 8*d, 1
	s.Tolerance, s.MaxIterations = 1e-12, 5000
	if kernel == ANOVA {
		s.Lambda = beta / 2
	}
	return s
}

// TestGoldenConvexFM solves every reference problem by both refits, the fully corrective one over the whole Z and over
// spans.
func TestGoldenConvexFM(t *testing.T) {
	var file struct {
		Cases []struct {
			Alpha, Beta float64
			UseDiag     bool `json:"use_diag"`
			FitLinear   bool `json:"fit_linear"`
			X, Z        [][]float64
			XTest       [][]float64 `json:"X_test"`
			Y, W        []float64
			Prediction  []float64
			Unseen      []float64 `json:"prediction_test"`
			Objective   float64
			Rank        int
			Eigenvalues []float64
		}
	}
	golden(t, "convex_fm.json", &file)
	if len(file.Cases) != 12 {
		t.Fatalf("%d cases, 12 were written", len(file.Cases))
	}
	for n, c := range file.Cases {
		for _, way := range []string{"whole", "spans", "diagonal"} {
			t.Run(fmt.Sprintf("%d/%s", n, way), func(t *testing.T) {
				p := &Problem{X: sparse(c.X), Targets: c.Y, Outputs: 1, Loss: Squared{}}
				d, kernel, unit := p.X.NumColumns, Homogeneous, 1.0
				if !c.UseDiag {
					kernel, unit = ANOVA, 0.5 // of the paper's Z
				}
				s := convexSettings(kernel, c.Alpha, c.Beta, d)
				if !c.FitLinear {
					s.LinearRidge = 0
				}
				columns := convexfm.WholeColumns
				if way == "spans" {
					columns = 0
				}
				res, err := ConvexFM{Diagonal: way == "diagonal"}.fit(t.Context(), p, nil, s, columns)
				if err != nil {
					t.Fatal(err)
				}
				if !solvertest.Near(res.Objective, c.Objective, 1e-9, 0) ||
					res.Objective-res.Gap > c.Objective*(1+1e-12) {
					t.Errorf("objective %v, want %v; gap %v", res.Objective, c.Objective, res.Gap)
				}
				if res.Rank != c.Rank ||
					!solvertest.Near(res.NuclearNorm*unit, floats.Norm(c.Eigenvalues, 1), 1e-5, 0) {
					t.Errorf("rank %d and nuclear norm %v, want %d and %v", res.Rank, res.NuclearNorm*unit, c.Rank,
						c.Eigenvalues)
				}
				out, work := make([]float64, 1), make([]float64, 2*res.Model.NumBasis)
				rows, predictions := sparse(append(slices.Clone(c.X), c.XTest...)), append(
					slices.Clone(c.Prediction),
					c.Unseen...)
				if len(predictions) != len(c.X)+len(c.XTest) || len(c.XTest) == 0 {
					t.Errorf("%d predictions of %d and %d rows", len(predictions), len(c.X), len(c.XTest))
				}
				for i, want := range predictions {
					index, value := rows.Row(i)
					res.Model.Predict(out, work, index, value)
					if !solvertest.Near(out[0], want, 0, 1e-5) {
						t.Errorf("row %d: prediction %v, want %v", i, out[0], want)
					}
				}
				for j, want := range c.W {
					if got := res.Model.Linear; c.FitLinear && !solvertest.Near(got[j], want, 0, 1e-5) {
						t.Errorf("weight %d of %v, want %v", j, got, want)
					}
				}
				k := res.Model.NumBasis
				for j := range d {
					for l := range d {
						z := 0.0
						for r := range k {
							z += res.Model.Basis[j*k+r] * res.Model.Weights[r] * res.Model.Basis[l*k+r]
						}
						if !solvertest.Near(z*unit, c.Z[j][l], 0, 1e-5) {
							t.Errorf("Z[%d,%d] is %v, want %v", j, l, z*unit, c.Z[j][l])
						}
					}
				}
			})
		}
	}
}

// TestConvexFMRefuses what it cannot fit, naming what can.
func TestConvexFMRefuses(t *testing.T) {
	good := func() (*Problem, Settings) {
		p := &Problem{
			X:       sparse([][]float64{{1, 2}, {0, 1}, {1, 0}}),
			Targets: []float64{1, -1, 1},
			Outputs: 1,
			Loss:    BinaryLogistic{},
		}
		return p, convexSettings(ANOVA, 0.1, 1, 2)
	}
	for name, c := range map[string]struct {
		change func(*Problem, *Settings)
		is     error
	}{
		"as it is": {func(*Problem, *Settings) {}, nil},
		"outputs":  {func(p *Problem, s *Settings) { p.Outputs, p.Targets = 2, make([]float64, 6) }, ErrProblem},
		"loss":     {func(p *Problem, s *Settings) { p.Loss = SquaredHinge{} }, ErrProblem},
		"degree":   {func(p *Problem, s *Settings) { s.Kernel = ANOVA3 }, ErrSettings},
		"radius":   {func(p *Problem, s *Settings) { s.Lambda, s.Tau = 0, 1 }, ErrSettings},
		"target":   {func(p *Problem, s *Settings) { p.Targets[0] = math.NaN() }, ErrProblem},
		"lambda":   {func(p *Problem, s *Settings) { s.Lambda = -1 }, ErrSettings},
	} {
		p, s := good()
		c.change(p, &s)
		_, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
		if !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
		if check := (ConvexFM{}).Check(p, s); (check == nil) != (err == nil) {
			t.Errorf("%s: Check says %v, Fit %v", name, check, err)
		}
	}
}

// interactions returns rows of d numbers whose target depends on products of them: the value for Squared, else its
// sign. Some rows weigh nothing.
func interactions(seed uint64, lossFn Loss, n, d int) *Problem {
	rng := rand.New(rand.NewPCG(seed, 64))
	p := &Problem{X: NewRows(d, n, n*d), Outputs: 1, Loss: lossFn}
	index := make([]int32, d)
	for j := range index {
		index[j] = int32(j)
	}
	for range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		target := row[0]*row[1] - 2*row[2]*row[3] + row[1]*row[4] + 0.5*row[0] + 0.3*rng.NormFloat64()
		if _, ok := lossFn.(Squared); !ok {
			target = math.Copysign(1, target)
		}
		p.X.Append(index, row)
		p.Targets, p.Weights = append(p.Targets, target), append(p.Weights, float64(rng.IntN(3)))
	}
	return p
}

// TestConvexFMLosses: objective, gap and nuclear norm are those of the model, whose basis vectors are orthonormal; both
// refits and Algorithm 1 end at one optimum, and the gap bounds the distance of a rough solve from it.
func TestConvexFMLosses(t *testing.T) {
	tier.NotUnderRace(t)
	for n, loss := range []Loss{Squared{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		kernels := []Kernel{ANOVA, Homogeneous}
		for _, kernel := range tier.Size(kernels[n%2:n%2+1], kernels) {
			p := interactions(uint64(n), loss, 200, 5)
			s := smallSettings()
			s.Kernel, s.Penalty, s.Lambda, s.MaxBasis, s.Tolerance, s.LinearRidge = kernel, L1, 6, 60, 1e-5, 0.5
			exact, err := Solve(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			both := []bool{(n%2 == 0) == (kernel == ANOVA), (n%2 == 0) != (kernel == ANOVA)}
			for _, diagonal := range few(both) {
				name := fmt.Sprintf("%s %v diagonal=%v", loss.Name(), kernel, diagonal)
				rough := s
				rough.MaxBasis, rough.Tolerance = 2, 1e-4
				for _, settings := range []Settings{rough, s} {
					res, err := ConvexFM{Diagonal: diagonal}.Fit(t.Context(), p, nil, settings)
					if err != nil {
						t.Fatal(err)
					}
					checkFinite(t, res)
					if want := modelObjective(p, res.Model, settings); !solvertest.Near(res.Objective, want, 1e-9, 0) ||
						res.GapKind != Certified {
						t.Errorf("%s: objective %v, recomputed %v; gap %s", name, res.Objective, want, res.GapKind)
					}
					if excess := res.Objective - exact.Objective; excess > res.Gap*(1+1e-9) ||
						excess < -exact.Gap*(1+1e-9) {
						t.Errorf("%s: %v above the optimum, gap %v", name, excess, res.Gap)
					}
					if settings.MaxBasis > 2 && !solvertest.Near(res.Objective, exact.Objective, 1e-4, 0) {
						t.Errorf("%s: objective %v, by Algorithm 1 %v", name, res.Objective, exact.Objective)
					}
					if norm := floats.Norm(res.Model.Weights, 1); res.NuclearNorm != norm ||
						res.Rank != res.Model.NumBasis ||
						res.Rank > settings.MaxBasis ||
						norm == 0 {
						t.Errorf("%s: nuclear norm %v, rank %d; %v", name, res.NuclearNorm, res.Rank, res.Model.Weights)
					}
					checkOrthonormal(t, res.Model)
				}
			}
		}
	}
}

func checkOrthonormal(t *testing.T, m *Model) {
	t.Helper()
	k := m.NumBasis
	for r := range k {
		for s := range k {
			dot, want := 0.0, 0.0
			if r == s {
				want = 1
			}
			for j := range m.NumFeatures {
				dot += m.Basis[j*k+r] * m.Basis[j*k+s]
			}
			if !solvertest.Near(dot, want, 0, 1e-9) {
				t.Fatalf("⟨p_%d, p_%d⟩ = %v", r, s, dot)
			}
		}
	}
}

// TestConvexFMWeights: a row of weight 2 is the row twice, one of weight 0 no row.
func TestConvexFMWeights(t *testing.T) {
	p := interactions(7, Squared{}, 80, 5)
	var rows []int
	repeated := &Problem{Outputs: 1, Loss: Squared{}}
	for i, w := range p.Weights {
		for range int(w) {
			rows = append(rows, i)
			repeated.Targets = append(repeated.Targets, p.Targets[i])
		}
	}
	repeated.X = p.X.Select(rows)
	s := convexSettings(ANOVA, 0.5, 4, 5)
	s.Tolerance = 1e-9
	a, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ConvexFM{}.Fit(t.Context(), repeated, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if !solvertest.Near(a.Objective, b.Objective, 1e-9, 0) || a.Rank != b.Rank || a.Rank == 0 {
		t.Errorf("objective %v of rank %d with weights, %v of rank %d with rows repeated", a.Objective, a.Rank,
			b.Objective, b.Rank)
	}
}

// TestConvexFMBipartite: one-hot rows of two fields, whose gradients have eigenvalues in pairs ±σ, reach the optimum
// with as many vectors as the matrix between the fields has singular values, not twice as many.
func TestConvexFMBipartite(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	const users, items, n = 30, 20, 600
	p := &Problem{X: NewRows(users+items, n, 2*n), Outputs: 1, Loss: Squared{}}
	left, right := gamma.RandomUnit(2*users, 1), gamma.RandomUnit(2*items, 2)
	for range n {
		u, i := rng.IntN(users), rng.IntN(items)
		p.X.Append([]int32{int32(u), int32(users + i)}, []float64{1, 1})
		p.Targets = append(p.Targets, 40*left[u]*right[i]+20*left[users+u]*right[items+i]+0.1*rng.NormFloat64())
	}
	s := convexSettings(ANOVA, 0.1, 3, 10)
	s.Tolerance = 1e-9
	res, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	norm := 0.0 // of the two blocks between the fields
	block := make([]float64, items*items)
	k := res.Model.NumBasis
	z := func(j, l int) (sum float64) {
		for r, v := range res.Model.Weights {
			sum += v * res.Model.Basis[j*k+r] * res.Model.Basis[l*k+r]
		}
		return sum
	}
	for a := range items {
		for b := range items {
			for u := range users {
				block[a*items+b] += z(u, users+a) * z(u, users+b)
			}
		}
	}
	e, _ := eigen.Decompose(convexfm.SymmetricOf(block, items))
	rank := 0
	for _, x := range e.Values {
		if x > 1e-9 {
			rank++
			norm += 2 * math.Sqrt(x)
		}
	}
	if res.GapRelative > 1e-6 || res.Rank != rank || rank < 2 || !solvertest.Near(res.NuclearNorm, norm, 1e-6, 0) {
		t.Errorf("rank %d of a matrix of rank %d, nuclear norm %v and %v, gap %v", res.Rank, rank, res.NuclearNorm,
			norm, res.GapRelative)
	}
}

// TestConvexFMCutShort: a fit that was cancelled after any number of blocks has the model of the steps that it made,
// and a budget of as many steps repeats it, bytes and all; workers change nothing.
func TestConvexFMCutShort(t *testing.T) {
	tier.NotUnderRace(t)
	p := interactions(9, BinaryLogistic{}, 600, 5)
	s := smallSettings()
	s.Lambda, s.MaxBasis, s.Tolerance, s.Workers = 3, 4, 1e-3, 2
	s.Now = func() time.Time { return time.Time{} }
	fit := func(ctx context.Context, s Settings) (*Result, error) { return ConvexFM{}.Fit(ctx, p, nil, s) }
	_, counting, calls := cancelAt(t, -1)
	whole := s
	whole.Yield = counting
	full, err := fit(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 5} {
		other := s
		other.Workers = workers
		if same, err := fit(t.Context(), other); err != nil || !reflect.DeepEqual(same, full) {
			t.Errorf("%d workers: objective %v, two %v (%v)", workers, same.Objective, full.Objective, err)
		}
	}
	ends := map[int]bool{}
	const cuts = 20
	for i := range int64(cuts) {
		ctx, yield, _ := cancelAt(t, i*calls.Load()/cuts)
		cut := s
		cut.Yield = yield
		res, err := fit(ctx, cut)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			continue
		}
		checkFinite(t, res)
		checkOrthonormal(t, res.Model)
		if want := modelObjective(p, res.Model, s.withPenalty(L1)); !solvertest.Near(res.Objective, want, 1e-9, 0) {
			t.Errorf("cut at %d: objective %v, recomputed %v", i, res.Objective, want)
		}
		ends[len(res.Steps)] = true
		if res.Status != Interrupted {
			continue
		}
		again := s
		again.Budget.Steps = func(float64) int { return len(res.Steps) }
		same, err := fit(t.Context(), again)
		if err != nil || !reflect.DeepEqual(same.Model, res.Model) || same.Objective != res.Objective ||
			same.Gap != res.Gap {
			t.Errorf("%d steps repeated: objective %v and gap %v, was %v and %v (%v)", len(res.Steps), same.Objective,
				same.Gap, res.Objective, res.Gap, err)
		}
	}
	if len(ends) < 2 {
		t.Errorf("cut short at steps %v only", ends)
	}
}

func (s Settings) withPenalty(p Penalty) Settings {
	s.Penalty = p
	return s
}

// TestConvexFMWarm: a fit from its own answer, or from that of Algorithm 1, ends at once where it is, and a path of λ
// by Path is that of fits one after the other.
func TestConvexFMWarm(t *testing.T) {
	tier.NotUnderRace(t)
	p := interactions(11, Squared{}, 200, 5)
	s := smallSettings()
	s.Lambda, s.MaxBasis, s.Tolerance = 8, 20, 1e-4
	cold, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Solve(t.Context(), p, nil, s.withPenalty(L1))
	if err != nil {
		t.Fatal(err)
	}
	for name, model := range map[string]*Model{"own": cold.Model, "of Algorithm 1": other.Model} {
		warm, err := ConvexFM{}.Fit(t.Context(), p, &Warm{Model: model}, s)
		if err != nil {
			t.Fatal(err)
		}
		if len(warm.Steps) >= len(cold.Steps) || !solvertest.Near(warm.Objective, cold.Objective, 2e-4, 0) {
			t.Errorf("%s: %d steps to %v, cold %d to %v", name, len(warm.Steps), warm.Objective, len(cold.Steps),
				cold.Objective)
		}
	}
	if none, err := (ConvexFM{}).Fit(t.Context(), p, &Warm{}, s); err != nil || none.Objective != cold.Objective {
		t.Errorf("an empty warm start: %v", err)
	}
	lambdas, err := ConvexFM{}.Strengths(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	points, _, err := Path(t.Context(), p, lambdas[:4], s, PathOptions{Algorithm: ConvexFM{}})
	if err != nil {
		t.Fatal(err)
	}
	var warm *Warm
	for i, point := range points {
		s.Lambda = lambdas[i]
		res, err := ConvexFM{}.Fit(t.Context(), p, warm, s)
		if err != nil {
			t.Fatal(err)
		}
		if warm = (&Warm{Model: res.Model}); !reflect.DeepEqual(point.Result.Model, res.Model) ||
			i > 0 && res.NuclearNorm <= points[i-1].Result.NuclearNorm {
			t.Errorf("λ %v: objective %v along the path, %v from a warm start; nuclear norm %v", lambdas[i],
				point.Result.Objective, res.Objective, res.NuclearNorm)
		}
	}
}
