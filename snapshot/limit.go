package snapshot

import "math"

// Limit clips outputs to a magnitude, as readers do with Manifest.OutputLimit. A limit that is not positive is none.
// NaN and infinities stay as they are:
// an event that has them is refused.
func Limit(outputs []float64, limit float64) {
	if !(limit > 0) {
		return
	}
	for o, v := range outputs {
		if math.Abs(v) > limit && !math.IsInf(v, 0) {
			outputs[o] = math.Copysign(limit, v)
		}
	}
}

// limit returns the largest magnitude of an output, 0 for none.
func (m *Model) limit() float64 {
	if l := m.manifest.OutputLimit; l != nil {
		return float64(*l)
	}
	return 0
}
