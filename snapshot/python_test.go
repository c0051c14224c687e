package snapshot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Python package safetensors reads the tensors, and a scorer written from the format alone agrees on the golden events.
func TestPythonReadsSnapshots(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import numpy, safetensors").CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 with numpy and safetensors is needed (%v): %s", err, out)
	}
	dir := t.TempDir()
	folders := []string{filepath.Join("testdata", "v1", "ratings", "1")}
	for _, s := range shapes {
		name := strings.ToLower(s.String())
		if _, err := NewStore(dir).Publish(t.Context(), name, testContents(s)); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, filepath.Join(dir, name, "1"))
	}
	for _, folder := range folders {
		if out, err := exec.Command("python3", filepath.Join("testdata", "score.py"), folder).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}
