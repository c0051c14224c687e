package solvertest

import "math"

func Near(got, want, rtol, atol float64) bool { return math.Abs(got-want) <= atol+rtol*math.Abs(want) }
