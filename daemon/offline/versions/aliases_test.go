package versions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// history publishes versions of model m, each a refit (r) or an update (u) that becomes champion, or a refit that is
// kept (k).
func history(t *testing.T, kinds string) (MoveOptions, *publish.Store) {
	t.Helper()
	o := MoveOptions{Versions: offline.Versions{Store: t.TempDir(), Model: "m"}, Why: "a test", Now: offlinetest.Clock}
	store := publish.NewStore(o.Store)
	store.Now = offlinetest.Clock
	for _, kind := range kinds {
		addVersion(t, store, kind)
	}
	return o, store
}

func addVersion(t *testing.T, store *publish.Store, kind rune) {
	t.Helper()
	c := &format.Contents{
		Schema:     snapshot.Schema{Task: format.Regression, Categorical: []string{"user"}},
		Kernel:     format.ANOVA,
		Link:       format.Identity,
		NumOutputs: 1,
		Bias:       []float64{1},
		Vocabulary: [][]string{nil},
		Golden:     []format.Golden{{}},
		Meta:       format.Meta{Kind: "refit", Created: offlinetest.Clock(), Decision: "promoted"},
	}
	moves := []publish.Move{{Alias: pointer.Champion}}
	switch kind {
	case 'u':
		c.Meta.Kind = "update"
	case 'k':
		c.Meta.Decision, moves = "kept", nil
	}
	if _, err := store.Publish(t.Context(), "m", c, moves...); err != nil {
		t.Fatal(err)
	}
}

// moved runs a verb and returns the version it moved the alias to, or the error.
func moved(t *testing.T, o MoveOptions, verb string) (int64, error) {
	t.Helper()
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		if verb == "promote" {
			return Promote(t.Context(), o, out)
		}
		return Rollback(t.Context(), o, out)
	})
	if err != nil {
		return 0, err
	}
	return int64(offlinetest.Number(t, offlinetest.Last(lines), "version")), nil
}

func TestRollbackGoesBackByRefits(t *testing.T) {
	for _, test := range []struct {
		history string
		want    []int64 // versions of successive rollbacks
	}{
		{"rr", []int64{1}},
		{"rurkru", []int64{3, 2, 1}[:2]}, // 1 and 2 are one refit, 3 another, 5 and 6 the last
		{"rrrr", []int64{3, 2, 1}},
		{"rkkr", []int64{1}},
	} {
		o, store := history(t, test.history)
		for _, want := range test.want {
			if got, err := moved(t, o, "rollback"); err != nil || got != want {
				t.Errorf("%s: rollback to %d, %v, want %d", test.history, got, err, want)
			}
			if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != want ||
				p.Event != publish.EventRollback {
				t.Errorf("%s: champion %+v, %v, want %d", test.history, p, err, want)
			}
		}
		_, err := moved(t, o, "rollback")
		offlinetest.WantExit(t, err, report.ExitModel, "--version")
	}
}

// A version that was pruned or damaged is passed over; one that is named has to be whole.
func TestRollbackTakesWhatVerifies(t *testing.T) {
	o, _ := history(t, "rrrr")
	if err := os.RemoveAll(filepath.Join(o.Store, "m", "3")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Store, "m", "2", "vocabulary"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Version = 2
	_, err := moved(t, o, "rollback")
	offlinetest.WantExit(t, err, report.ExitState, "digest mismatch")
	o.Version = 3
	_, err = moved(t, o, "rollback")
	offlinetest.WantExit(t, err, report.ExitModel, "no version 3")
	o.Version = 0
	if got, err := moved(t, o, "rollback"); err != nil || got != 1 {
		t.Errorf("rollback to %d, %v, want 1", got, err)
	}
	// What is published after a rollback is rolled back to where that went.
	addVersion(t, publish.NewStore(o.Store), 'r')
	if got, err := moved(t, o, "rollback"); err != nil || got != 1 {
		t.Errorf("rollback to %d, %v, want 1", got, err)
	}
}

func TestPromote(t *testing.T) {
	o, store := history(t, "rk")
	if got, err := moved(t, o, "promote"); err != nil || got != 2 {
		t.Errorf("promoted %d, %v, want the latest, 2", got, err)
	}
	o.Alias, o.Version = "canary", 1
	if got, err := moved(t, o, "promote"); err != nil || got != 1 {
		t.Errorf("promoted %d, %v, want 1", got, err)
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Aliases(t.Context(), AliasesOptions{Versions: offline.Versions{Store: o.Store, Model: "m"}, Now: o.Now},
			out)
	})
	if err != nil || len(lines) != 4 || offlinetest.Get(offlinetest.Last(lines), "aliases.canary") != 1.0 ||
		offlinetest.Get(offlinetest.Last(lines), "aliases.champion") != 2.0 ||
		lines[0]["event"] != "promote" ||
		lines[0]["signature"] != "unsigned" {
		t.Errorf("aliases: %v, %v", lines, err)
	}
	o.Alias = "../x"
	_, err = moved(t, o, "promote")
	offlinetest.WantExit(t, err, report.ExitUsage, "bad name")
	o.Alias, o.Model = "", "n"
	_, err = moved(t, o, "promote")
	offlinetest.WantExit(t, err, report.ExitModel, "no model n")
	_ = store
}

func TestLog(t *testing.T) {
	o, store := history(t, "r")
	times := []time.Time{offlinetest.Clock()}
	later := func(step func()) {
		now := times[len(times)-1].Add(time.Hour)
		times = append(times, now)
		o.Now, store.Now = func() time.Time { return now }, func() time.Time { return now }
		step()
	}
	later(func() { addVersion(t, store, 'r') })
	later(func() {
		if _, err := moved(t, o, "rollback"); err != nil {
			t.Fatal(err)
		}
	})
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Log(offline.Versions{Store: o.Store, Model: "m"}, time.Time{}, out)
	})
	if err != nil || len(lines) != 4 || offlinetest.Number(t, offlinetest.Last(lines), "records") != 3 {
		t.Fatalf("log: %v, %v", lines, err)
	}
	if r := lines[2]; r["event"] != "rollback" || r["why"] != "a test" || r["by"] == nil ||
		fmt.Sprint(r["moves"]) != "[map[alias:champion from:2 to:1]]" {
		t.Errorf("record of the rollback: %v", r)
	}
	if r := lines[1]; r["event"] != "publish" || r["decision"] != "promoted" {
		t.Errorf("record of the publication: %v", r)
	}
	for i, want := range []any{1.0, 2.0, 1.0} {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Log(offline.Versions{Store: o.Store, Model: "m"}, times[i].Add(time.Minute), out)
		})
		if err != nil || offlinetest.Get(offlinetest.Last(lines), "aliases.champion") != want {
			t.Errorf("%d h: %v, %v, want champion %v", i, lines, err, want)
		}
	}
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Log(offline.Versions{Store: o.Store, Model: "m"}, times[0].Add(-time.Minute), out)
	})
	if err != nil || len(lines) != 1 {
		t.Errorf("before everything: %v, %v", lines, err)
	}
	path := filepath.Join(o.Store, "m", "log.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("{}}\n"), b...), 0o644); err != nil {
		t.Fatal(err)
	}
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Log(offline.Versions{Store: o.Store, Model: "m"}, time.Time{}, out)
	})
	offlinetest.WantExit(t, err, report.ExitState, "line 1")
	if len(lines) != 3 {
		t.Errorf("%d lines, want the other records", len(lines))
	}
}

func TestPruneVerb(t *testing.T) {
	o, _ := history(t, "rrruuu")
	samples := filepath.Join(o.Store, "m", "samples")
	if err := os.MkdirAll(samples, 0o700); err != nil {
		t.Fatal(err)
	}
	sample := filepath.Join(samples, strings.Repeat("0", 64)+".zst") // that no version names
	old := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.WriteFile(sample, nil, 0o600), os.Chtimes(sample, old, old)); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Prune(
				t.Context(),
				PruneOptions{
					Versions: offline.Versions{Store: o.Store, Model: "m"},
					Keep:     2,
					DryRun:   dry,
					Now:      offlinetest.Clock,
				},
				out,
			)
		})
		if err != nil || fmt.Sprint(offlinetest.Last(lines)["removed"]) != "[1 4]" {
			t.Errorf("dry run %t: %v, %v, want 1 and 4 removed", dry, lines, err)
		}
		if _, err := os.Stat(sample); (err == nil) != dry {
			t.Errorf("dry run %t: the sample of no version: %v", dry, err)
		}
	}
	none := PruneOptions{Versions: offline.Versions{Store: o.Store, Model: "m"}, Now: offlinetest.Clock}
	err := Prune(t.Context(), none, nil)
	if report.CodeOf(err) != report.ExitUsage {
		t.Errorf("--keep 0: %v", err)
	}
}

// Signed moves are accepted by a reader with the key, and only those.
func TestSignedMoves(t *testing.T) {
	o, _ := history(t, "r")
	lines, err := offlinetest.Collect(t,
		func(out *report.Emitter) error { return NewKeys(filepath.Join(o.Store, "keys"), out) })
	if err != nil {
		t.Fatal(err)
	}
	keys, err := format.LoadKeys(offlinetest.Last(lines)["public_file"].(string))
	if err != nil {
		t.Fatal(err)
	}
	store := publish.NewStore(o.Store)
	if store.Signer, err = format.LoadSigner(offlinetest.Last(lines)["private_file"].(string)); err != nil {
		t.Fatal(err)
	}
	addVersion(t, store, 'k') // a signed version that nobody promoted
	open := func() error {
		_, err := snapshot.Trust{Keys: keys}.Open(o.Store, "m", snapshot.Selector{})
		return err
	}
	for _, verb := range []string{"promote", "rollback"} {
		_, err := moved(t, o, verb)
		offlinetest.WantExit(t, err, report.ExitUsage, "--signing-key", store.Signer.ID())
	}
	if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != 1 || open() == nil {
		t.Errorf("unsigned moves: champion %+v, %v, and the reader takes it", p, err)
	}
	o.SigningKey = offlinetest.Last(lines)["private_file"].(string)
	if _, err := moved(t, o, "promote"); err != nil || open() != nil {
		t.Errorf("a signed move: %v, and the reader says %v", err, open())
	}
	unsigned := o
	unsigned.Version = 1 // which was published before there was a key
	_, err = moved(t, unsigned, "promote")
	offlinetest.WantExit(t, err, report.ExitState, "not signed by a trusted key")
	ref := offline.SnapshotRef{
		Versions: offline.Versions{Store: o.Store, Model: "m"},
		Trust:    offline.Trust{TrustedKeys: []string{offlinetest.Last(lines)["public_file"].(string)}},
	}
	inspected, err := offlinetest.Collect(t, func(out *report.Emitter) error { return InspectSnapshot(ref, "", out) })
	if err != nil || inspected[0]["signature"] != "key "+store.Signer.ID()+", trusted" {
		t.Errorf("inspect with the key: %v, %v", inspected, err)
	}
	if _, err := ref.Open(); err != nil {
		t.Errorf("score with the key: %v", err)
	}
	stranger, err := publish.CreateKeys(filepath.Join(o.Store, "keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ref.TrustedKeys[0] = filepath.Join(o.Store, "keys", stranger+".pub")
	_, err = ref.Open()
	offlinetest.WantExit(t, err, report.ExitState, "is not trusted")
	if err := os.Chmod(o.SigningKey, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = moved(t, o, "promote")
	offlinetest.WantExit(t, err, report.ExitUsage, o.SigningKey, "chmod 600")
}

// J11: the verbs work where there are stray files, and name them. A damaged alias is reported, rebuilt by --repair,
// and set by promote where the log is lost.
func TestAliasesAreRepaired(t *testing.T) {
	o, store := history(t, "rr")
	file := func(path ...string) string { return filepath.Join(append([]string{o.Store, "m"}, path...)...) }
	for _, name := range []string{"notes.txt", "champion~"} {
		if err := os.WriteFile(file("aliases", name), []byte("a note\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := func(repair bool) ([]map[string]any, error) {
		return offlinetest.Collect(t, func(out *report.Emitter) error {
			return Aliases(t.Context(),
				AliasesOptions{Versions: offline.Versions{Store: o.Store, Model: "m"}, Repair: repair, Now: o.Now}, out)
		})
	}
	lines, err := list(false)
	if err != nil || len(lines) != 5 || lines[2]["type"] != "stray" || lines[2]["path"] != "m/aliases/champion~" ||
		lines[3]["alias"] != nil {
		t.Errorf("with stray files: %v, %v", lines, err)
	}
	if err := os.Truncate(file("aliases", "champion"), 0); err != nil {
		t.Fatal(err)
	}
	lines, err = list(false)
	offlinetest.WantExit(t, err, report.ExitState, "alias champion is damaged: rebuild it (versions alias --repair)")
	if len(lines) != 4 || lines[0]["alias"] != "latest" || lines[1]["alias"] != "champion" ||
		lines[1]["type"] != "stray" {
		t.Errorf("with a damaged alias: %v", lines)
	}
	lines, err = list(true)
	if err != nil || lines[0]["alias"] != "champion" || lines[0]["rebuilt"] != true || lines[0]["version"] != 2.0 ||
		lines[1]["rebuilt"] != nil {
		t.Errorf("repaired: %v, %v", lines, err)
	}
	// A promotion compares with what the alias named, as soon as that is known again.
	if err := os.Truncate(file("aliases", "champion"), 7); err != nil {
		t.Fatal(err)
	}
	o.Version = 1
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Promote(t.Context(), o, out) })
	if err != nil || offlinetest.Last(lines)["from"] != 2.0 || offlinetest.Last(lines)["version"] != 1.0 {
		t.Errorf("promoted over a damaged alias: %v, %v", lines, err)
	}
	if err := errors.Join(os.Remove(file("log.jsonl")), os.Truncate(file("aliases", "champion"), 7)); err != nil {
		t.Fatal(err)
	}
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Promote(t.Context(), o, out) })
	if err != nil || offlinetest.Last(lines)["from"] != 0.0 {
		t.Errorf("promoted without a log: %v, %v", lines, err)
	}
	if p, err := store.Alias("m", "champion"); err != nil || p.Version != 1 {
		t.Errorf("champion %+v, %v", p, err)
	}
}
