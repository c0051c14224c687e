package modeltest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/config"
)

// Ratings returns a model of ratings from 1 to 5.
func Ratings() *config.Model {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "ratings", []string{"r"}
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	seed := uint64(1)
	m.Sample.Size, m.Sample.Seed, m.Evaluate.Window = 100, &seed, 50
	m.Resolve()
	return &m
}

// Gathers compares the named metrics of a registry with their text form.
func Gathers(t *testing.T, r prometheus.Gatherer, want string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(want) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
