package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// wholeCase is a refit of the whole Z with linear term and bias, by both methods, at a random point.
func wholeCase(t testing.TB, seed uint64, loss Loss, kernel Kernel, ridge, biasRidge float64,
	w parallel.Workers) (s *convexfm.WholeNewton, a, theta []float64) {
	p := interactions(seed, loss, 400, 5)
	linear := linear.NewLinearFit(p, ridge, biasRidge, w)
	g := gamma.NewGamma(p.X, kernel, 1, w)
	fit := convexfm.NewCorrectiveFit(p, g, linear, 3, w)
	fit.Whole = true
	var axes [][]float64
	for j := range 5 {
		axis := make([]float64, 5)
		axis[j] = 1
		axes = append(axes, axis)
	}
	fit.Begin(axes, make([]float64, p.X.NumRows()))
	if s = convexfm.NewWholeNewton(fit, linear); s == nil {
		t.Fatal("no Newton refit")
	}
	rng := rand.New(rand.NewPCG(seed, 91))
	a, theta = make([]float64, 25), make([]float64, 6)
	for j := range 5 {
		for l := range j + 1 {
			a[5*j+l] = 0.2 * rng.NormFloat64()
			a[5*l+j] = a[5*j+l]
		}
	}
	for c := range theta {
		theta[c] = 0.1 * rng.NormFloat64()
	}
	linear.ClearFixed(theta)
	return s, a, theta
}

// smooth returns the part of the objective that the model is of, row by row.
func slowSmooth(s *convexfm.WholeNewton, a, theta []float64) float64 {
	p, sum := s.F.P, s.Linear.RidgeOf(theta, theta)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		pred := theta[len(theta)-1]
		for e, j := range index {
			pred += value[e] * theta[j]
			for o, l := range index {
				switch {
				case s.F.G.Kernel == Homogeneous:
					pred += value[e] * value[o] * a[int(j)*s.D+int(l)]
				case e != o:
					pred += 0.5 * value[e] * value[o] * a[int(j)*s.D+int(l)]
				}
			}
		}
		sum += p.Weight(i) * p.Loss.Eval(nil, []float64{pred}, p.Target(i))
	}
	return sum
}

// TestWholeNewtonModel: gradient and second derivatives of the model are those of the objective by differences, with or
// without linear term and bias, and the step ends at the least of it.
func TestWholeNewtonModel(t *testing.T) {
	for c, kernel := range []Kernel{Homogeneous, ANOVA, Homogeneous, ANOVA} {
		ridges := [][2]float64{{0.5, 0.2}, {0.3, 0.1}, {0, 0.1}, {0.2, 0}}[c]
		s, a, theta := wholeCase(t, uint64(c), BinaryLogistic{}, kernel, ridges[0], ridges[1],
			solvertest.TestWorkers(1+c%2))
		at := func(change []float64) float64 {
			to, so := append([]float64(nil), theta...), make([]float64, 25)
			u := make([]float64, s.Size)
			s.Coordinates(u, a)
			floats.Add(u, change[:s.Size])
			s.Whole(so, u)
			floats.Add(to, change[s.Size:])
			return slowSmooth(s, so, to)
		}
		s.Linear.PredictTo(s.F.Offset, theta)
		s.F.Predict(s.F.Current, a)
		linear.RowLosses(s.F.Workers, s.F.P, s.F.Current, s.F.G.Grad)
		s.Model(theta)
		free := func(o int) bool {
			return !(ridges[0] == 0 && o >= s.Size && o < s.All-1 || ridges[1] == 0 && o == s.All-1)
		}
		const h = 1e-4
		for o := range s.All {
			if !free(o) {
				continue
			}
			move := make([]float64, s.All)
			move[o] = h
			up := at(move)
			move[o] = -h
			down := at(move)
			if got, want := s.Hessian[o*(s.All+1)+s.All], (up-down)/(2*h); !solvertest.Near(got, want, 1e-5, 1e-5) {
				t.Errorf("%v: slope %v of coordinate %d, by differences %v", kernel, got, o, want)
			}
			for q := range s.All {
				if !free(q) {
					continue
				}
				cross := 0.0
				for _, signs := range [][2]float64{{1, 1}, {-1, -1}, {1, -1}, {-1, 1}} {
					move := make([]float64, s.All)
					move[o] += signs[0] * h
					move[q] += signs[1] * h
					cross += signs[0] * signs[1] * at(move)
				}
				if got, want := s.Hessian[o*(s.All+1)+q], cross/(4*h*h); !solvertest.Near(got, want, 1e-3, 1e-2) {
					t.Errorf("%v: second derivative %v of coordinates %d and %d, by differences %v", kernel, got, o, q,
						want)
				}
			}
		}
		next, moved := make([]float64, 25), make([]float64, 6)
		if !s.Step(next, moved, a, theta) {
			t.Fatal("no step")
		}
		model := func(u, moved []float64) float64 { // at coordinates of Z and a move of the rest
			change, so, value := make([]float64, s.Size), make([]float64, 25), 0.0
			s.Coordinates(change, a)
			floats.SubTo(change, u, change)
			s.Whole(so, u)
			all := append(change, moved...)
			for o, x := range all {
				value += x * (s.Hessian[o*(s.All+1)+s.All] + 0.5*floats.Dot(s.Hessian[o*(s.All+1):o*(s.All+1)+s.All], all))
			}
			return value + s.F.Lambda*convexfm.NuclearNorm(so, s.D)
		}
		u := make([]float64, s.Size)
		s.Coordinates(u, next)
		least, rng := model(u, moved), rand.New(rand.NewPCG(uint64(c), 92))
		for range 200 {
			near, nearMoved := append([]float64(nil), u...), append([]float64(nil), moved...)
			for o := range near {
				near[o] += 0.01 * rng.NormFloat64()
			}
			for o := range nearMoved {
				nearMoved[o] += 0.01 * rng.NormFloat64()
			}
			s.Linear.ClearFixed(nearMoved)
			if other := model(near, nearMoved); other < least-1e-6*math.Abs(least) {
				t.Errorf("%v: the step ends where the model is %v, near it %v", kernel, least, other)
			}
		}
	}
}

// TestWholeNewton: the refit ends where FISTA and the linear term in turns end, in a few steps; it never raises the
// objective, wherever it is called off; lengths in its coordinates are those of the matrix; and the squared loss and
// many columns are left to FISTA.
func TestWholeNewton(t *testing.T) {
	for c, loss := range []Loss{BinaryLogistic{}, BinarySquaredHinge{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		kernel := []Kernel{Homogeneous, ANOVA}[c/2]
		objective := func(s *convexfm.WholeNewton, a, theta []float64) float64 {
			return slowSmooth(s, a, theta) + s.F.Lambda*convexfm.NuclearNorm(a, s.D)
		}
		s, a, theta := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, solvertest.TestWorkers(1))
		u := make([]float64, s.Size)
		if s.Coordinates(u, a); !solvertest.Near(dense.Norm2(u), dense.Norm2(a), 1e-12, 0) {
			t.Errorf("length %v of coordinates, %v of the matrix", dense.Norm2(u), dense.Norm2(a))
		}
		before := objective(s, a, theta)
		steps, ok := s.Run(a, theta, 1e-13)
		end := objective(s, a, theta)
		if !ok || steps > convexfm.NewtonSteps/2 || !(end < before) {
			t.Errorf("%s, %v: from %v to %v in %d steps, %t", loss.Name(), kernel, before, end, steps, ok)
		}
		other, b, gamma := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, solvertest.TestWorkers(1))
		for range 60 {
			other.Linear.PredictTo(other.F.Offset, gamma)
			smooth := 0.0
			output.Accelerated(other.F, other.F.Workers, &smooth, b,
				output.FitLimits{Tolerance: 1e-14, Span: fullSpan, Iterations: 5000})
			other.F.Predict(other.F.Current, b)
			copy(other.Linear.Theta, gamma)
			for i := range other.Linear.Pred {
				other.Linear.Pred[i] = other.F.Current[i] - other.F.Offset[i]
			}
			other.Linear.Minimize(1e-14, 200)
			copy(gamma, other.Linear.Theta)
		}
		if want := objective(other, b, gamma); !solvertest.Near(end, want, 1e-8, 0) {
			t.Errorf("%s, %v: objective %v, by FISTA and the linear term in turns %v", loss.Name(), kernel, end, want)
		}
		for n := int64(0); n < 40; n += tier.Size[int64](3, 1) {
			ctx, yield, _ := cancelAt(t, n)
			w := parallel.Workers{Size: 1, Pause: yield, Done: ctx.Done()}
			cut, a, theta := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, solvertest.TestWorkers(1))
			cut.F.Workers, cut.Linear.Workers = w, w
			if cut.Run(a, theta, 1e-13); objective(cut, a, theta) > before {
				t.Errorf("called off at %d: objective %v from %v", n, objective(cut, a, theta), before)
			}
		}
	}
	p := interactions(1, Squared{}, 50, 5)
	fit := &convexfm.CorrectiveFit{P: p}
	if convexfm.NewWholeNewton(fit, nil) != nil {
		t.Error("the squared loss has linear term and bias eliminated already")
	}
	fit.P = &Problem{X: NewRows(convexfm.NewtonColumns+1, 0, 0), Outputs: 1, Loss: BinaryLogistic{}}
	if convexfm.NewWholeNewton(fit, nil) != nil {
		t.Errorf("%d columns are too many", convexfm.NewtonColumns+1)
	}
}
