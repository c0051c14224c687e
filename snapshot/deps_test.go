package snapshot

import (
	"os/exec"
	"strings"
	"testing"
)

// Programs that only score must not inherit a Kafka client or a database: the package needs the standard library and nothing else.
func TestStandardLibraryOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Skipf("not checked: go list: %v", err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || !strings.HasSuffix(got[0], "/snapshot") {
		t.Errorf("depends on %v, want itself only", got)
	}
}
