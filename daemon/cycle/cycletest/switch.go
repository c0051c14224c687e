package cycletest

import "github.com/refitd/refitd/daemon/config"

// SwitchModel is a small binary model of two numbers.
func SwitchModel() *config.Model {
	m := config.DefaultModel()
	m.Name = "switch"
	m.Schema = config.Schema{Task: "binary", Label: "on", TimeUnit: "ms", Numeric: []string{"a", "b"}}
	m.Train.MaxBasis, m.Train.Penalty = 10, "l1l2"
	m.Evaluate.Window = 500
	m.Resolve()
	return &m
}
