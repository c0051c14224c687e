package cycletest

import (
	"fmt"

	"github.com/refitd/refitd/daemon/config"
)

// NumericModel is a model of d numbers and a label that is one of some classes.
func NumericModel(d, classes int) *config.Model {
	m := config.DefaultModel()
	m.Name = "measured"
	m.Schema = config.Schema{Task: "multiclass", Label: "class", TimeUnit: "ms"}
	for j := range d {
		m.Schema.Numeric = append(m.Schema.Numeric, fmt.Sprint("x", j))
	}
	for c := range classes {
		m.Schema.Classes = append(m.Schema.Classes, fmt.Sprint("c", c))
	}
	m.Train.MaxBasis = 4
	m.Evaluate.Window = 500
	m.Resolve()
	return &m
}
