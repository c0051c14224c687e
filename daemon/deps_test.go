package daemon_test

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/refitd/refitd/"

// deps returns the packages that pkg imports, directly or, with all, through others.
func deps(t *testing.T, pkg string, all bool) []string {
	t.Helper()
	format := `{{range .Imports}}{{.}}{{"\n"}}{{end}}`
	if all {
		format = `{{range .Deps}}{{.}}{{"\n"}}{{end}}`
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, module+pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", pkg, err, out)
	}
	return strings.Fields(string(out))
}

// TestImportRule: cmd imports daemon packages only; consumer, sketch, solver and snapshot know neither each other nor daemon, and bring
// along no more than they should.
func TestImportRule(t *testing.T) {
	forbidden := map[string][]string{
		"solver":           {"kafka", "badger", "prometheus"},
		"solver/posterior": {"kafka", "badger", "prometheus"},
		"snapshot":         {"kafka", "badger", "prometheus", "gonum"},
		"sketch":           {"kafka", "gonum"},
		"consumer":         {"badger", "gonum"},
	}
	for pkg, words := range forbidden {
		self := module + strings.Split(pkg, "/")[0]
		for _, d := range deps(t, pkg, true) {
			if strings.HasPrefix(d, module) && !strings.HasPrefix(d, self) {
				t.Errorf("%s imports %s", pkg, d)
			}
			for _, w := range words {
				if strings.Contains(d, w) && !strings.HasPrefix(d, module) {
					t.Errorf("%s brings along %s", pkg, d)
				}
			}
		}
	}
	for _, d := range deps(t, "cmd/refitd", false) {
		if strings.HasPrefix(d, module) && !strings.HasPrefix(d, module+"daemon") {
			t.Errorf("cmd/refitd imports %s", d)
		}
	}
}
