package mixture

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestStackIsLeastSquares compares a stack with least squares by definition over all events.
func TestStackIsLeastSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const n, k = 400, 3
	s := newStacking(k)
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
		got, ok := s.predict(parts)
		if !ok {
			t.Fatal("no prediction")
		}
		x := make([]float64, k) // of 1, which has no unit, and of parts, by how much they differ from the first
		for i := 1; i < k; i++ {
			if parts[i].Present {
				x[i] = parts[i].Value[0] - parts[0].Value[0]
			}
		}
		x[0] = 1
		if e == n-1 {
			v := parts[0].Value[0]
			for i, w := range leastSquares(t, rows[:len(rows)/stackEvery*stackEvery], misses, s.unit) {
				if i == 0 {
					w *= s.unit
				}
				v += w * x[i]
			}
			if math.Abs(got-v) > 1e-9 {
				t.Errorf("the stack predicts %.12g, least squares %.12g", got, v)
			}
			break
		}
		rows, misses = append(rows, x), append(misses, y-parts[0].Value[0])
		s.learn(y)
	}
}

// leastSquares solves for the weights that rows give, measured in a unit.
func leastSquares(t *testing.T, rows [][]float64, misses []float64, unit float64) []float64 {
	t.Helper()
	last, k := len(rows), len(rows[0])
	a := make([][]float64, k)
	for i := range a {
		a[i] = make([]float64, k+1)
		a[i][i] = stackRidge
	}
	for e := range last {
		w := math.Pow(stackFade, float64(last-1-e))
		x := append([]float64(nil), rows[e]...)
		for i := range x {
			if i > 0 {
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

// TestStackOutlivesOutliers: one label of 10⁹ does not move the predictions for the rest by much.
func TestStackOutlivesOutliers(t *testing.T) {
	run := func(outlier bool) (total float64) {
		r := rand.New(rand.NewPCG(8, 2))
		s := newStacking(2)
		parts := []part{{Value: []float64{0}, Present: true}, {Value: []float64{0}, Present: true}}
		for e := range 3000 {
			y := r.NormFloat64()
			parts[0].Value[0], parts[1].Value[0] = y+0.5*r.NormFloat64(), y+0.5*r.NormFloat64()
			v, _ := s.predict(parts)
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
