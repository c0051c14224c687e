package snapshottest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// JavaModule returns the class path of a module on the reader for the JVM that Maven has built with what it needs. It
// skips the test without it.
func JavaModule(t *testing.T, name string) string {
	t.Helper()
	modules := os.Getenv("REFITD_JVM")
	if modules == "" {
		t.Skip("not checked: REFITD_JVM names the directory in which Maven has built snapshot/java, as .ci/interchange does")
	}
	target, list := filepath.Join(modules, name, "target"), string(os.PathListSeparator)
	return filepath.Join(target, "classes") + list + filepath.Join(target, "test-classes") + list +
		filepath.Join(target, "dependency", "*")
}

// RunJava runs a test of a module, which reads what is wanted from the file that REFITD_EXPECTATIONS names.
func RunJava(t *testing.T, classes, test string, want any, flags ...string) {
	t.Helper()
	text, err := json.Marshal(want)
	path := filepath.Join(t.TempDir(), "expectations.json")
	Must(t, err, os.WriteFile(path, text, 0o644))
	java := exec.CommandContext(t.Context(), "java", append(flags, "-cp", classes, test)...)
	java.Env = append(os.Environ(), "REFITD_EXPECTATIONS="+path)
	out, err := java.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}
