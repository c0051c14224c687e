package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestErrorsNameNoPackage: what people see of an error, as text and as JSON, has no name of a package before it.
func TestErrorsNameNoPackage(t *testing.T) {
	for text, want := range map[string]string{
		"offline: file.csv: no such file":                                  "file.csv: no such file",
		"sketch: open state: offline: damaged":                             "open state: damaged",
		"offline: snapshot: open m alias champion: bad":                    "open m alias champion: bad",
		"a.yaml:3:4: kafka.group_id: missing":                              "a.yaml:3:4: kafka.group_id: missing",
		"the shard: 3 is not there":                                        "the shard: 3 is not there",
		"model: m has no version":                                          "model: m has no version",
		errors.Join(errors.New("web: a"), errors.New("sketch: b")).Error(): "a\nb",
	} {
		line := ErrorOf(Exit(ExitState, fmt.Errorf("%s", text)))
		var out bytes.Buffer
		if err := line.WriteText(&out); err != nil || line.Message != want ||
			!strings.HasSuffix(out.String(), want+"\n") {
			t.Errorf("%q: %q, %q, want %q", text, line.Message, &out, want)
		}
	}
}
