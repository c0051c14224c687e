package dense

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// values returns n numbers. One series in four has values at which arithmetic is special among them.
func values(random *rand.Rand, n int) []float64 {
	special := []float64{
		0,
		math.Copysign(0, -1),
		math.Inf(1),
		math.Inf(-1),
		math.NaN(),
		math.MaxFloat64,
		-math.MaxFloat64,
		5e-324,
		-5e-324,
		1e-200,
		-1e-200,
		709.79,
		-708.5,
		-745,
	}
	vs := make([]float64, n)
	odd := random.IntN(4) == 0
	for i := range vs {
		vs[i] = random.NormFloat64()
		if odd && random.IntN(20) == 0 {
			vs[i] = special[random.IntN(len(special))]
		}
	}
	return vs
}

// ordinary returns n numbers without special values.
func ordinary(random *rand.Rand, n int) []float64 {
	vs := make([]float64, n)
	for i := range vs {
		vs[i] = random.NormFloat64()
	}
	return vs
}

// shape is one problem of MulAdd and DotAdd: a has k columns of which rows lo … lo+n−1 are taken.
type shape struct {
	k, m, n, lo, stride int
	a                   [][]float64
	tile, small         []float64 // (m−1)·stride+n and some more; k×m and some more
}

func newShape(random *rand.Rand, k, m, n int, series func(*rand.Rand, int) []float64) shape {
	s := shape{k: k, m: m, n: n, lo: random.IntN(20), stride: n + random.IntN(5)}
	s.a = make([][]float64, k)
	for r := range s.a {
		s.a[r] = series(random, s.lo+n+random.IntN(3))
	}
	s.tile, s.small = series(random, m*s.stride+8), series(random, k*m+8)
	return s
}

func randomShape(random *rand.Rand, series func(*rand.Rand, int) []float64) shape {
	return newShape(random, random.IntN(41), 1+random.IntN(27), random.IntN(301), series)
}

// wantBits fails unless both hold the same bits. Any NaN equals any other.
func wantBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i, g := range got {
		if math.Float64bits(g) != math.Float64bits(want[i]) && !(math.IsNaN(g) && math.IsNaN(want[i])) {
			t.Fatalf("%s: element %d of %d is %v (%#x), want %v (%#x)", what, i, len(got), g, math.Float64bits(g),
				want[i], math.Float64bits(want[i]))
		}
	}
}

// wantNear fails unless each element is within 1e−13 of its magnitude: the sum of the absolute terms.
func wantNear(t *testing.T, what string, got, want, magnitude []float64) {
	t.Helper()
	for i, g := range got {
		if !(math.Abs(g-want[i]) <= 1e-13*magnitude[i]) {
			t.Fatalf("%s: element %d of %d is %v, want %v ± 1e-13·%v", what, i, len(got), g, want[i], magnitude[i])
		}
	}
}

// absolutes returns |x|.
func absolutes(x []float64) []float64 {
	abs := make([]float64, len(x))
	for i, v := range x {
		abs[i] = math.Abs(v)
	}
	return abs
}

// TestAgainstLoops compares every level with loops over the definitions. What lies beyond the outputs must not change.
func TestAgainstLoops(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			s := randomShape(random, ordinary)
			want, magnitude := append([]float64(nil), s.tile...), absolutes(s.tile)
			for c := range s.m {
				for i := range s.n {
					for r := range s.k {
						term := s.a[r][s.lo+i] * s.small[r*s.m+c]
						want[c*s.stride+i] += term
						magnitude[c*s.stride+i] += math.Abs(term)
					}
				}
			}
			got := append([]float64(nil), s.tile...)
			MulAdd(got, s.stride, s.a, s.lo, s.n, s.small, s.m)
			wantNear(t, "MulAdd", got, want, magnitude)

			want, magnitude = append(want[:0], s.small...), absolutes(s.small)
			for c := range s.m {
				for r := range s.k {
					for i := range s.n {
						term := s.a[r][s.lo+i] * s.tile[c*s.stride+i]
						want[r*s.m+c] += term
						magnitude[r*s.m+c] += math.Abs(term)
					}
				}
			}
			got = append(got[:0], s.small...)
			DotAdd(got, s.a, s.lo, s.n, s.tile, s.stride, s.m)
			wantNear(t, "DotAdd", got, want, magnitude)

			x, y, f := ordinary(random, s.n), ordinary(random, s.n), random.NormFloat64()
			sum, size := 0.0, 0.0
			want, magnitude = append(want[:0], y...), absolutes(y)
			for i := range x {
				sum += x[i] * y[i]
				size += math.Abs(x[i] * y[i])
				want[i] += f * x[i]
				magnitude[i] += math.Abs(f * x[i])
			}
			wantNear(t, "Dot", []float64{Dot(x, y)}, []float64{sum}, []float64{size})
			AddScaled(y, f, x)
			wantNear(t, "AddScaled", y, want, magnitude)
			z := ordinary(random, s.n)
			for i := range x {
				want[i] = y[i] + f*x[i]*z[i]
				magnitude[i] = math.Abs(y[i]) + math.Abs(f*x[i]*z[i])
			}
			AddScaledProduct(y, f, x, z)
			wantNear(t, "AddScaledProduct", y, want, magnitude)
			for i := range x {
				want[i] = f*y[i] + x[i]
				magnitude[i] = math.Abs(f*y[i]) + math.Abs(x[i])
			}
			ScaleAdd(y, f, x)
			wantNear(t, "ScaleAdd", y, want, magnitude)
		}
	})
}

// TestLanesOfDot checks the order of accumulation that the package comment promises, with terms whose sum depends on
// it.
func TestLanesOfDot(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(2, 1))
		for n := range 70 {
			x, y := ordinary(random, n), ordinary(random, n)
			var s [8]float64
			for i := range x {
				y[i] *= math.Exp(20 * y[i])
				s[i%8] = math.FMA(x[i], y[i], s[i%8])
			}
			wantBits(t, "Dot", []float64{Dot(x, y)},
				[]float64{((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))})
		}
	})
}

// TestShapesThatDoNotFit: every mismatch panics before anything is written.
func TestShapesThatDoNotFit(t *testing.T) {
	long, short := make([]float64, 10), make([]float64, 9)
	columns := [][]float64{long, short}
	for i, call := range []func(){
		func() { MulAdd(long, 5, columns, 0, 10, long, 1) },          // column too short
		func() { MulAdd(long, 5, columns, -1, 5, long, 2) },          // negative row
		func() { MulAdd(long, 5, columns, 0, -1, long, 2) },          // negative number of rows
		func() { MulAdd(long, 5, columns, math.MaxInt, 5, long, 2) }, // overflow
		func() { MulAdd(short, 5, columns, 0, 5, long, 2) },          // dst too short
		func() { MulAdd(long, 4, columns, 0, 5, long, 2) },           // outputs overlap
		func() { MulAdd(long, 1, columns, 0, 1, long, 6) },           // coef too short
		func() { MulAdd(long, 5, columns, 0, 5, long, -1) },          // negative number of outputs
		func() { DotAdd(long[:3], columns, 0, 5, long, 5, 2) },       // dst too short
		func() { DotAdd(long, columns, 0, 5, short, 5, 2) },          // b too short
		func() { DotAdd(long, columns, 5, 5, long, 5, 2) },           // column too short
		func() { Exp(long, short) }, func() { Exp(short, long) },     // lengths differ
		func() { AddScaled(long, 1, short) }, func() { Dot(short, long) }, // lengths differ
		func() { ScaleAdd(long, 1, short) }, func() { AddScaledProduct(long, 1, long, short) },
		func() { AddScaledProduct(long, 1, short, long) },
		// rows of no multiple of 8, too short
		func() { Sweep(long, 10, long[:1]) }, func() { Sweep(make([]float64, 80), 8, short) },
		func() { Sweep(long, 8, short[:2]) }, // too few rows
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call()
		})
	}
}
