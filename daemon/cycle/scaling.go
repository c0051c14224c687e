package cycle

import "math"

// scaling standardises dense inputs by their running mean and deviation: an input is scaled by what came before it.
type scaling struct {
	n     []float64 // per input: inputs that a refit adds start anew
	mean  []float64
	m2    []float64
	value []float64 // the last raw inputs, for learn
}

// leastVariance keeps inputs that have hardly varied yet from being blown up.
const leastVariance = 1e-4

func (s *scaling) reset(inputs int) {
	s.n, s.mean, s.m2, s.value = make([]float64, inputs), make([]float64, inputs), make([]float64, inputs), make([]float64, inputs)
}

// carry takes over the first inputs of another scaling.
func (s *scaling) carry(from *scaling, inputs int) {
	copy(s.n[:inputs], from.n)
	copy(s.mean[:inputs], from.mean)
	copy(s.m2[:inputs], from.m2)
}

// of returns the mean and deviation of an input. Before two values there is no deviation to speak of: 0 and 1.
func (s *scaling) of(i int) (mean, deviation float64) {
	if s.n[i] < 2 {
		return s.mean[i], 1
	}
	return s.mean[i], math.Sqrt(max(s.m2[i]/s.n[i], leastVariance))
}

// standardise scales the inputs in place and remembers them raw.
func (s *scaling) standardise(inputs []float64) {
	copy(s.value, inputs)
	for i := range inputs {
		mean, deviation := s.of(i)
		inputs[i] = (inputs[i] - mean) / deviation
	}
}

// learn adds the inputs that standardise saw last (Welford 1962).
func (s *scaling) learn() {
	for i, v := range s.value {
		s.n[i]++
		d := v - s.mean[i]
		s.mean[i] += d / s.n[i]
		s.m2[i] += d * (v - s.mean[i])
	}
}

// labelScale is the running variance of a numeric label.
type labelScale struct{ n, mean, m2 float64 }

// learn adds a label and returns the variance so far, at least a tiny positive number.
func (l *labelScale) learn(v float64) float64 {
	l.n++
	d := v - l.mean
	l.mean += d / l.n
	l.m2 += d * (v - l.mean)
	return max(l.m2/l.n, 1e-12)
}
