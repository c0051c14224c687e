package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// damages are what can become of a version in the store, given its directory.
var damages = map[string]func(dir string) error{
	"parameters emptied":  func(dir string) error { return os.Truncate(filepath.Join(dir, "model.safetensors"), 0) },
	"names cut off":       func(dir string) error { return os.Truncate(filepath.Join(dir, "vocabulary"), 10) },
	"golden events gone":  func(dir string) error { return os.Remove(filepath.Join(dir, "golden.jsonl")) },
	"manifest emptied":    func(dir string) error { return os.Truncate(filepath.Join(dir, "manifest.json"), 0) },
	"all of it gone":      os.RemoveAll,
	"parameters a byte":   func(dir string) error { return flip(filepath.Join(dir, "model.safetensors")) },
	"alias and its files": func(dir string) error { return damageAlias(dir) },
	"names a directory":   func(dir string) error { return replace(filepath.Join(dir, "vocabulary")) },
	"golden events nowhere": func(dir string) error {
		path := filepath.Join(dir, "golden.jsonl")
		return errors.Join(os.Remove(path), os.Symlink(path, path))
	},
	"all of it a file": func(dir string) error {
		return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644))
	},
	"parameters closed": func(dir string) error { return os.Chmod(filepath.Join(dir, "model.safetensors"), 0) },
}

// replace puts a directory in the place of a file.
func replace(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }

// flip changes the last byte of a file.
func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)-1] ^= 1
	return os.WriteFile(path, b, 0o644)
}

// damageAlias empties the alias of the champion and the parameters of its version, without which the log does not
// bring the alias back.
func damageAlias(dir string) error {
	return errors.Join(os.Truncate(filepath.Join(filepath.Dir(dir), "aliases", "champion"), 0),
		os.Truncate(filepath.Join(dir, "model.safetensors"), 0))
}

// scored is the status of a request for scores.
func (r *refitting) scored() int {
	r.t.Helper()
	res, err := http.Post(r.web+"/v1/models/ratings/score", "application/json",
		strings.NewReader(`{"events":[{"user":"u1","item":"i1"}]}`))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// champion is what the store says that consumers should use, and whether they can.
func (r *refitting) champion() (snapshot.Pointer, error) {
	r.t.Helper()
	p, err := r.store.Alias("ratings", pointer.Champion)
	if err == nil {
		_, err = snapshot.Open(filepath.Dir(r.dir), "ratings", snapshot.Selector{Version: p.Version})
	}
	return p, err
}

// isServed waits until a version that is not the damaged one serves, and the model is ready.
func (r *refitting) isServed(damaged int64) {
	r.t.Helper()
	daemontest.Within(r.t, daemontest.Patience, "a champion that can be read", func() bool {
		p, err := r.champion()
		status, _ := askReady(r.t, r.web, "")
		return err == nil && p.Version != damaged && status == http.StatusOK && r.scored() == http.StatusOK
	})
}

// TestDamagedChampion: whatever becomes of the files of the champion before a start, consumers get another version at
// once, the daemon scores with it, and the next refit is judged against it.
func TestDamagedChampion(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "parameters closed" && os.Geteuid() == 0 {
				t.Skip("root reads every file")
			}
			r := startRefitting(t, strings.ReplaceAll(name, " ", "-"))
			r.publish()
			last := r.publish()
			before, err := r.champion()
			if err != nil || before.Version != last.Version {
				t.Fatalf("champion %+v, %v: version %d was published", before, err, last.Version)
			}
			r.stop()
			if err := damage(filepath.Join(r.dir, fmt.Sprint(before.Version))); err != nil {
				t.Fatal(err)
			}
			r.start()
			if p, err := r.champion(); err != nil || p.Version != before.Version-1 || p.Sequence <= before.Sequence {
				t.Errorf("champion %+v, %v: want version %d", p, err, before.Version-1)
			}
			r.isServed(before.Version)
			if text := r.log.String(); strings.Count(text,
				`"msg":"champion is damaged: it was moved to another version"`) != 1 {
				t.Errorf("the log does not say once that the champion was moved:\n%.3000s", text)
			}
			r.publish()
			if text := r.log.String(); !strings.Contains(text, "champion 0.") {
				t.Errorf("the next refit was not judged against the version that took its place:\n%s", text)
			}
			r.stop()
		})
	}
}

// TestChampionsAliasGone: the alias of the champion that is removed alone, before a start or under a running daemon,
// comes back from the publish log as it was set; where the log is gone, too, it is set to the newest version.
func TestChampionsAliasGone(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "alias-gone")
	r.publish()
	want := r.publish()
	alias := filepath.Join(r.dir, "aliases", pointer.Champion)
	for i, remove := range []func() error{
		func() error { return os.Remove(alias) },
		func() error { return os.Remove(alias) },
		func() error {
			return errors.Join(os.RemoveAll(filepath.Dir(alias)), os.Remove(filepath.Join(r.dir, "log.jsonl")))
		},
	} {
		if i > 0 {
			r.stop()
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			r.start()
		}
		r.isServed(0)
		if p, err := r.champion(); err != nil || p.Version != want.Version {
			t.Errorf("champion %+v, %v: want version %d", p, err, want.Version)
		}
	}
	r.stop()
}

// TestNoVersionCanBeRead: where no version can take the place of the damaged one the model is not ready and says why,
// and the next refit is published, however few rows there are to judge it.
func TestNoVersionCanBeRead(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "unread", "min_rows: 20", "min_rows: 100000")
	r.publish()
	r.stop()
	if err := os.Truncate(filepath.Join(r.dir, "1", "model.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	r.start()
	notReadyFor(t, r.web, "ratings", "store",
		"store: the champion is damaged, and no other version can take its place before the next refit")
	if status := r.scored(); status == http.StatusOK {
		t.Error("it scores with a damaged version")
	}
	if _, text := daemontest.Get(t, r.web+"/v1/status"); !strings.Contains(text, `"name":"RefitdModelNotReady"`) ||
		strings.Contains(text, "no refit has ended") {
		t.Errorf("the page has %s", text)
	}
	r.publish()
	r.isServed(1)
	r.stop()
}

// TestChampionDamagedMeanwhile: files of the champion that are damaged under a running daemon come back as the next
// version, which is made of what the daemon has in memory.
func TestChampionDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"parameters emptied", "manifest emptied", "all of it gone", "alias and its files"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRefitting(t, "running-"+strings.ReplaceAll(name, " ", "-"))
			r.publish()
			if err := damages[name](filepath.Join(r.dir, "1")); err != nil {
				t.Fatal(err)
			}
			r.isServed(1)
			if p, _ := r.champion(); p.Version != 2 {
				t.Errorf("champion %+v", p)
			}
			if text := r.log.String(); strings.Count(text,
				`"note":"the last refit is published again in its place"`) != 1 {
				t.Errorf("the log does not say once that it was published again:\n%.3000s", text)
			}
			r.stop()
		})
	}
}
