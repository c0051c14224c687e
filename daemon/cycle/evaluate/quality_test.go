package evaluate

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestNamesOfBinaryLabels: recalls of a label that is a name are reported by its names.
func TestNamesOfBinaryLabels(t *testing.T) {
	for given, want := range map[[2]string]string{{"", ""}: "[0 1]", {"UP", "DOWN"}: "[DOWN UP]", {"UP",
		""}: "[not UP UP]"} {
		m := config.DefaultModel()
		m.Train.Loss = "binary_logistic"
		m.Schema.Task, m.Schema.Positive, m.Schema.Negative = string(event.Binary), given[0], given[1]
		target, err := encode.NewTarget(&m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(classNames(target)); got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}
