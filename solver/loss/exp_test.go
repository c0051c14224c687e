package loss

import (
	"math"
	"testing"
)

func TestExpNeg(t *testing.T) {
	for i := range 400_000 {
		x := -float64(i) * 1.75e-3
		got, want := expNeg(x), math.Exp(x)
		if err := math.Abs(got-want) / want; err > 1e-15+3e-16*math.Abs(x) {
			t.Fatalf("expNeg(%g) = %g, want %g (relative error %g)", x, got, want, err)
		}
	}
	if expNeg(0) != 1 {
		t.Errorf("expNeg(0) = %v", expNeg(0))
	}
}

func BenchmarkExpNeg(b *testing.B) {
	x, sum := 0.0, 0.0
	for b.Loop() {
		sum += expNeg(x)
		if x -= 0.37; x < -20 {
			x = 0
		}
	}
	if sum == 0 {
		b.Fatal("no sum")
	}
}
