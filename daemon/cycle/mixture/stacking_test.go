package mixture

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestStackIsLeastSquares compares stacks with least squares by definition over all events.
func TestStackIsLeastSquares(t *testing.T) {
	for i, fade := range stackFades {
		stackIsLeastSquares(t, fade, i > 0)
	}
}

func stackIsLeastSquares(t *testing.T, fade float64, byNewness bool) {
	r := rand.New(rand.NewPCG(5, 5))
	const n, k = 400, 3
	s := newStacking(k, fade, byNewness)
	parts := make([]part, k)
	for i := range parts {
		parts[i] = part{Value: []float64{0}, Present: true}
	}
	var rows [][]float64
	var misses []float64
	for e := range n {
		y := 3 + r.NormFloat64()
		for i := range parts {
			parts[i].Value[0] = y + float64(i+1)*0.4*r.NormFloat64() + 0.3
		}
		parts[2].Present = e%7 > 0
		newness := r.Float64()
		got, ok := s.predict(parts, newness)
		if !ok {
			t.Fatal("no prediction")
		}
		x := make([]float64, k) // of 1, which has no unit, and of parts, by how much they differ from the first
		for i := 1; i < k; i++ {
			if parts[i].Present {
				x[i] = parts[i].Value[0] - parts[0].Value[0]
			}
		}
		if byNewness {
			x = append(x, newness, newness*x[1], newness*x[2])
		}
		x[0] = 1
		if e == n-1 {
			v := parts[0].Value[0]
			for i, w := range leastSquares(t, rows[:len(rows)/s.every*s.every], misses, s.unit, fade) {
				if i%k == 0 {
					w *= s.unit
				}
				v += w * x[i]
			}
			if math.Abs(got-v) > 1e-9 {
				t.Errorf("fading by %g the stack predicts %.12g, least squares %.12g", fade, got, v)
			}
			break
		}
		rows, misses = append(rows, x), append(misses, y-parts[0].Value[0])
		s.learn(y)
	}
}

// leastSquares solves for the weights that rows give, which are of three parts, once or twice, measured in a unit.
func leastSquares(t *testing.T, rows [][]float64, misses []float64, unit, fade float64) []float64 {
	t.Helper()
	last, k := len(rows), len(rows[0])
	a := make([][]float64, k)
	for i := range a {
		a[i] = make([]float64, k+1)
		a[i][i] = stackRidge
	}
	for e := range last {
		w := math.Pow(fade, float64(last-1-e))
		x := append([]float64(nil), rows[e]...)
		for i := range x {
			if i%3 > 0 {
				x[i] /= unit
			}
		}
		for i := range a {
			for j := range x {
				a[i][j] += w * x[i] * x[j]
			}
			a[i][k] += w * x[i] * misses[e] / unit
		}
	}
	for i := range a { // Gauss and Jordan
		for j := range a {
			if j == i {
				continue
			}
			f := a[j][i] / a[i][i]
			for c := range a[j] {
				a[j][c] -= f * a[i][c]
			}
		}
	}
	out := make([]float64, k)
	for i := range out {
		out[i] = a[i][k] / a[i][i]
	}
	return out
}

// TestStacksOfTwoFades: where the best weights stay the stack that forgets slowly errs less, where they change the
// other one does.
func TestStacksOfTwoFades(t *testing.T) {
	run := func(changes bool) (errors [2]float64) {
		r := rand.New(rand.NewPCG(12, 2))
		parts := make([]part, 12)
		stacks := [2]*Stacking{}
		for i, fade := range stackFades {
			stacks[i] = newStacking(len(parts), fade, false)
		}
		for e := range 30_000 {
			y, best := r.NormFloat64(), 0
			if changes {
				best = e / 1500 % len(parts)
			}
			for i := range parts {
				noise := 1.0
				if i == best {
					noise = 0.7
				}
				parts[i] = part{Value: []float64{y + noise*r.NormFloat64()}, Present: true}
			}
			for i, s := range stacks {
				v, _ := s.predict(parts, 1)
				errors[i] += cycletest.Squared(v - y)
				s.learn(y)
			}
		}
		return errors
	}
	if e := run(false); !(e[1] < e[0]) {
		t.Errorf("without a change: squared errors %v", e)
	}
	if e := run(true); !(e[0] < e[1]) {
		t.Errorf("with changes: squared errors %v", e)
	}
}

// TestStackOutlivesOutliers: one label of 10⁹ does not move the predictions for the rest by much.
func TestStackOutlivesOutliers(t *testing.T) {
	run := func(outlier bool) (total float64) {
		r := rand.New(rand.NewPCG(8, 2))
		s := newStacking(2, stackFades[0], false)
		parts := []part{{Value: []float64{0}, Present: true}, {Value: []float64{0}, Present: true}}
		for e := range 3000 {
			y := r.NormFloat64()
			parts[0].Value[0], parts[1].Value[0] = y+0.5*r.NormFloat64(), y+0.5*r.NormFloat64()
			v, _ := s.predict(parts, 1)
			if e > 1000 {
				total += cycletest.Squared(v - y)
			}
			if outlier && e == 1000 {
				y = 1e9
			}
			s.learn(y)
		}
		return total
	}
	clean, hit := run(false), run(true)
	if hit > 1.3*clean || math.IsNaN(hit) {
		t.Errorf("squared error %.1f after an outlier, %.1f without", hit, clean)
	}
}
