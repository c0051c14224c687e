package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyClasses: classes for whose square there is no memory are refused with what they would take, whichever task
// has them.
func TestManyClasses(t *testing.T) {
	for _, task := range []string{"multiclass", "multilabel"} {
		for n, want := range map[int]string{MaxClasses: "", MaxClasses + 1: "764MiB", 100_000: "76294MiB"} {
			m := DefaultModel()
			m.Name, m.Input.Topics = "many", []string{"many"}
			m.Schema = Schema{Task: task, Label: "y", TimeUnit: "ms", Categorical: []string{"user"}}
			for c := range n {
				m.Schema.Classes = append(m.Schema.Classes, fmt.Sprint("c", c))
			}
			m.Resolve()
			var got []string
			for _, p := range m.Validate() {
				got = append(got, p.Key+" "+p.Message)
			}
			text := strings.Join(got, "\n")
			if (text == "") != (want == "") || !strings.Contains(text, want) ||
				want != "" && !strings.Contains(text, fmt.Sprint(n, " classes")) {
				t.Errorf("%s, %d classes: %q", task, n, text)
			}
		}
	}
}
