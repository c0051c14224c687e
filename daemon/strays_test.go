package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// refitting is a daemon that refits when it is asked to, with the store that it publishes to.
type refitting struct {
	t      *testing.T
	b      *daemontest.Bench
	path   string // of the configuration
	dir    string // of the model in the store
	store  *publish.Store
	events int
	web    string
	log    *locked.Buffer
	refit  func() error
	stop   func()
}

// startRefitting starts such a daemon with edits of its configuration.
func startRefitting(t *testing.T, name string, edit ...string) *refitting {
	t.Helper()
	b := daemontest.New(t)
	r := &refitting{t: t, b: b, path: b.Configure(name, append(append([]string{}, daemontest.Simple...), edit...)...)}
	r.dir, r.store = filepath.Join(b.Dir, "store-"+name, "ratings"), publish.NewStore(
		filepath.Join(b.Dir, "store-"+name))
	r.start()
	return r
}

func (r *refitting) start() {
	r.t.Helper()
	d, log, stop := startWith(r.b, r.path)
	r.web, r.log, r.stop = "http://"+d.Addr(), log, stop
	r.refit = func() error { return d.Refit("ratings") }
}

// publish has the daemon refit on a thousand events more, or as many of them as it has read, and waits for the version
// that this makes.
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

// J11: stray files and damaged aliases stop neither publishing nor HTTP nor a start. The damaged are rebuilt, the stray
// named once.
func TestStrayFilesInTheStore(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "strays", "publish: {", "publish: {keep: 1, keep_sample: true, ")
	if p := r.publish(); p.Version != 1 {
		t.Fatalf("first version %+v", p)
	}
	strays := []string{
		"aliases/notes.txt",
		"aliases/champion~",
		"aliases/.champion.swp",
		"aliases/dir/file",
		"notes",
		"77",
	}
	for _, path := range append(strays, "1/notes", "samples/notes", "samples/dir/file", ".staging-x/y") {
		r.write(path, "")
	}
	r.write("log.jsonl", "\x00\n")
	r.write("aliases/latest", "{\"version\":")
	if p := r.publish(); p.Version != 2 || p.Sequence < 2 {
		t.Errorf("with stray files: %+v", p)
	}
	r.write("aliases/champion", "")
	daemontest.Within(t, daemontest.Patience, "champion as it was", func() bool {
		p, err := r.store.Alias("ratings", pointer.Champion)
		return err == nil && p.Version > 0
	})
	if status, text := daemontest.Get(t, r.web+"/v1/models/ratings"); status != 200 ||
		!strings.Contains(text, `"champion":`) ||
		strings.Contains(text, "notes") {
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
		t.Errorf("after a start with a damaged alias: %+v", p)
	}
	r.stop()
	for _, path := range append(strays, "samples/notes", "samples/dir/file") {
		if _, err := os.Lstat(filepath.Join(r.dir, filepath.FromSlash(path))); err != nil {
			t.Errorf("what is not refitd's is gone: %v", err)
		}
	}
}

// consumer follows the champion of the store until the test ends.
func (r *refitting) consumer() func() snapshot.Status {
	r.t.Helper()
	w, err := snapshot.Watch(snapshot.DirSource{Dir: filepath.Dir(r.dir)}, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Close)
	return w.Status
}

// J12: a store that is deleted under a running daemon comes back with the champion, and one that is deleted before a
// start with the next refit.
// The numbers continue from the state, so that consumers take what comes; so they do with the log deleted.
func TestLostStore(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "lost")
	status := r.consumer()
	taken := int64(0) // the newest version that the consumer has
	takes := func(what string, version int64) {
		t.Helper()
		daemontest.Within(t, daemontest.Patience, what,
			func() bool { return status().Version > taken && status().Version >= version })
		taken = status().Version
	}
	champion := func() snapshot.Pointer {
		t.Helper()
		p, err := r.store.Alias("ratings", pointer.Champion)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	remove := func(path ...string) { // in one step: a consumer that reads at that time would refuse half a version
		t.Helper()
		if err := os.Rename(filepath.Join(append([]string{filepath.Dir(r.dir)}, path...)...), filepath.Join(t.TempDir(),
			"removed")); err != nil {
			t.Fatal(err)
		}
	}
	r.publish()
	r.publish()
	first := champion()
	takes("the champion", first.Version) // else it would be at it while the files go

	remove()
	takes("a champion in the store made again", first.Version+1)
	second := champion()
	if second.Sequence <= first.Sequence || second.Version != 3 {
		t.Errorf("after the loss %+v, before it %+v", second, first)
	}
	for _, alias := range []string{snapshot.Latest, "refit"} { // they are moved after champion
		daemontest.Within(t, daemontest.Patience, alias, func() bool {
			p, err := r.store.Alias("ratings", alias)
			return err == nil && p.Version == second.Version
		})
	}
	remove("ratings", "log.jsonl")
	third := r.publish()
	if third.Version != 4 || third.Sequence <= second.Sequence {
		t.Errorf("after the loss of the log %+v, before it %+v", third, second)
	}
	r.stop()

	remove("ratings", "log.jsonl")
	r.start()
	fourth := r.publish()
	if fourth.Version != 5 || fourth.Sequence <= third.Sequence {
		t.Errorf("started without a log: %+v, before %+v", fourth, third)
	}
	r.stop()
	takes("the last version before the store is lost", champion().Version) // else it would be at it while the files go

	remove()
	r.start()
	fifth := r.publish()
	if fifth.Version != 6 || fifth.Sequence <= fourth.Sequence || champion().Version != 6 {
		t.Errorf("started without a store: %+v, before %+v", fifth, fourth)
	}
	takes("what comes after a start without a store", 6)
	if s := status(); s.Refused != 0 {
		t.Errorf("the consumer refused %d versions: %v", s.Refused, s.Err)
	}
	r.stop()
	if n := strings.Count(r.log.String(), `"level":"ERROR"`); n != 0 {
		t.Errorf("%d errors in the log:\n%s", n, r.log.String())
	}
}
