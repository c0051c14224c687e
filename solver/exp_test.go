package solver

import (
	"math"
	"testing"
)

func BenchmarkExp(b *testing.B) {
	x, sum := 0.0, 0.0
	for b.Loop() {
		sum += math.Exp(x)
		if x -= 0.37; x < -20 {
			x = 0
		}
	}
	if sum == 0 {
		b.Fatal("no sum")
	}
}
