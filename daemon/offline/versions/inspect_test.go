package versions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

func TestInspectSnapshot(t *testing.T) {
	ref, summary, _ := fittest.Published(t)
	of := func(entity string) ([]offlinetest.Line, error) {
		return offlinetest.Collect(t, func(out *report.Emitter) error { return InspectSnapshot(ref, entity, out) })
	}
	inspect := func() ([]offlinetest.Line, error) { return of("") }
	lines, err := inspect()
	if err != nil || len(lines) != 2 || len(lines[1]) != 1 {
		t.Fatalf("%v, %v", lines, err)
	}
	l := lines[0]
	if l["type"] != "snapshot" || l["files_ok"] != true || l["golden_ok"] != true ||
		offlinetest.Number(t, l, "aliases.champion") != 1 ||
		offlinetest.Get(l, "manifest.payload_digest") != offlinetest.Get(summary, "snapshot.payload_digest") {
		t.Errorf("line %v", l)
	}
	lines, err = of("user=u1")
	if err != nil || offlinetest.Get(lines[0], "entity.known") != true ||
		offlinetest.Get(lines[0], "entity.outputs") == nil {
		t.Errorf("a name: %v, %v", lines, err)
	}
	_, err = of("u1")
	offlinetest.WantExit(t, err, report.ExitUsage, "FIELD=NAME")
	_, err = of("page=u1")
	offlinetest.WantExit(t, err, report.ExitUsage, "user, item")

	path := filepath.Join(ref.Store, ref.Model, "1", "vocabulary")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(strings.Replace(string(whole), "u1", "u!", 1))
	lines, err = inspect()
	offlinetest.WantExit(t, err, report.ExitState, "vocabulary")
	if len(lines) != 1 || lines[0]["files_ok"] != false || lines[0]["golden_ok"] != false {
		t.Errorf("lines %v", lines)
	}
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{}, strings.NewReader(""), out)
	})
	offlinetest.WantExit(t, err, report.ExitState, "vocabulary")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{}, strings.NewReader(""), out)
	})
	offlinetest.WantExit(t, err, report.ExitState, "vocabulary")

	replace(string(whole))
	manifest := filepath.Join(ref.Store, ref.Model, "1", "manifest.json")
	if err := os.Truncate(manifest, 100); err != nil {
		t.Fatal(err)
	}
	lines, err = inspect()
	offlinetest.WantExit(t, err, report.ExitState, "manifest.json")
	if len(lines) != 0 {
		t.Errorf("lines %v", lines)
	}
}
