package cycletest

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
)

func ChoicesModel(t *testing.T) *config.Model {
	t.Helper()
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "choices", []string{"choices"}
	m.Schema = config.Schema{Task: config.Implicit, Time: "ts", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Train.MaxBasis = 4
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return &m
}
