package policy

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/ledger"
)

// TestLn: within 2 units in the last place of math.Log, which is itself within one.
func TestLn(t *testing.T) {
	check := func(x float64) {
		t.Helper()
		got, want := ln(x), math.Log(x)
		if ulp := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want); math.Abs(got-want) > 2*ulp {
			t.Errorf("ln(%g) = %g, want %g: off by %g ulp", x, got, want, math.Abs(got-want)/ulp)
		}
	}
	for _, x := range []float64{1, 2, 0.5, math.E, math.Sqrt2, math.Sqrt2 / 2, 1 - 0x1p-53, 1 + 0x1p-52, math.MaxFloat64,
		0x1p-1022, 0x1p-65} {
		check(x)
	}
	// math.Log of a subnormal number is wrong on amd64 (Go 1.26).
	if got, want := ln(math.SmallestNonzeroFloat64), -1074*math.Ln2; math.Abs(got-want) > 2e-13 {
		t.Errorf("ln(2^-1074) = %g, want %g", got, want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		check(math.Exp(rng.NormFloat64() * 20))
		check(0.5 + rng.Float64())
	}
}

// TestKeysAreTheSameEverywhere pins the bits: they were made on amd64 and must not depend on the machine.
func TestKeysAreTheSameEverywhere(t *testing.T) {
	r := Rule{Keyed: true, HalfLife: 86_400_000}
	for _, c := range []struct {
		h      uint64
		weight float64
		time   int64
		want   uint64
	}{
		{0, 1, 0, 0xc04686fc0af622d7},
		{1 << 63, 2.5, 1_700_000_000_000, 0xc0caa3cc358bf1d5},
		{math.MaxUint64, 0.1, -1_000, 0x3fe85fdffd6febcf},
		{0x0123456789abcdef, 7, 1_234_567_890_123, 0xc0c35bdcf1d12e6b},
	} {
		if got := r.Rank(c.h, c.weight, c.time); got != c.want {
			t.Errorf("rank(%#x, %g, %d) = %#x, want %#x", c.h, c.weight, c.time, got, c.want)
		}
	}
}

// TestExponential against -ln(1-u) in 200 bits, at both ends and between.
func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	hs := []uint64{0, 1, 2, 1 << 10, 1<<11 - 1, 1 << 52, 1 << 63, 1<<63 - 1, math.MaxUint64 - 1<<12}
	for range 2_000 {
		hs = append(hs, rng.Uint64()>>rng.IntN(64))
	}
	for _, h := range hs {
		u := new(big.Float).SetPrec(200).SetUint64(h)
		u.Add(u, big.NewFloat(0.5))
		u.SetMantExp(u, -64)
		want := negLog1m(u)
		got := exponential(h)
		tolerance := 1e-15 * want
		if h > 1<<63 { // 1-u is rounded to a multiple of 2⁻⁵³
			tolerance += 0x1p-53 * math.Exp(want)
		}
		if math.Abs(got-want) > tolerance {
			t.Errorf("exponential(%#x) = %.17g, want %.17g", h, got, want)
		}
	}
	for _, h := range []uint64{math.MaxUint64, math.MaxUint64 - 1<<9} {
		if e := exponential(h); !(e > 36 && e < 38) {
			t.Errorf("exponential(%#x) = %g, want it finite", h, e)
		}
	}
}

// negLog1m returns -ln(1-u): the series where it converges fast, else the logarithm of the rounded difference.
func negLog1m(u *big.Float) float64 {
	if v, _ := u.Float64(); v > 0.25 {
		d, _ := new(big.Float).Sub(big.NewFloat(1).SetPrec(200), u).Float64()
		return -math.Log(d)
	}
	sum, power := new(big.Float).SetPrec(200), new(big.Float).SetPrec(200).SetInt64(1)
	for n := int64(1); n < 110; n++ {
		power.Mul(power, u)
		sum.Add(sum, new(big.Float).SetPrec(200).Quo(power, new(big.Float).SetInt64(n)))
	}
	v, _ := sum.Float64()
	return v
}

// TestOrdered: the integers are in the order of the numbers, and lead back to them.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if a == 0 || b == 0 {
			return // the two zeros are equal as numbers only
		}
		if (a < b) != (ordered(a) < ordered(b)) || unordered(ordered(a)) != a {
			t.Fatalf("ordered(%g) = %#x, ordered(%g) = %#x", a, ordered(a), b, ordered(b))
		}
	})
}

// TestRankFallsWithHash: of two events alike but for chance, the one with the smaller hash ranks higher, keyed or not.
func TestRankFallsWithHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Keyed: rapid.Bool().Draw(t, "keyed"), HalfLife: float64(rapid.IntRange(0, 1e9).Draw(t, "half life"))}
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		w, at := rapid.Float64Range(1e-300, 1e300).Draw(t, "weight"), rapid.Int64Range(-1<<42, 1<<42).Draw(t, "time")
		if a < b && r.Rank(a, w, at) < r.Rank(b, w, at) {
			t.Fatalf("rank(%d) < rank(%d)", a, b)
		}
	})
}

// TestRoles: the shares are those asked for, and an entity is on one side whole.
func TestRoles(t *testing.T) {
	const n = 100_000
	d := NewDrawer(7, 0.1)
	var counts [ledger.NumRoles]float64
	for offset := range int64(n) {
		sum := d.ByOffset("ratings", 0, 1, offset)
		counts[d.Role(&sum)]++
	}
	for role, want := range []float64{0.9 * n, 0.05 * n, 0.05 * n} {
		if sd := math.Sqrt(want); math.Abs(counts[role]-want) > 4*sd {
			t.Errorf("%s: %g of %d events, want about %g", ledger.Role(role), counts[role], n, want)
		}
	}
}
