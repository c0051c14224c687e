package faults_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTable: every test that the table of faults names exists.
func TestTable(t *testing.T) {
	b, err := os.ReadFile("../../configs/docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	names := regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(b), -1)
	for _, m := range names {
		if _, ok := sources[m[1]]; !ok {
			files, err := filepath.Glob("../../" + m[1] + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[m[1]] += string(text)
			}
		}
		if !strings.Contains(sources[m[1]], "\nfunc "+m[2]+"(") {
			t.Errorf("configs/docs/faults.md names %s.%s, which there is not", m[1], m[2])
		}
	}
	if len(names) == 0 {
		t.Error("configs/docs/faults.md names no test")
	}
}
