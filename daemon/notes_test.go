package daemon_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestDamagedNotes: whatever is in the files of a state that are notes, the daemon starts without them, names the
// file that it cannot read once, learns what comes, and the next start has nothing to say. What is no file is put
// aside. The database and its witness are no notes.
func TestDamagedNotes(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(1, 600)
	path := b.Configure(
		"notes",
		append([]string{"publish: {", "notify: {url: 'http://127.0.0.1:1/', secret_file: secret}\n    publish: {"},
			daemontest.Simple...)...)
	if err := os.WriteFile(filepath.Join(b.Dir, "secret"), []byte("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if o := b.Run(path); o.Err != nil {
		t.Fatal(o.Err)
	}
	_, _, dir := daemontest.Load(t, path)
	garbage := map[string]string{
		"empty":         "",
		"no text":       "\x00\xff\x00",
		"torn":          `{"Schema":{"task`,
		"nothing in it": "null",
		"another":       "[1]",
	}
	said := []string{
		config.ModelFile,
		config.PosteriorFile,
		config.NumbersFile,
		config.CurvesFile,
		config.NoticesFile,
		"deaths.json",
	}
	for i, name := range []string{config.ModelFile, config.PosteriorFile, config.NumbersFile, config.CurvesFile,
		config.NoticesFile, config.AcceptedFile,
		"deaths.json", "in-hand", "storage-errors"} {
		kinds := slices.Sorted(maps.Keys(garbage))
		for k, kind := range kinds {
			if kind != "torn" && k != i%len(kinds) && tier.Size(true, false) {
				continue // a start each
			}
			text := garbage[kind]
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.ProduceRatings(uint64(100*i), 50)
			d, log, stop := startWith(b, path)
			daemontest.Within(t, daemontest.Patience, name+" "+kind+": events", func() bool {
				_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
				return daemontest.Sum(t, metrics, "refitd_events_total") >= 50
			})
			stop()
			named := strings.Contains(log.String(), filepath.Join("ratings", name))
			if says := kind == "torn" && slices.Contains(said, name) || name == config.ModelFile; says != named &&
				(says || kind == "torn") {
				t.Errorf("%s, %s: the log names the file: %t\n%.3000s", name, kind, named, log.String())
			}
		}
	}
	for _, name := range []string{config.ModelFile, config.PosteriorFile, config.NumbersFile, config.CurvesFile,
		config.NoticesFile, config.AcceptedFile, "deaths.json", "in-hand", "storage-errors"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.RemoveAll(file), os.Mkdir(file, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	_, log, stop := startWith(b, path)
	stop()
	if n := strings.Count(log.String(), "put aside"); n != 9 {
		t.Errorf("of nine directories %d were put aside:\n%.3000s", n, log.String())
	}
	for name, damage := range map[string]func(file string) error{
		"a file that cannot be read": func(file string) error { return os.Symlink("/proc/self/mem", file) },
		"a link to nothing":          func(file string) error { return os.Symlink(filepath.Join(dir, "nothing"), file) },
		"a link to itself":           func(file string) error { return os.Symlink(file, file) },
		"a huge file": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40))
		},
	} {
		want := 0
		for _, note := range []string{config.ModelFile, config.PosteriorFile, config.NumbersFile, config.CurvesFile,
			config.NoticesFile, config.AcceptedFile, config.MemberFile, "deaths.json", "in-hand", "storage-errors"} {
			if note == config.PosteriorFile && name == "a huge file" {
				continue // a large model has a large one
			}
			file := filepath.Join(dir, note)
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := damage(file); err != nil {
				t.Fatal(err)
			}
			want++
		}
		_, log, stop := startWith(b, path)
		stop()
		if n := strings.Count(log.String(), "put aside"); n != want {
			t.Errorf("%s: of %d notes %d were put aside:\n%.3000s", name, want, n, log.String())
		}
	}
	if o := b.Run(path); o.Err != nil || o.Summary.Models[0].VersionsPromoted != 1 { // which writes the posterior anew
		t.Fatalf("%v: %+v", o.Err, o.Summary)
	}
	_, log, stop = startWith(b, path)
	stop()
	if text := log.String(); strings.Contains(text, "cannot be") || strings.Contains(text, "not loaded") {
		t.Errorf("a start after those says\n%s", text)
	}
	if err := os.Truncate(filepath.Join(dir, "WITNESS"), 0); err != nil {
		t.Fatal(err)
	}
	if o := b.Run(path); report.CodeOf(o.Err) != report.ExitState || !strings.Contains(o.Err.Error(), "WITNESS") {
		t.Errorf("a witness that cannot be read: %v", o.Err)
	}
}
