package scorer

// limit returns the largest magnitude of an output, 0 for none.
func (m *Model) limit() float64 {
	if l := m.manifest.OutputLimit; l != nil {
		return float64(*l)
	}
	return 0
}
