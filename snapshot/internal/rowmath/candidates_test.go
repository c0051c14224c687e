package rowmath

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDotsAgainstOneByOne: rows four at a time and alone are what they are by the definition, the same to the bit
// wherever they stand.
func TestDotsAgainstOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	normal := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		return values
	}
	for k := range 12 {
		for n := range 14 {
			stride := k + rng.IntN(3)
			rows, w, v := normal(n*stride+k), normal(k), normal(k)
			got, squares, alone := make([]float64, n), make([]float64, n), make([]float64, 1)
			Dots(got, rows, stride, w)
			SquareDots(squares, rows, stride, w, v)
			for i := range n {
				row, want, wantSquares := rows[i*stride:], 0.0, 0.0
				for r := range k {
					want += row[r] * w[r]
					wantSquares += row[r] * (w[r] + row[r]*v[r])
				}
				if math.Abs(got[i]-want) > 1e-14*(1+math.Abs(want)) ||
					math.Abs(squares[i]-wantSquares) > 1e-13*(1+math.Abs(wantSquares)) {
					t.Fatalf("k = %d, row %d of %d: %g and %g, want %g and %g", k, i, n, got[i], squares[i], want,
						wantSquares)
				}
				if Dots(alone, row, stride, w); alone[0] != got[i] {
					t.Fatalf("k = %d, row %d of %d: %g, alone %g", k, i, n, got[i], alone[0])
				}
				if SquareDots(alone, row, stride, w, v); alone[0] != squares[i] {
					t.Fatalf("k = %d, row %d of %d: %g with squares, alone %g", k, i, n, squares[i], alone[0])
				}
			}
		}
	}
}
