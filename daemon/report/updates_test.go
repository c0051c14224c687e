package report

import (
	"strings"
	"testing"
)

// TestUpdatesAreSummedUp: in text, updates are one line before what follows them, for all models; JSON has each.
func TestUpdatesAreSummedUp(t *testing.T) {
	versions := []Version{
		{Model: "a", Version: 1, Kind: "refit", Decision: "promoted"},
		{Model: "a", Version: 2, Kind: "update", Decision: "promoted"},
		{Model: "b", Version: 9, Kind: "update", Decision: "kept"},
		{Model: "a", Version: 3, Kind: "update", Decision: "promoted"},
		{Model: "a", Version: 4, Kind: "update", Decision: "kept"},
		{Model: "a", Version: 5, Kind: "refit", Decision: "promoted"},
		{Model: "a", Version: 6, Kind: "refit", Decision: "promoted"},
	}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		e := NewEmitter(&out, asJSON)
		for _, v := range versions {
			if err := e.Emit("version", v); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if asJSON {
			if len(lines) != len(versions) {
				t.Errorf("%d lines of JSON for %d versions", len(lines), len(versions))
			}
			continue
		}
		want := "2 updates of a promoted, the last is version 3, 1 kept back; 0 updates of b promoted, 1 kept back"
		if len(lines) != 4 || lines[1] != want || !strings.HasPrefix(lines[2], "version 5 of a (refit)") {
			t.Errorf("got %q, want 4 lines, of which the second is %q", lines, want)
		}
	}
}
