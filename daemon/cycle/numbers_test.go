package cycle

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

// numericModel is a model of d numbers and a label that is one of some classes.
func numericModel(d, classes int) *config.Model {
	m := config.DefaultModel()
	m.Name = "measured"
	m.Schema = config.Schema{Task: "multiclass", Label: "class", TimeUnit: "ms"}
	for j := range d {
		m.Schema.Numeric = append(m.Schema.Numeric, fmt.Sprint("x", j))
	}
	for c := range classes {
		m.Schema.Classes = append(m.Schema.Classes, fmt.Sprint("c", c))
	}
	m.Train.MaxBasis = 4
	m.Evaluate.Window = 500
	m.Resolve()
	return &m
}

// TestLocationOutlivesOutliers: one value in fifty is a million times too large, among the first ones, too; location and scale stay those of the others
// within a tenth of the scale. A scale that changes for good is followed.
func TestLocationOutlivesOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, from := range []int{0, 5, 500} {
		var l location
		outliers, found := 0, 0
		for i := range 20_000 {
			v := 1000 + 3*r.NormFloat64()
			if i >= from && i%50 == from%50 {
				v *= 1e6
				if i > 2*firstValues {
					outliers++
					if l.beyond(v) {
						found++
					}
				}
			}
			l.add(v)
			if mean, scale := l.of(); i > 200 && (math.Abs(mean-1000) > 1.5 || scale < 2 || scale > 6) {
				t.Fatalf("outliers from %d, value %d: location %g, scale %g; without outliers 1000 and 3", from, i, mean, scale)
			}
		}
		if found != outliers || outliers == 0 {
			t.Errorf("%d of %d outliers found", found, outliers)
		}
		for range 20_000 {
			l.add(-5000 + 100*r.NormFloat64())
		}
		if mean, scale := l.of(); math.Abs(mean+5000) > 500 || scale < 50 || scale > 2000 {
			t.Errorf("after a change to -5000 and 100: location %g, scale %g", mean, scale)
		}
	}
}

// TestLocationIsMeanAndDeviation: of values without outliers, and of constants, indicators and extreme magnitudes every standardised value is finite.
func TestLocationIsMeanAndDeviation(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	var l location
	for range 10_000 {
		l.add(7 + 0.01*r.NormFloat64())
	}
	if mean, scale := l.of(); math.Abs(mean-7) > 1e-3 || math.Abs(scale-0.01) > 1e-3 {
		t.Errorf("location %g, scale %g", mean, scale)
	}
	for name, draw := range map[string]func() float64{
		"constant":  func() float64 { return 0.1 },
		"zero":      func() float64 { return 0 },
		"indicator": func() float64 { return float64(r.IntN(50) / 49) },
		"rare":      func() float64 { return float64(r.IntN(20)/19) * math.Exp(r.NormFloat64()) },
		"large":     func() float64 { return 1e15 * r.NormFloat64() },
		"small":     func() float64 { return 3e-308 * r.Float64() },
	} {
		var l location
		for i := range 2000 {
			v := draw()
			z := l.standardise(v, numberReach)
			if math.IsNaN(z) || math.Abs(z) > numberReach || name == "constant" && i > 0 && math.Abs(z) > 1e-6 {
				t.Fatalf("%s: %g is %g in units", name, v, z)
			}
			l.add(v)
		}
		if low, high := (&numberScale{label: &l, limited: true}).labels(); name == "rare" && (low > -5 || high < 10 || high > 100) {
			t.Errorf("rare amounts are limited to %g and %g", low, high)
		}
		if name == "indicator" && l.standardise(1, numberReach)-l.standardise(0, numberReach) < 1 {
			t.Errorf("an indicator's ends are %g apart", l.standardise(1, numberReach)-l.standardise(0, numberReach))
		}
	}
}

// TestResidualsAreGradients: residuals are minus the gradient of the loss, by differences, and no curvature of a class is above the largest there is.
func TestResidualsAreGradients(t *testing.T) {
	for _, link := range []string{snapshot.Softmax, snapshot.Logistic, snapshot.Identity} {
		r := residuals{link: link, noise: fading{rate: noiseFade}}
		outputs, targets, got, scratch := []float64{0.3, -1.2, 2}, []float64{-1, 1, -1}, make([]float64, 3), make([]float64, 3)
		if link == snapshot.Softmax {
			targets = []float64{0, 1, 0}
		}
		if link == snapshot.Identity {
			outputs, targets, got, scratch = outputs[:1], targets[:1], got[:1], scratch[:1]
			r.add(0.5)
		}
		_, curvature := r.of(got, outputs, targets)
		if !(curvature > 0) || link != snapshot.Identity && curvature > 0.5 {
			t.Errorf("%s: curvature %g", link, curvature)
		}
		for c := range outputs {
			const h = 1e-5
			ends := [2]float64{}
			for i, d := range []float64{-h, h} {
				moved := slices.Clone(outputs)
				moved[c] += d
				ends[i], _ = r.of(scratch, moved, targets)
			}
			want := -(ends[1] - ends[0]) / (2 * h)
			if link == snapshot.Identity {
				want *= r.variance()
			}
			if math.Abs(want-got[c]) > 1e-6 {
				t.Errorf("%s, output %d: residual %g, by differences %g", link, c, got[c], want)
			}
		}
	}
}

// TestNewtonIsLeastSquares: without change, and with a noise that is known, Newton's weights for a number are those of ridge regression on the same
// inputs.
func TestNewtonIsLeastSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	target := gaussianTarget(targetOf(t, "ordinal"))
	n := newNumberScale(2, target)
	n.label.n, n.label.variance = firstValues, 1 // as it is
	l := newNewtonLearner(n, target)
	inputs := len(l.inputs)
	normal, right := mat.NewSymDense(inputs, nil), mat.NewVecDense(inputs, nil)
	for i := range inputs {
		normal.SetSym(i, i, 1/newtonPrior)
	}
	for range 60 {
		n.z[0], n.z[1] = r.NormFloat64(), r.NormFloat64()
		y := 0.3*n.z[0] - 0.2*n.z[1]
		l.judge.noise = fading{rate: noiseFade} // of variance 1
		l.gather(nil)
		x := mat.NewVecDense(inputs, slices.Clone(l.inputs))
		normal.SymRankOne(normal, 1, x)
		right.AddScaledVec(right, y, x)
		before := slices.Clone(l.covariance)
		l.learn(nil, []float64{y}, 1)
		for i := range inputs {
			at, taken := i*inputs+i, l.pending*l.last[i]*l.last[i]
			if grown := l.covariance[at] - taken - before[at]; grown > newtonWalk+1e-12 {
				t.Fatalf("the variance of a weight grew by %g", grown)
			}
			l.covariance[at] = min(l.covariance[at], newtonPrior+taken)
		}
	}
	var want mat.VecDense
	if err := want.SolveVec(normal, right); err != nil {
		t.Fatal(err)
	}
	for i, w := range l.weights {
		if math.Abs(w-want.AtVec(i)) > 0.01 {
			t.Errorf("weight %d: %.4f, least squares %.4f", i, w, want.AtVec(i))
		}
	}
}

// TestNeighboursByDefinition compares the nearest neighbours of either window with a sort of all of them by distance, around the end of the ring, too.
func TestNeighboursByDefinition(t *testing.T) {
	m := numericModel(5, 3)
	m.Schema.Categorical = []string{"kind"}
	target, err := NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 9))
	n := newNumberScale(5, target)
	l := newNeighboursLearner(n, target, 1)
	l.window = 2100 // shorter than its slices
	type row struct {
		z     []float64
		name  string
		class int
	}
	var rows []row
	for e := range 2*l.window + 300 {
		for f := range n.z {
			n.z[f] = r.NormFloat64()
		}
		ev := &event.Event{Categorical: []string{fmt.Sprint("k", r.IntN(3))}}
		l.gather(ev)
		if e%400 == 399 {
			for w, size := range []int{shortWindow, l.window} {
				last := rows[max(0, len(rows)-size):]
				order := make([]float64, len(last))
				for i, row := range last {
					for f, z := range row.z {
						order[i] += squared(z - n.z[f])
					}
					if row.name != ev.Categorical[0] {
						order[i] += nameDistance
					}
				}
				by := make([]int, len(last))
				for i := range by {
					by[i] = i
				}
				slices.SortFunc(by, func(a, b int) int { return cmp.Compare(order[a], order[b]) })
				want, total := make([]float64, 3), neighbourPrior
				for c := range want {
					want[c] = neighbourPrior * l.rates[c]
				}
				for _, i := range by[:neighbourCount] {
					weight := 1 / (neighbourNear + order[i]/order[by[neighbourCount-1]])
					want[last[i].class] += weight
					total += weight
				}
				for c := range want {
					if math.Abs(want[c]/total-l.each[w][c]) > 1e-4 {
						t.Fatalf("event %d, window %d, class %d: %.6f, by definition %.6f", e, size, c, l.each[w][c], want[c]/total)
					}
				}
			}
		}
		class := r.IntN(3)
		targets := make([]float64, 3)
		targets[class] = 1
		l.learn(ev, targets, 1)
		rows = append(rows, row{slices.Clone(n.z), ev.Categorical[0], class})
	}
}

// TestAdagradByDefinition compares one expert with steps by definition, of a number, of a product and of a name.
func TestAdagradByDefinition(t *testing.T) {
	target := targetOf(t, "binary")
	n := newNumberScale(2, target)
	l := newAdagradLearner(n, &event.Schema{Categorical: []string{"user"}}, target, 100, false)

	x := &l.each[5+2]
	if x.step != 0.1 || x.fade != 0.999 {
		t.Fatalf("expert of step %g and fade %g", x.step, x.fade)
	}
	r := rand.New(rand.NewPCG(1, 7))
	bias, weights, squares := 0.0, make([]float64, 6), make([]float64, 6) // two numbers, three products, the name "k0"
	for i := range 300 {
		n.z[0], n.z[1] = r.NormFloat64(), r.NormFloat64()
		a, b := n.z[0], n.z[1]
		ev := &event.Event{Categorical: []string{fmt.Sprint("k", i%2)}}
		in := []float64{a, b, (a*a - 1) / math.Sqrt2, a * b, (b*b - 1) / math.Sqrt2, float64(1 - i%2)}
		l.gather(ev)
		other := 0.0
		if i%2 == 1 && i > 1 {
			other = l.row(l.slots.find(0, "k1"), 7)[1]
		}
		out := bias + other
		for j, v := range in {
			out += weights[j] * v
		}
		if got := l.outputsOf[7][0]; math.Abs(got-out) > 1e-9 {
			t.Fatalf("event %d: output %.12g, by definition %.12g", i, got, out)
		}
		y := -1.0
		if a*b+0.5*in[5] > 0 {
			y = 1
		}
		l.learn(ev, []float64{y}, 1)
		residual := (y+1)/2 - 1/(1+math.Exp(-out))
		bias += x.biasStep * residual
		for j, v := range in {
			if j == 5 && v == 0 { // squares of a name fade when it comes
				continue
			}
			squares[j] = 0.999*squares[j] + squared(residual*v)
			weights[j] += 0.1 * residual * v / math.Sqrt(squares[j]+leastSquare)
		}
	}
}

// TestPoolSlopes compares the slope of the pool's log likelihood in the weights with differences, and its curvature for classes of their own with
// differences of slopes.
func TestPoolSlopes(t *testing.T) {
	for _, link := range []string{snapshot.Softmax, snapshot.Logistic} {
		parts := []part{{present: true, value: []float64{0.2, 0.5, 0.3}}, {present: true, value: []float64{0.6, 0.1, 0.3}}, {value: []float64{0, 0, 0}}}
		targets := []float64{-1, 1, -1}
		p := newPool(len(parts), 3, link)
		p.experts.losses = []float64{0, 1e3, 1e3, 1e3} // the one without a bias
		got := make([]float64, 3)
		slopes := func(weights ...float64) []float64 {
			copy(p.weights, weights)
			if !p.predict(got, parts) {
				t.Fatal("no prediction")
			}
			clear(p.curvature)
			p.derive(targets)
			return slices.Clone(p.slope)
		}
		loss := func() (sum float64) {
			for c, v := range got {
				if targets[c] > 0 {
					sum += math.Log(v)
				} else if link == snapshot.Logistic {
					sum += math.Log1p(-v)
				}
			}
			return sum
		}
		const h = 1e-5
		at := []float64{0.4, 0.3, 0.2}
		slope, curvature := slopes(at...), slices.Clone(p.curvature)
		for i := range at {
			up, down := slices.Clone(at), slices.Clone(at)
			up[i], down[i] = at[i]+h, at[i]-h
			highSlope := slopes(up...)
			high := loss()
			lowSlope := slopes(down...)
			if want := (high - loss()) / (2 * h); math.Abs(want-slope[i]) > 1e-6 {
				t.Errorf("%s: slope %d is %g, by differences %g", link, i, slope[i], want)
			}
			for j := range i + 1 {
				if want := -(highSlope[j] - lowSlope[j]) / (2 * h); math.Abs(want-curvature[i*3+j]) > 1e-5+(1-poolFade)*poolRidge*float64(1-min(i-j, 1)) {
					t.Errorf("%s: curvature %d, %d is %g, by differences %g", link, i, j, curvature[i*3+j], want)
				}
			}
		}
	}
}

// TestNumbersCountFromTheFirstEvent: beside names, whose posterior ignores numbers before there is a champion, the live prediction is far better than
// without them, for numbers and for classes; and one value in 500 that is a million times too large costs a twentieth at most.
func TestNumbersCountFromTheFirstEvent(t *testing.T) {
	for _, task := range []string{"regression", "binary"} {
		run := func(numbers, outliers bool) float64 {
			m := amountsModel(func(m *config.Model) {
				m.Schema.Task, m.Schema.Weight = task, ""
				if !numbers {
					m.Schema.Numeric = nil
				}
			})
			c := newCycle(t, m)
			r := rand.New(rand.NewPCG(12, 3))
			total := 0.0
			for i := range 4000 {
				a, b := r.NormFloat64(), r.NormFloat64()
				user := r.IntN(20)
				ev := event.Event{Weight: 1, Categorical: []string{fmt.Sprint("u", user), "i"}, Label: float64(user%3) + a - b*b + 0.3*r.NormFloat64()}
				if task == "binary" {
					ev.Label = float64(min(1, max(0, int(ev.Label+1))))
				}
				clean := true
				if outliers && i%500 == 7 {
					a, clean = a*1e6, false
				}
				if outliers && task == "regression" && i%500 == 107 {
					ev.Label, clean = ev.Label*1e6, false
				}
				if numbers {
					ev.Numeric = []float64{a, b}
				}
				before := c.progressive.sums.All[live]
				c.Observe(&ev, true, Position{}, nil, nil)
				after := c.progressive.sums.All[live]
				if clean {
					total += after.Square - before.Square + after.Loss - before.Loss
				}
			}
			return total
		}
		with, without, hit := run(true, false), run(false, false), run(true, true)
		t.Logf("%s: %.0f with numbers, %.0f without, %.0f with outliers", task, with, without, hit)
		if !(with < 0.6*without) {
			t.Errorf("%s: loss %.0f with numbers, %.0f without", task, with, without)
		}
		if !(hit < 1.05*with) {
			t.Errorf("%s: loss %.0f beside outliers, %.0f without", task, hit, with)
		}
	}
}
