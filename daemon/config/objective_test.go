package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestObjectives: every task has a default loss, every loss is found by its name and is in the comment of the defaults,
// and no other is.
func TestObjectives(t *testing.T) {
	defaults, err := os.ReadFile("defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(string(defaults), "      loss: auto")
	comment, _, _ = strings.Cut(comment, "\n")
	for _, name := range Losses() {
		if !strings.Contains(comment, name) {
			t.Errorf("defaults.yaml: %q does not name %s", strings.TrimSpace(comment), name)
		}
	}
	for _, task := range event.Tasks {
		m := DefaultModel()
		m.Schema.Task = string(task)
		m.Resolve()
		losses := Losses(task)
		if len(losses) == 0 || m.Train.Loss != losses[0] {
			t.Errorf("%s: loss %s by default, of %v", task, m.Train.Loss, losses)
		}
		for _, loss := range losses {
			m.Train.Loss = loss
			of := slices.IndexFunc(algorithms,
				func(a *algorithm) bool { return slices.Contains(a.lossesOf(task), loss) })
			if of < 0 {
				t.Errorf("%s by %s: no algorithm minimises it", task, loss)
				continue
			}
			m.Train.Algorithm = algorithms[of].name
			if o, err := m.Objective(); err != nil || o.Task != task || o.Name() != loss || o.Link == "" ||
				o.Likelihood == 0 {
				t.Errorf("%s by %s: %+v (%v)", task, loss, o, err)
			}
		}
		m.Train.Loss = "hinge"
		if _, err := m.Objective(); err == nil {
			t.Errorf("%s by hinge: no error", task)
		}
	}
}
