package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
)

// prune runs versions prune --state and returns the paths by kind that it lists.
func (e *erased) prune(dryRun bool) (paths map[string][]string, summary report.LeftoversSummary) {
	e.T.Helper()
	var out bytes.Buffer
	if err := Prune(e.dir, e.model.Name, dryRun, daemontest.Quiet(), report.NewEmitter(&out, true)); err != nil {
		e.T.Fatal(err)
	}
	paths = make(map[string][]string)
	for line := range bytes.Lines(out.Bytes()) {
		var l struct {
			Type string
			report.Leftover
		}
		if err := json.Unmarshal(line, &l); err != nil {
			e.T.Fatal(err)
		}
		if l.Type == "leftover" {
			paths[l.Kind] = append(paths[l.Kind], l.Path)
		} else if err := json.Unmarshal(line, &summary); err != nil {
			e.T.Fatal(err)
		}
	}
	return paths, summary
}

// warnings starts and ends the daemon and returns what it logs of leftovers.
func (e *erased) warnings() (lines []string) {
	e.T.Helper()
	var log bytes.Buffer
	d, err := daemon.New(
		e.T.Context(),
		daemon.Options{Config: e.conf, UntilEnd: true, Out: report.NewEmitter(io.Discard, true),
			Log: slog.New(slog.NewTextHandler(&log, nil))},
	)
	if err == nil {
		err = d.Run(e.T.Context())
	}
	if err != nil {
		e.T.Fatal(err)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "refitd versions prune --state") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestPruneState (J19): what killed backups and restores leave, and the states that restores replace, is reported at
// the start, listed and removed; what somebody is writing, or has put there, is not.
func TestPruneState(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	if lines := e.warnings(); len(lines) > 0 {
		t.Errorf("before anything is left: %s", lines)
	}
	backups := filepath.Join(e.Dir, "with spaces")
	if err := os.Mkdir(backups, 0o755); err != nil {
		t.Fatal(err)
	}
	calls, err := e.traced("backup", filepath.Join(backups, "first"))
	if err != nil {
		t.Skipf("strace cannot trace here: %v", err)
	}
	inject := fmt.Sprintf(
		"inject=rename,renameat,renameat2:signal=KILL:when=%d",
		calls-1,
	) // the directory is known by now
	if _, err := e.traced("backup", filepath.Join(backups, "killed"), "-e", inject); err == nil {
		t.Fatal("the backup was not killed")
	}
	if calls, err = e.traced("restore", e.backup); err != nil {
		t.Fatal(err)
	}
	inject = fmt.Sprintf("inject=rename,renameat,renameat2:signal=KILL:when=%d", calls-4)
	if _, err := e.traced("restore", e.backup, "-e", inject); err == nil {
		t.Fatal("the restore was not killed")
	}
	held, err := os.Create(filepath.Join(backups, ".tmp-"+strings.Repeat("A", 26)))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := io.WriteString(held, sketch.BackupMagic); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(e.dir, ".tmp-"+strings.Repeat("B", 26))
	foreign := []string{
		filepath.Join(backups, "first"),
		held.Name(),
		fresh,
		filepath.Join(backups, ".tmp-other"),
		e.dir + config.OldSuffix + "mine",
		e.dir + config.RebuildSuffix,
	}
	for _, path := range foreign[2:] {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := statedir.Hold(held); err != nil {
		t.Fatal(err)
	}

	lines := e.warnings()
	listed, dry := e.prune(true)
	if len(lines) != 1 || !strings.Contains(lines[0], "count=3 bytes=") || !strings.Contains(lines[0], "level=WARN") {
		t.Errorf("warnings %q", lines)
	}
	if len(listed["old"]) != 1 || !slices.Equal(listed["restore"], []string{e.dir + config.RestoreSuffix}) || len(
		listed["temporary"]) != 1 ||
		filepath.Dir(listed["temporary"][0]) != backups || dry.Count != 3 || dry.Removed != 0 || !dry.DryRun ||
		dry.Bytes < 10_000 {
		t.Fatalf("listed %v, %+v", listed, dry)
	}
	again, removed := e.prune(false)
	if fmt.Sprint(again) != fmt.Sprint(listed) || removed.Removed != 3 || removed.Bytes != dry.Bytes {
		t.Errorf("removed %v, %+v, listed were %v, %+v", again, removed, listed, dry)
	}
	for _, paths := range listed {
		for _, path := range paths {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", path, err)
			}
		}
	}
	for _, path := range foreign {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("nobody's to remove: %v", err)
		}
	}
	if lines := e.warnings(); len(lines) > 0 {
		t.Errorf("afterwards: %s", lines)
	}
	if _, nothing := e.prune(false); nothing.Count != 0 {
		t.Errorf("afterwards: %+v", nothing)
	}
	if e.rows() != 0 {
		t.Error("the state is not what it was")
	}
}

// TestPruneMeanwhile (J19): a restore that is under way, and a state that somebody looks at, are left alone.
func TestPruneMeanwhile(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	quiet := report.NewEmitter(io.Discard, true)
	if err := Restore(t.Context(), e.dir, e.model, e.backup, "", nil, daemontest.Quiet(), quiet); err != nil {
		t.Fatal(err)
	}
	listed, _ := e.prune(true)
	store, err := sketch.OpenExisting(t.Context(), listed["old"][0], daemontest.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	err = Prune(e.dir, "ratings", false, daemontest.Quiet(), quiet)
	if report.CodeOf(err) != report.ExitState || !strings.Contains(err.Error(), "in use by pid") {
		t.Errorf("a state that is looked at: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("it was touched: %v", err)
	}
	making, err := statedir.Lock(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := statedir.Claim(e.dir, e.dir+config.RestoreSuffix); err != nil {
		t.Fatal(err)
	}
	if err := Prune(e.dir, "ratings", false, daemontest.Quiet(), quiet); report.CodeOf(err) != report.ExitState ||
		!strings.Contains(err.Error(), "under way") {
		t.Errorf("during a restore: %v", err)
	}
	if lines := e.warnings(); len(lines) != 1 || !strings.Contains(lines[0], "count=1 ") {
		t.Errorf("during a restore: %q", lines)
	}
	if err := making.Close(); err != nil {
		t.Fatal(err)
	}
	if listed, _ := e.prune(false); len(listed["restore"]) != 1 || len(listed["old"]) != 1 {
		t.Errorf("afterwards: %v", listed)
	}
}
