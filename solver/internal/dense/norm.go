package dense

import "math"

func Norm1(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Abs(x)
	}
	return sum
}

// Norm2 rescales only when the plain sum of squares leaves the safe range.
func Norm2(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	if sum > 1e-200 && sum < 1e200 {
		return math.Sqrt(sum)
	}
	top := NormInf(v)
	if top == 0 {
		return 0
	}
	sum = 0
	for _, x := range v {
		sum += (x / top) * (x / top)
	}
	return top * math.Sqrt(sum)
}

func NormInf(v []float64) float64 {
	top := 0.0
	for _, x := range v {
		top = max(top, math.Abs(x))
	}
	return top
}
