package snapshot

import (
	"os/exec"
	"strings"
	"testing"
)

// Programs that only score must not inherit a Kafka client or a database: the package needs the standard library and what is below itself.
func TestStandardLibraryOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Skipf("not checked: go list: %v", err)
	}
	for _, got := range strings.Fields(string(out)) {
		if !strings.Contains(got+"/", "/refitd/snapshot/") {
			t.Errorf("depends on %s, want itself only", got)
		}
	}
}
