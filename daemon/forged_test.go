package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// attacked is a model with a signing key, and a store that somebody without it can write to.
type attacked struct {
	*daemontest.Bench
	path   string
	dir    string
	store  *publish.Store // as the attacker has it: no keys
	theirs *format.Signer
	trust  snapshot.Trust
	log    *locked.Buffer
	daemon *daemon.Daemon
	cancel context.CancelFunc
	done   chan error
}

func newAttacked(t *testing.T) *attacked {
	a := &attacked{Bench: daemontest.New(t), log: &locked.Buffer{}}
	keys := filepath.Join(a.Dir, "keys")
	id, err := publish.CreateKeys(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.trust.Keys, err = format.LoadKeys(filepath.Join(keys, id+".pub")); err != nil {
		t.Fatal(err)
	}
	other, err := publish.CreateKeys(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.theirs, err = format.LoadSigner(filepath.Join(keys, other+".key")); err != nil {
		t.Fatal(err)
	}
	a.path = a.Configure("f", append(daemontest.Simple, "every_events: 0", "every_events: 500", "update_every: 0s",
		"update_every: 50ms, signing_key_file: keys/"+id+".key")...)
	a.dir = filepath.Join(a.Dir, "store-f")
	a.store = publish.NewStore(a.dir)
	return a
}

// start runs the daemon until stop.
func (a *attacked) start() {
	a.T.Helper()
	conf, err := config.Load(a.path)
	if err != nil {
		a.T.Fatal(err)
	}
	a.daemon, err = daemon.New(a.T.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true),
		Log: slog.New(slog.NewTextHandler(a.log, nil))})
	if err != nil {
		a.T.Fatal(err)
	}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(a.T.Context())
	a.done = make(chan error, 1)
	go func() { a.done <- a.daemon.Run(ctx) }()
}

func (a *attacked) stop() {
	a.T.Helper()
	a.cancel()
	if err := <-a.done; err != nil {
		a.T.Fatal(err)
	}
}

// champion is what a consumer with the key gets.
func (a *attacked) champion() snapshot.Manifest {
	m, err := a.trust.Open(a.dir, "ratings", snapshot.Selector{})
	if err != nil {
		return snapshot.Manifest{}
	}
	return m.Manifest()
}

func (a *attacked) versions() []int64 {
	a.T.Helper()
	all, err := a.store.Versions("ratings")
	if err != nil {
		a.T.Fatal(err)
	}
	return all
}

// plant publishes what the champion is, with another answer, signed by signer or nobody, and moves aliases to it.
func (a *attacked) plant(signer *format.Signer, aliases ...string) int64 {
	a.T.Helper()
	m, err := snapshot.Open(a.dir, "ratings", snapshot.Selector{Version: a.champion().Version})
	if err != nil {
		a.T.Fatal(err)
	}
	c := m.Contents()
	c.Bias = append([]float64(nil), c.Bias...)
	c.Bias[0] += 7
	c.Meta.Kind, c.Meta.Decision = "refit", "promoted"
	for i := range c.Golden {
		c.Golden[i] = format.Golden{Input: c.Golden[i].Input}
	}
	forger := publish.NewStore(a.dir)
	forger.Signer, forger.By = signer, "attacker"
	var moves []publish.Move
	for _, alias := range aliases {
		moves = append(moves, publish.Move{Alias: alias})
	}
	forged, err := forger.Publish(a.T.Context(), "ratings", c, moves...)
	if err != nil {
		a.T.Fatal(err)
	}
	return forged.Version
}

// served is the version that answers a score over HTTP, or "" with the status.
func (a *attacked) served() (version string, status int) {
	a.T.Helper()
	answer, err := http.Post("http://"+a.daemon.Addr()+"/v1/models/ratings/score", "application/json",
		strings.NewReader(`{"events":[{"user":"u1","item":"i2"}]}`))
	if err != nil {
		a.T.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.Header.Get("X-Model-Version"), answer.StatusCode
}

// metric is the value of the counter of refusals.
func (a *attacked) refusals() string {
	a.T.Helper()
	answer, err := http.Get("http://" + a.daemon.Addr() + "/metrics")
	if err != nil {
		a.T.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		a.T.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if value, ok := strings.CutPrefix(string(line), `refitd_snapshot_untrusted_total{model="ratings"} `); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

const refusalLine = "in the store and not signed by our keys"

// J1: a daemon with a key does not take up, build on, sign or serve what was planted in its store while it runs:
// unsigned, signed by somebody else, or a version made by the daemon under an alias that it did not sign. The alias
// moves back, and publishing continues.
func TestPlantedWhileRunning(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	a.start()
	defer func() {
		if t.Failed() {
			a.cancel()
			t.Log(a.log)
		}
	}()
	a.ProduceRatings(1, 600)
	daemontest.Within(t, daemontest.Patience, "a champion over HTTP",
		func() bool { version, _ := a.served(); return number(version) > 0 })
	forged := map[int64]bool{}
	for i, attack := range []func() int64{
		func() int64 {
			return a.plant(nil, pointer.Champion, "refit")
		},
		func() int64 { return a.plant(a.theirs, pointer.Champion, "refit") },
		func() int64 { // a genuine version under an alias that nobody signed
			_, err := a.store.MoveAlias(t.Context(), "ratings", publish.Move{Alias: pointer.Champion, To: 1})
			if err != nil {
				t.Fatal(err)
			}
			return 0
		},
	} {
		counted := number(a.refusals())
		forged[attack()] = true
		daemontest.Within(t, daemontest.Patience, "the refusal", func() bool {
			version, status := a.served()
			if status != http.StatusOK || forged[number(version)] {
				t.Fatalf("attack %d: version %s is served, status %d", i, version, status)
			}
			return number(a.refusals()) > counted
		})
		daemontest.Within(t, daemontest.Patience, "the alias to move back",
			func() bool { return a.champion().Version > 0 })
		before := a.champion()
		a.ProduceRatings(uint64(10+i), 600)
		daemontest.Within(t, daemontest.Patience, "the next champion",
			func() bool { return a.champion().Version > before.Version })
		daemontest.Within(t, daemontest.Patience, "its being served",
			func() bool { version, _ := a.served(); return number(version) > before.Version })
	}
	a.stop()
	if !a.log.Has(refusalLine) || !a.log.Has("alias=champion") {
		t.Error("no log line of the refusal")
	}
	versions, err := a.store.Versions("ratings")
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, v := range versions {
		m, err := a.store.Manifest("ratings", v)
		if err != nil {
			t.Fatal(err)
		}
		if forged[v] {
			left++
			continue
		}
		if m.Parent != nil && forged[*m.Parent] {
			t.Errorf("version %d was judged against the forged version %d", v, *m.Parent)
		}
		for f := range forged {
			if d, err := a.store.Manifest("ratings", f); err == nil && m.Previous == d.Digest {
				t.Errorf("version %d is linked to the forged version %d", v, f)
			}
		}
	}
	if left != 2 {
		t.Errorf("%d of 2 forged versions are left where they were put", left)
	}
}

// J1: the same before the daemon starts, and a directory whose number would leave none for the next version.
func TestPlantedBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(a *attacked){
		"unsigned":       func(a *attacked) { a.plant(nil, pointer.Champion, "refit") },
		"of another key": func(a *attacked) { a.plant(a.theirs, pointer.Champion, "refit") },
		"unsigned alias": func(a *attacked) {
			a.alias(pointer.Champion)
			a.alias("refit")
			a.alias(
				snapshot.Latest)
		},
		"files of a version exchanged": (*attacked).exchange,
		"the largest number is taken": func(a *attacked) {
			a.plant(nil, pointer.Champion)
			a.directory(
				"9007199254740991")
		},
		"signatures taken away": (*attacked).strip,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttacked(t)
			a.ProduceRatings(1, 800)
			if run := a.Run(a.path); run.Err != nil {
				t.Fatal(run.Err)
			}
			good, before := a.champion(), a.versions()
			attack(a)
			forged := make(map[int64]bool)
			for _, v := range a.versions() {
				forged[v] = !slices.Contains(before, v)
			}
			a.start()
			defer a.stop()
			cold := strings.HasPrefix(name, "sign") || strings.HasPrefix(name, "files")
			if !cold {
				daemontest.Within(t, daemontest.Patience, "the last good version over HTTP", func() bool {
					version, status := a.served()
					if status == http.StatusOK && number(version) != good.Version {
						t.Fatalf("version %s is served, the last good one is %d", version, good.Version)
					}
					return status == http.StatusOK
				})
			} else if version, status := a.served(); status == http.StatusOK {
				t.Errorf("version %s is served", version)
			}
			if n := a.refusals(); n < "1" {
				t.Errorf("%q refusals are counted", n)
			}
			if !a.log.Has(refusalLine) {
				t.Error("no log line of the refusal")
			}
			a.ProduceRatings(2, 600)
			daemontest.Within(t, daemontest.Patience, "the next version",
				func() bool { return a.champion().Version > good.Version })
			m := a.champion()
			if m.Parent != nil && (*m.Parent < good.Version || forged[*m.Parent]) {
				t.Errorf("version %d was judged against %d, the last good one is %d", m.Version, *m.Parent,
					good.Version)
			}
		})
	}
}

// number reads a version, 0 if it is no number.
func number(version string) (n int64) {
	_, _ = fmt.Sscan(version, &n)
	return n
}

// alias sets an alias to the champion without a signature.
func (a *attacked) alias(name string) {
	a.T.Helper()
	m, err := snapshot.Open(a.dir, "ratings", snapshot.Selector{})
	if err == nil {
		_, err = a.store.MoveAlias(a.T.Context(), "ratings", publish.Move{Alias: name, To: m.Manifest().Version})
	}
	if err != nil {
		a.T.Fatal(err)
	}
}

// exchange puts the files of a forged version in the place of every version there is.
func (a *attacked) exchange() {
	a.T.Helper()
	versions, err := a.store.Versions("ratings")
	if err != nil {
		a.T.Fatal(err)
	}
	forged := a.plant(nil)
	root := filepath.Join(a.dir, "ratings")
	for _, v := range versions {
		if err := os.RemoveAll(filepath.Join(root, fmt.Sprint(v))); err != nil {
			a.T.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(root, fmt.Sprint(v)), os.DirFS(filepath.Join(root, fmt.Sprint(
			forged)))); err != nil {
			a.T.Fatal(err)
		}
	}
}

// strip takes the signatures of all versions away.
func (a *attacked) strip() {
	a.T.Helper()
	files, err := filepath.Glob(filepath.Join(a.dir, "ratings", "*", "manifest.sig"))
	if err != nil || len(files) == 0 {
		a.T.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			a.T.Fatal(err)
		}
	}
}

func (a *attacked) directory(name string) {
	a.T.Helper()
	if err := os.Mkdir(filepath.Join(a.dir, "ratings", name), 0o755); err != nil {
		a.T.Fatal(err)
	}
}
