package build

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/version"
)

func TestVersionIsTheNewestOfTheChangelog(t *testing.T) {
	changelog, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\S+) \(\d{4}-\d\d-\d\d\)$`).FindSubmatch(changelog)
	if newest == nil || string(newest[1]) != Version {
		t.Errorf("CHANGELOG.md begins with %q, this is version %s", newest, Version)
	}
	if text := String(); !strings.HasPrefix(text, Version+" (commit ") || version.Version != Version {
		t.Errorf("%s; the metric says %s", text, version.Version)
	}
}
