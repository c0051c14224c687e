package foldrow

import "math"

// jaakkola returns tanh(ξ/2)/(2ξ), the curvature of the quadratic bound on the logistic loss (Jaakkola and Jordan
// 2000, eq. 12).
func jaakkola(xi float64) float64 {
	if xi < 1e-4 {
		return 0.25 - xi*xi/48
	}
	e := math.Exp(-xi)
	return (1 - e) / ((1 + e) * 2 * xi)
}

// LogisticQuadratic returns the curvature of the quadratic for a label of ±1, and its slope at the output: of the
// bound (Jaakkola and Jordan 2000), and, of an output that is alone, from there to those of the loss itself as the
// output is from two to four standard deviations on the side of its label.
func LogisticQuadratic(target, output, variance float64, alone bool) (w, slope float64) {
	w = jaakkola(math.Sqrt(output*output + variance))
	slope = 0.5*target - w*output
	if signed := target * output; alone && signed > 0 {
		sure := min(1, max(0, signed/(2*math.Sqrt(variance))-1))
		p := 1 / (1 + math.Exp(signed))
		w += sure * (p*(1-p) - w)
		slope += sure * (target*p - slope)
	}
	return w, slope
}

// leastProbability keeps the curvature of classes that are as good as ruled out above zero.
const leastProbability = 1e-6

// SoftmaxWeight is the curvature of the quadratic for a class of probability p: p, for the class that did occur at
// least jaakkola at its log odds.
func SoftmaxWeight(p, target float64) float64 {
	p = min(max(p, leastProbability), 1-leastProbability)
	if target == 0 {
		return p
	}
	return max(p, jaakkola(math.Abs(math.Log(p/(1-p)))))
}
