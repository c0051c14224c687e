package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
)

// refitting is a daemon that refits when it is asked to, with the store that it publishes to.
type refitting struct {
	t      *testing.T
	b      *daemontest.Bench
	path   string // of the configuration
	dir    string // of the model in the store
	store  *snapshot.Store
	events int
	web    string
	log    *journal
	refit  func() error
	stop   func()
}

// startRefitting starts such a daemon with edits of its configuration.
func startRefitting(t *testing.T, name string, edit ...string) *refitting {
	t.Helper()
	b := daemontest.New(t)
	r := &refitting{t: t, b: b, path: b.Configure(name, append(append([]string{}, daemontest.Simple...), edit...)...)}
	r.dir, r.store = filepath.Join(b.Dir, "store-"+name, "ratings"), snapshot.NewStore(filepath.Join(b.Dir, "store-"+name))
	r.start()
	return r
}

func (r *refitting) start() {
	r.t.Helper()
	d, log, stop := startWith(r.b, r.path)
	r.web, r.log, r.stop = "http://"+d.Addr(), log, stop
	r.refit = func() error { return d.Refit("ratings") }
}

// publish has the daemon refit on a thousand events more, or as many of them as it has read, and waits for the version that this makes.
func (r *refitting) publish() snapshot.Pointer {
	r.t.Helper()
	last, _ := r.store.Alias("ratings", snapshot.Latest) // none at first, or damaged
	r.events += 1000
	r.b.ProduceRatings(uint64(r.events), 1000)
	judged := r.judged()
	daemontest.Within(r.t, daemontest.Patience, "the first events", func() bool {
		_, metrics := daemontest.Get(r.t, r.web+"/metrics")
		return daemontest.Sum(r.t, metrics, "refitd_events_total") >= 100
	})
	if err := r.refit(); err != nil {
		r.t.Fatal(err)
	}
	var p snapshot.Pointer
	daemontest.Within(r.t, daemontest.Patience, "another version", func() bool {
		var err error
		p, err = r.store.Alias("ratings", snapshot.Latest)
		return err == nil && p.Sequence > last.Sequence && r.judged() > judged
	})
	return p
}

// judged counts the versions of this run.
func (r *refitting) judged() int { return strings.Count(r.log.String(), `"type":"version"`) }

func (r *refitting) write(path, content string) {
	r.t.Helper()
	path = filepath.Join(r.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// J11: stray files and damaged aliases stop neither publishing nor HTTP nor a start. The damaged are rebuilt, the stray named once.
func TestStrayFilesInTheStore(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "strays", "publish: {", "publish: {keep: 1, keep_sample: true, ")
	if p := r.publish(); p.Version != 1 {
		t.Fatalf("first version %+v", p)
	}
	strays := []string{"aliases/notes.txt", "aliases/champion~", "aliases/.champion.swp", "aliases/dir/file", "notes", "77"}
	for _, path := range append(strays, "1/notes", "samples/notes", "samples/dir/file", ".staging-x/y") {
		r.write(path, "")
	}
	r.write("log.jsonl", "\x00\n")
	r.write("aliases/latest", "{\"version\":")
	if p := r.publish(); p.Version != 2 || p.Sequence < 2 {
		t.Errorf("beside stray files: %+v", p)
	}
	r.write("aliases/champion", "")
	daemontest.Within(t, daemontest.Patience, "champion as it was", func() bool {
		p, err := r.store.Alias("ratings", snapshot.Champion)
		return err == nil && p.Version > 0
	})
	if status, text := daemontest.Get(t, r.web+"/v1/models/ratings"); status != 200 || !strings.Contains(text, `"champion":`) || strings.Contains(text, "notes") {
		t.Errorf("HTTP %d: %s", status, text)
	}
	third := r.publish()
	if third.Version != 3 {
		t.Errorf("third version %+v: each refit is published once", third)
	}
	if strings.Contains(r.log.String(), `"level":"ERROR"`) {
		t.Errorf("the log has errors:\n%s", r.log.String())
	}
	for _, path := range strays {
		path = strings.TrimSuffix(path, "/file")
		if n := strings.Count(r.log.String(), fmt.Sprintf(`"path":"ratings/%s"`, path)); n != 1 {
			t.Errorf("%s was named %d times", path, n)
		}
	}
	r.stop()
	r.write("aliases/champion", "torn")
	r.start()
	if p := r.publish(); p.Version != 4 || p.Sequence <= third.Sequence {
		t.Errorf("after a start beside a damaged alias: %+v", p)
	}
	r.stop()
	for _, path := range append(strays, "samples/notes", "samples/dir/file") {
		if _, err := os.Lstat(filepath.Join(r.dir, filepath.FromSlash(path))); err != nil {
			t.Errorf("what is not refitd's is gone: %v", err)
		}
	}
}
