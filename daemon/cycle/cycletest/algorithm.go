package cycletest

import "github.com/refitd/refitd/daemon/config"

// By makes another algorithm or degree that of a model.
func By(m *config.Model, name string, degree int) *config.Model {
	m.Choose(name, degree)
	m.Resolve()
	return m
}
