package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// wholeCase is a refit of the whole Z with linear term and bias, by both methods, at a random point.
func wholeCase(t testing.TB, seed uint64, loss Loss, kernel Kernel, ridge, biasRidge float64, w workers) (s *wholeNewton, a, theta []float64) {
	p := interactions(seed, loss, 400, 5)
	linear := newLinearFit(p, ridge, biasRidge, w)
	g := newGamma(p.X, kernel, 1, w)
	fit := newCorrectiveFit(p, g, linear, 3, w)
	fit.whole = true
	var axes [][]float64
	for j := range 5 {
		axis := make([]float64, 5)
		axis[j] = 1
		axes = append(axes, axis)
	}
	fit.begin(axes, make([]float64, p.X.NumRows()))
	if s = newWholeNewton(fit, linear); s == nil {
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
	linear.clearFixed(theta)
	return s, a, theta
}

// smooth returns the part of the objective that the model is of, row by row.
func (s *wholeNewton) slowSmooth(a, theta []float64) float64 {
	p, sum := s.f.p, s.linear.ridgeOf(theta, theta)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		pred := theta[len(theta)-1]
		for e, j := range index {
			pred += value[e] * theta[j]
			for o, l := range index {
				switch {
				case s.f.g.kernel == Homogeneous:
					pred += value[e] * value[o] * a[int(j)*s.d+int(l)]
				case e != o:
					pred += 0.5 * value[e] * value[o] * a[int(j)*s.d+int(l)]
				}
			}
		}
		sum += p.Weight(i) * p.Loss.Eval(nil, []float64{pred}, p.Target(i))
	}
	return sum
}

// TestWholeNewtonModel: gradient and second derivatives of the model are those of the objective by differences, with or without linear term and bias, and
// the step ends at the least of it.
func TestWholeNewtonModel(t *testing.T) {
	for c, kernel := range []Kernel{Homogeneous, ANOVA, Homogeneous, ANOVA} {
		ridges := [][2]float64{{0.5, 0.2}, {0.3, 0.1}, {0, 0.1}, {0.2, 0}}[c]
		s, a, theta := wholeCase(t, uint64(c), BinaryLogistic{}, kernel, ridges[0], ridges[1], testWorkers(1+c%2))
		at := func(change []float64) float64 {
			to, so := append([]float64(nil), theta...), make([]float64, 25)
			u := make([]float64, s.size)
			s.coordinates(u, a)
			floats.Add(u, change[:s.size])
			s.whole(so, u)
			floats.Add(to, change[s.size:])
			return s.slowSmooth(so, to)
		}
		s.linear.predictTo(s.f.offset, theta)
		s.f.predict(s.f.current, a)
		rowLosses(s.f.workers, s.f.p, s.f.current, s.f.g.grad)
		s.model(theta)
		free := func(o int) bool {
			return !(ridges[0] == 0 && o >= s.size && o < s.all-1 || ridges[1] == 0 && o == s.all-1)
		}
		const h = 1e-4
		for o := range s.all {
			if !free(o) {
				continue
			}
			move := make([]float64, s.all)
			move[o] = h
			up := at(move)
			move[o] = -h
			down := at(move)
			if got, want := s.hessian[o*(s.all+1)+s.all], (up-down)/(2*h); !near(got, want, 1e-5, 1e-5) {
				t.Errorf("%v: slope %v of coordinate %d, by differences %v", kernel, got, o, want)
			}
			for q := range s.all {
				if !free(q) {
					continue
				}
				cross := 0.0
				for _, signs := range [][2]float64{{1, 1}, {-1, -1}, {1, -1}, {-1, 1}} {
					move := make([]float64, s.all)
					move[o] += signs[0] * h
					move[q] += signs[1] * h
					cross += signs[0] * signs[1] * at(move)
				}
				if got, want := s.hessian[o*(s.all+1)+q], cross/(4*h*h); !near(got, want, 1e-3, 1e-2) {
					t.Errorf("%v: second derivative %v of coordinates %d and %d, by differences %v", kernel, got, o, q, want)
				}
			}
		}
		next, moved := make([]float64, 25), make([]float64, 6)
		if !s.step(next, moved, a, theta) {
			t.Fatal("no step")
		}
		model := func(u, moved []float64) float64 { // at coordinates of Z and a move of the rest
			change, so, value := make([]float64, s.size), make([]float64, 25), 0.0
			s.coordinates(change, a)
			floats.SubTo(change, u, change)
			s.whole(so, u)
			all := append(change, moved...)
			for o, x := range all {
				value += x * (s.hessian[o*(s.all+1)+s.all] + 0.5*floats.Dot(s.hessian[o*(s.all+1):o*(s.all+1)+s.all], all))
			}
			return value + s.f.lambda*nuclearNorm(so, s.d)
		}
		u := make([]float64, s.size)
		s.coordinates(u, next)
		least, rng := model(u, moved), rand.New(rand.NewPCG(uint64(c), 92))
		for range 200 {
			near, nearMoved := append([]float64(nil), u...), append([]float64(nil), moved...)
			for o := range near {
				near[o] += 0.01 * rng.NormFloat64()
			}
			for o := range nearMoved {
				nearMoved[o] += 0.01 * rng.NormFloat64()
			}
			s.linear.clearFixed(nearMoved)
			if other := model(near, nearMoved); other < least-1e-6*math.Abs(least) {
				t.Errorf("%v: the step ends where the model is %v, near it %v", kernel, least, other)
			}
		}
	}
}

// TestWholeNewton: the refit ends where FISTA and the linear term in turns end, in a few steps; it never raises the objective,
// wherever it is called off; lengths in its coordinates are those of the matrix; and the squared loss and many columns are left to FISTA.
func TestWholeNewton(t *testing.T) {
	for c, loss := range []Loss{BinaryLogistic{}, BinarySquaredHinge{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		kernel := []Kernel{Homogeneous, ANOVA}[c/2]
		objective := func(s *wholeNewton, a, theta []float64) float64 {
			return s.slowSmooth(a, theta) + s.f.lambda*nuclearNorm(a, s.d)
		}
		s, a, theta := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, testWorkers(1))
		u := make([]float64, s.size)
		if s.coordinates(u, a); !near(norm2(u), norm2(a), 1e-12, 0) {
			t.Errorf("length %v of coordinates, %v of the matrix", norm2(u), norm2(a))
		}
		before := objective(s, a, theta)
		steps, ok := s.run(a, theta, 1e-13)
		end := objective(s, a, theta)
		if !ok || steps > newtonSteps/2 || !(end < before) {
			t.Errorf("%s, %v: from %v to %v in %d steps, %t", loss.Name(), kernel, before, end, steps, ok)
		}
		other, b, gamma := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, testWorkers(1))
		for range 60 {
			other.linear.predictTo(other.f.offset, gamma)
			smooth := 0.0
			accelerated(other.f, other.f.workers, &smooth, b, fitLimits{1e-14, fullSpan, 5000})
			other.f.predict(other.f.current, b)
			copy(other.linear.theta, gamma)
			for i := range other.linear.pred {
				other.linear.pred[i] = other.f.current[i] - other.f.offset[i]
			}
			other.linear.minimize(1e-14, 200)
			copy(gamma, other.linear.theta)
		}
		if want := objective(other, b, gamma); !near(end, want, 1e-8, 0) {
			t.Errorf("%s, %v: objective %v, by FISTA and the linear term in turns %v", loss.Name(), kernel, end, want)
		}
		for n := range int64(40) {
			ctx, yield, _ := cancelAt(t, n)
			w := workers{1, yield, ctx.Done()}
			cut, a, theta := wholeCase(t, uint64(10+c), loss, kernel, 0.5, 0.2, testWorkers(1))
			cut.f.workers, cut.linear.workers = w, w
			if cut.run(a, theta, 1e-13); objective(cut, a, theta) > before {
				t.Errorf("called off at %d: objective %v from %v", n, objective(cut, a, theta), before)
			}
		}
	}
	p := interactions(1, Squared{}, 50, 5)
	fit := &correctiveFit{p: p}
	if newWholeNewton(fit, nil) != nil {
		t.Error("the squared loss has linear term and bias eliminated already")
	}
	fit.p = &Problem{X: NewRows(newtonColumns+1, 0, 0), Outputs: 1, Loss: BinaryLogistic{}}
	if newWholeNewton(fit, nil) != nil {
		t.Errorf("%d columns are too many", newtonColumns+1)
	}
}
