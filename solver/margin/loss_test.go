package margin

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawLoss draws a loss for m classes.
func drawLoss(t *rapid.T, m int, envelopes ...float64) Loss {
	l := Loss{Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"), K: rapid.IntRange(1, 6).Draw(t, "K")}
	if len(envelopes) > 0 {
		l.Moreau = rapid.SampledFrom(envelopes).Draw(t, "moreau")
	}
	switch l.Kind {
	case Structured:
		pace := rapid.Float64Range(0, 3).Draw(t, "cost")
		for y := range m {
			row := make([]float64, m)
			for c := range row {
				row[c] = 1.5 + 1.5*math.Sin(pace*float64(y*m+c))
			}
			row[y] = 0
			l.Cost = append(l.Cost, row)
		}
	case WeightedTopK, WeightedUsunier:
		if rapid.Bool().Draw(t, "own weights") {
			l.Weights = rapid.SliceOfN(rapid.Float64Range(0, 2), 1, m+1).Draw(t, "weights")
			l.Weights[0] += 0.1
			slices.Sort(l.Weights)
			slices.Reverse(l.Weights)
		}
	}
	if err := l.Validate(m); err != nil {
		t.Fatal(err)
	}
	return l
}

func drawScores(t *rapid.T, m int) []float64 {
	values := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{-1, 0, 1, 2, 1e-9, 40, -700, 1e6}))
	return rapid.SliceOfN(values, m, m).Draw(t, "scores")
}

// plainWeights returns ρ of a loss as the paper has it, with m numbers.
func plainWeights(l Loss, m int) []float64 {
	rho := make([]float64, m)
	switch l.Kind {
	case MaxHinge, Structured:
		rho[0] = 1
	case TopK, Usunier:
		k := min(l.K, m-1)
		for j := range k {
			rho[j] = 1 / float64(k)
		}
	default:
		copy(rho, l.Weights)
		if l.Weights == nil {
			for j := range rho {
				rho[j] = math.Max(0, float64(5-j)) / 15
			}
		}
	}
	rho[m-1] = 0
	return rho
}

// plainValue is the loss by equations (2.2) and (2.4) to (2.8).
func plainValue(l Loss, o []float64, y int) float64 {
	rho := plainWeights(l, len(o))
	var margins []float64
	for c := range o {
		margins = append(margins, plainCost(l, y, c)+o[c]-o[y])
	}
	slices.Sort(margins)
	slices.Reverse(margins)
	sum := 0.0
	for j, x := range margins {
		if l.Kind == Usunier || l.Kind == WeightedUsunier {
			x = math.Max(x, 0)
		}
		sum += rho[j] * x
	}
	return math.Max(sum, 0)
}

func plainCost(l Loss, y, c int) float64 {
	switch {
	case c == y:
		return 0
	case l.Kind == Structured:
		return l.Cost[y][c]
	}
	return 1
}

// vertices returns those of −dom Φ* and points between: all orders of ρ and, where each rival counts alone, all of
// them cut off after some, as v.
func vertices(l Loss, m, y int) (out [][]float64) {
	rho := plainWeights(l, m)
	cuts := []int{0, m}
	if l.Kind != TopK && l.Kind != WeightedTopK {
		cuts = nil
		for cut := range m + 1 {
			cuts = append(cuts, cut)
		}
	}
	order := make([]int, m)
	for c := range order {
		order[c] = c
	}
	var permute func(k int)
	permute = func(k int) {
		if k == m {
			for _, cut := range cuts {
				v := make([]float64, m)
				for j, c := range order[:cut] {
					v[c] += rho[j]
					v[y] -= rho[j]
				}
				out = append(out, v)
			}
			return
		}
		for j := k; j < m; j++ {
			order[k], order[j] = order[j], order[k]
			permute(k + 1)
			order[k], order[j] = order[j], order[k]
		}
	}
	permute(0)
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// TestValue compares losses with their equations and subgradients with the subgradient inequality at other scores.
func TestValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]int{2, 3, 4, 5, 7, 50}).Draw(t, "m")
		l, o := drawLoss(t, m), drawScores(t, m)
		y := rapid.IntRange(0, m-1).Draw(t, "y")
		target, grad := make([]float64, m), make([]float64, m)
		target[y] = 1
		value := l.Eval(grad, o, target)
		if want := plainValue(l, o, y); !near(value, want, 1e-12, 1e-12+1e-15*slices.Max(o)*l.rule(m).total) {
			t.Fatalf("value %v, want %v", value, want)
		}
		if again := l.Eval(nil, o, target); again != value {
			t.Fatalf("value %v without gradient, %v with", again, value)
		}
		other := drawScores(t, m)
		below := value
		for c := range o {
			below += grad[c] * (other[c] - o[c])
		}
		if at := l.Eval(nil, other, target); at < below-1e-9*(1+math.Abs(below)+math.Abs(at)+1e6*l.rule(m).total) {
			t.Fatalf("%v at other scores, below the tangent %v", at, below)
		}
		same := append([]float64(nil), o...)
		l.Eval(same, same, target)
		if !slices.Equal(same, grad) {
			t.Fatalf("gradient in place %v, in separate memory %v", same, grad)
		}
	})
}

// TestEnvelope compares the envelope's gradient with all vertices of the polytope: it is one of their mixtures, and no
// vertex is better. The value has it as its gradient, lies below the loss by at most γR², and its gradient changes at
// most as Curvature says.
func TestEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(2, 5).Draw(t, "m")
		l, o := drawLoss(t, m, 1e-4, 0.01, 0.3, 1, 20), drawScores(t, m)
		y := rapid.IntRange(0, m-1).Draw(t, "y")
		target, v := make([]float64, m), make([]float64, m)
		target[y] = 1
		value := l.Eval(v, o, target)
		size := 1.0
		slope := make([]float64, m) // of what the envelope maximises, at v
		for c := range o {
			slope[c] = o[c] + plainCost(l, y, c) - l.Moreau*v[c]
			size = math.Max(size, 2*math.Abs(o[c]))
		}
		best, direction := math.Inf(-1), rapid.SliceOfN(rapid.Float64Range(-1, 1), m, m).Draw(t, "direction")
		support := math.Inf(-1)
		for _, vertex := range vertices(l, m, y) {
			best, support = math.Max(best, dot(vertex, slope)), math.Max(support, dot(vertex, direction))
		}
		if got := dot(v, slope); got < best-1e-9*size {
			t.Fatalf("a vertex is better by %v", best-got)
		}
		if got := dot(v, direction); got > support+1e-9 {
			t.Fatalf("%v is outside the polytope by %v", v, got-support)
		}
		sharp, total := plainValue(l, o, y), l.rule(m).total
		if value > sharp+1e-9*size || value < sharp-l.Moreau*total*total-1e-9*size {
			t.Fatalf("envelope %v of a loss of %v", value, sharp)
		}
		const h = 1e-6
		other, grad := append([]float64(nil), o...), make([]float64, m)
		for c := range o {
			other[c] += h * direction[c]
		}
		at := l.Eval(grad, other, target)
		if tol := h*h*l.Curvature(m)*float64(m) + 1e-9*h + 1e-14*size*size; math.Abs(
			at-value-h*dot(v, direction)) > tol {
			t.Fatalf("the value changes by %v, the gradient says %v", at-value, h*dot(v, direction))
		}
		for c := range grad {
			grad[c] -= v[c]
		}
		if change := math.Sqrt(dot(grad, grad)); change > l.Curvature(
			m)*(h*math.Sqrt(dot(direction, direction))+1e-14*size)+1e-9 {
			t.Fatalf("the gradient changes by %v", change)
		}
	})
}

// TestProject checks that projecting dual variables leaves feasible ones as they are and makes feasible ones of any.
func TestProject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(2, 5).Draw(t, "m")
		l := drawLoss(t, m)
		y := rapid.IntRange(0, m-1).Draw(t, "y")
		r, s := l.rule(m), newScratch(m)
		first, second := make([]float64, m), make([]float64, m)
		r.project(first, drawScores(t, m), y, s)
		support := math.Inf(-1)
		direction := rapid.SliceOfN(rapid.Float64Range(-1, 1), m, m).Draw(t, "direction")
		for _, vertex := range vertices(l, m, y) {
			support = math.Max(support, dot(vertex, direction))
		}
		if got := -dot(first, direction); got > support+1e-8 {
			t.Fatalf("%v is outside by %v", first, got-support)
		}
		r.project(second, first, y, s)
		for c := range first {
			if !near(second[c], first[c], 0, 1e-8) {
				t.Fatalf("%v projected again: %v", first, second)
			}
		}
	})
}

// TestProjectOnce projects dual variables on the boundary of the polytope, where the search for their size ends as it
// begins.
func TestProjectOnce(t *testing.T) {
	r, s := Loss{Kind: WeightedTopK}.rule(5), newScratch(5)
	first, second := make([]float64, 5), make([]float64, 5)
	r.project(first, []float64{3, 1.9375, 0.0625, 0.0625, 2.220446049250313e-16}, 0, s)
	r.project(second, first, 0, s)
	for c := range first {
		if !near(second[c], first[c], 0, 1e-12) || first[0] < 0.9 {
			t.Fatalf("%v projected again: %v", first, second)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		loss Loss
		m    int
		word string
	}{
		{Loss{}, 3, `no loss ""`},
		{Loss{Kind: MaxHinge}, 1, "at least two"},
		{Loss{Kind: TopK}, 3, "K is at least 1"},
		{Loss{Kind: Usunier, K: -1}, 3, "K is at least 1"},
		{Loss{Kind: MaxHinge, Moreau: -1}, 3, "Moreau is -1"},
		{Loss{Kind: MaxHinge, Moreau: math.NaN()}, 3, "Moreau is NaN"},
		{Loss{Kind: Structured}, 3, "no cost matrix"},
		{Loss{Kind: Structured, Cost: [][]float64{{0, 1}, {1, 0}}}, 3, "2 rows for 3 classes"},
		{Loss{Kind: Structured, Cost: [][]float64{{0, 1}, {1}}}, 2, "row 2 has 1 columns"},
		{Loss{Kind: Structured, Cost: [][]float64{{0, 1}, {1, 2}}}, 2, "row 2, column 2: 2 on the diagonal"},
		{Loss{Kind: Structured, Cost: [][]float64{{0, -1}, {1, 0}}}, 2, "row 1, column 2: a cost of -1"},
		{Loss{Kind: WeightedTopK, Weights: []float64{1, 2}}, 3, "weight 2 is 2"},
		{Loss{Kind: WeightedUsunier, Weights: []float64{0, 0}}, 3, "first weight is not positive"},
		{Loss{Kind: WeightedUsunier, Weights: []float64{}}, 3, "first weight is not positive"},
		{Loss{Kind: WeightedUsunier, Weights: []float64{math.NaN()}}, 3, "weight 1 is NaN"},
	} {
		if err := c.loss.Validate(c.m); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%+v for %d classes: %v, want %q", c.loss, c.m, err, c.word)
		}
	}
	for _, kind := range Kinds() {
		l := Loss{Kind: kind, K: 9, Cost: [][]float64{{0, 1}, {2, 0}}}
		if err := l.Validate(2); err != nil {
			t.Error(err)
		}
		if l.Name() != string(kind) || !math.IsInf(l.Curvature(2), 1) {
			t.Errorf("%s: name %s, curvature %v", kind, l.Name(), l.Curvature(2))
		}
		l.Cost = nil
		if value := l.Eval(nil, []float64{5}, []float64{1}); value != 0 {
			t.Errorf("%s of the only class: %v", kind, value)
		}
	}
}

// TestExchange finds the three largest of each row of some columns.
func TestExchange(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	const n = 70
	columns, want := make([][]float64, 5), make([][]float64, n)
	for c := range columns {
		columns[c] = make([]float64, n)
		for i := range columns[c] {
			columns[c][i] = random.NormFloat64()
			want[i] = append(want[i], columns[c][i])
		}
	}
	for j := range 3 {
		for c := j + 1; c < len(columns); c++ {
			exchange(columns[j], columns[c])
		}
	}
	for i := range want {
		slices.Sort(want[i])
		for j := range 3 {
			if columns[j][i] != want[i][4-j] {
				t.Fatalf("row %d: number %d is %v, want %v", i, j, columns[j][i], want[i][4-j])
			}
		}
	}
	zero, none := math.Copysign(0, -1), math.NaN()
	x, y := []float64{0, zero, none, 2, none}, []float64{zero, 0, 1, none, none}
	before := slices.Clone(y)
	exchange(x, y)
	for i := range x {
		if bits := math.Float64bits(before[i]); math.Float64bits(x[i]) != bits || math.Float64bits(y[i]) != bits {
			t.Errorf("zeros and NaN: %v and %v, want %v", x[i], y[i], before[i])
		}
	}
}
