package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
)

// child makes or restores a backup in a child process: configuration and file are its arguments.
func child(mode string, out *report.Emitter, log *slog.Logger) int {
	runtime.LockOSThread() // calls of the system are counted by thread
	conf, err := config.Load(os.Args[1])
	if err == nil {
		model, ctx := &conf.Models[0], context.Background()
		dir := conf.StatePath(model)
		if mode == "backup" {
			err = Backup(ctx, dir, model.Name, os.Args[2], nil, log, out)
		} else {
			err = Restore(ctx, dir, model, os.Args[2], "", nil, log, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return report.CodeOf(err)
}

// traced runs a child under strace, which does something to its calls of the system, and returns how many renames of
// one thread there were.
func (e *erased) traced(mode, file string, inject ...string) (calls int, err error) {
	e.T.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		e.T.Skip("strace is not installed: a process cannot be killed at a call of the system")
	}
	list := filepath.Join(e.Dir, "calls")
	args := append([]string{"-f", "-o", list, "-e", "trace=rename,renameat,renameat2"}, inject...)
	cmd := exec.CommandContext(e.T.Context(), strace, append(args, os.Args[0], e.path, file)...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	if out, runErr := cmd.CombinedOutput(); runErr != nil {
		err = fmt.Errorf("%w: %s", runErr, out)
	}
	text, readErr := os.ReadFile(list)
	if readErr != nil {
		e.T.Fatal(readErr)
	}
	return renames(string(text), len(inject) == 0), err
}

// erased is a model that has read a subject, was backed up, and has then forgotten it.
type erased struct {
	*daemontest.Bench
	path, dir, store, backup, older string
	conf                            *config.Config
	model                           *config.Model
}

const subject = "anna-the-erased"

func newErased(t *testing.T) *erased {
	t.Helper()
	e := &erased{Bench: daemontest.New(t)}
	e.ProduceRatings(61, 1000)
	for i := range 20 {
		e.Produce(fmt.Appendf(nil, `{"user":%q,"item":"i%d","rating":%d,"ts":1700000000000}`, subject, i%7, 1+i%5))
	}
	e.path = e.Configure("erased", append(daemontest.Simple, "group_id: g-erased", "group_id: g-erased")...)
	e.conf, e.model, e.dir = daemontest.Load(t, e.path)
	e.store, e.backup, e.older = e.model.Publish.Store, filepath.Join(e.Dir, "with.backup"), filepath.Join(e.Dir,
		"older")
	if o := e.Run(e.path); o.Err != nil {
		t.Fatal(o.Err)
	}
	if e.rows() != 20 {
		t.Fatalf("%d rows of the subject to begin with", e.rows())
	}
	quiet := report.NewEmitter(new(bytes.Buffer), true)
	forget := Erasure{Dir: e.dir, Model: e.model, Field: "user", Value: subject, Log: daemontest.Quiet()}
	for _, err := range []error{
		os.CopyFS(e.older, os.DirFS(e.dir)),
		Backup(t.Context(), e.dir, e.model.Name, e.backup, nil, daemontest.Quiet(), quiet),
		forget.Forget(t.Context(), quiet),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// rows counts the subject's rows in the state.
func (e *erased) rows() int {
	e.T.Helper()
	store, err := sketch.OpenExisting(e.T.Context(), e.dir, daemontest.Quiet())
	if err != nil {
		e.T.Fatal(err)
	}
	n, err := ingest.CountRows(e.model, store, "user", subject)
	if err := store.Close(); err != nil {
		e.T.Error(err)
	}
	if err != nil {
		e.T.Fatal(err)
	}
	return n
}

// fresh runs the daemon to the log ends with --start-fresh, and checks that it learned nothing of the subject.
func (e *erased) fresh(what string) {
	e.T.Helper()
	d, err := daemon.New(e.T.Context(), daemon.Options{Config: e.conf, UntilEnd: true, StartFresh: true,
		Out: report.NewEmitter(new(bytes.Buffer), true), Log: daemontest.Quiet()})
	if err == nil {
		err = d.Run(e.T.Context())
	}
	if err != nil {
		e.T.Fatalf("%s: %v", what, err)
	}
	if n := e.rows(); n > 0 {
		e.T.Errorf("%s: %d rows of the subject came back", what, n)
	}
	err = filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte(subject)) {
			e.T.Errorf("%s: %s knows the subject by name (%v)", what, path, err)
		}
		return nil
	})
	if err != nil {
		e.T.Fatal(err)
	}
}

// TestErasedStaysOut (J13): whatever becomes of the state, an erased subject does not come back while its records are
// still in the topic.
func TestErasedStaysOut(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	quiet := report.NewEmitter(new(bytes.Buffer), true)
	restore := func() error {
		return Restore(t.Context(), e.dir, e.model, e.backup, "", nil, daemontest.Quiet(), quiet)
	}
	remove := func(paths ...string) error {
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
		return nil
	}
	rebuild := func(r *Rebuild) error {
		r.Config, r.Model, r.Out, r.Log = e.conf, e.model, quiet, daemontest.Quiet()
		return r.Run(t.Context())
	}
	both := func(first error, then func() error) error {
		if first != nil {
			return first
		}
		return then()
	}
	storage := e.conf.Storage.Path
	for _, c := range []struct {
		what   string
		damage func() error
	}{
		{"nothing", func() error { return nil }},
		{"the backup from before, restored", restore},
		{"that backup over a state whose WITNESS is gone", func() error {
			return both(remove(filepath.Join(e.dir, "WITNESS")),
				restore)
		}},
		{"that backup where the state was", func() error { return both(remove(e.dir), restore) }},
		{"a copy of the directory from before", func() error {
			return both(remove(e.dir), func() error { return os.CopyFS(e.dir, os.DirFS(e.older)) })
		}},
		{"the state removed", func() error { return remove(e.dir) }},
		{"everything below storage.path removed", func() error { return remove(storage) }},
		{"the state and the store removed", func() error { return remove(e.dir, e.store) }},
		{"the state and one of the lists removed, the other damaged", func() error {
			return both(remove(e.dir, e.dir+config.ForgottenSuffix), func() error {
				return os.WriteFile(e.dir+config.ForgottenSuffix, []byte("{"), 0o600)
			})
		}},
		{"rebuilt without a WITNESS", func() error {
			return both(remove(filepath.Join(e.dir, "WITNESS")), func() error { return rebuild(&Rebuild{Earliest: true}) })
		}},
		{"rebuilt from the backup", func() error { return rebuild(&Rebuild{Backup: e.backup}) }},
	} {
		if err := c.damage(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		e.fresh(c.what)
	}
	e.Produce(fmt.Appendf(nil, `{"user":%q,"item":"i1","rating":3,"ts":1700000000000}`, subject))
	if o := e.Run(e.path); o.Err != nil || e.rows() != 1 {
		t.Errorf("an event after the erasure: %d rows, %v", e.rows(), o.Err)
	}
	for _, path := range []string{e.dir, filepath.Join(e.store, e.model.Name, "forgotten"), e.dir +
		config.ForgottenSuffix} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(e.dir+config.ForgottenSuffix, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := e.Run(e.path); report.CodeOf(o.Err) != report.ExitState ||
		!strings.Contains(o.Err.Error(), "which subjects were erased") {
		t.Errorf("without a list that can be read: %v", o.Err)
	}
}

// renames counts, in what strace has written, the renames of the thread that made the last one.
func renames(calls string, exchanges bool) (n int) {
	lines := slices.DeleteFunc(strings.Split(calls, "\n"),
		func(l string) bool { return !strings.Contains(l, "rename") || strings.Contains(l, "resumed") })
	thread, _, _ := strings.Cut(lines[len(lines)-1], " ")
	for _, l := range lines {
		if strings.HasPrefix(l, thread+" ") && (exchanges || !strings.Contains(l, "renameat2(")) {
			n++
		}
	}
	return n
}

// TestKilledReplacement (J13): a restore is killed at each of the renames at its end. The next start finds a state, the
// old one or the new, and the erased subject does not come back; where two names cannot be exchanged, too.
func TestKilledReplacement(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	if _, err := e.traced("restore", e.backup); err != nil {
		t.Skipf("strace cannot trace here: %v", err)
	}
	const last = 5
	for _, system := range []struct {
		what, calls string
		inject      []string
	}{
		{"exchange", "rename,renameat,renameat2", nil},
		{"no exchange", "rename,renameat", []string{"-e", "inject=renameat2:error=EINVAL"}},
	} {
		calls, err := e.traced("restore", e.backup, system.inject...)
		if err != nil {
			t.Fatal(err)
		}
		if calls < last {
			t.Fatalf("%d renames", calls)
		}
		for n := calls - last + 1; n <= calls; n++ {
			inject := append(
				[]string{"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", system.calls, n)},
				system.inject...)
			if _, err := e.traced("restore", e.backup, inject...); err == nil {
				if n < calls-1 { // the database may have had one more to make the other time
					t.Fatalf("%s: not killed at rename %d of %d", system.what, n, calls)
				}
				continue
			}
			o := e.Run(e.path)
			if o.Err != nil {
				t.Fatalf("%s, killed at rename %d of %d: %v", system.what, n, calls, o.Err)
			}
			if rows := e.rows(); rows != 0 || daemontest.Balanced(t, o.State(t)) != 1020 {
				t.Errorf("%s, killed at rename %d of %d: %d rows of the subject, %+v", system.what, n, calls, rows,
					o.State(t))
			}
		}
	}
}

// TestTwoRestores (J14): restores and rebuilds of one state at once take turns or are refused; none hangs, and none
// takes another's files away.
func TestTwoRestores(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	quiet := func() *report.Emitter { return report.NewEmitter(new(bytes.Buffer), true) }
	for round := range 5 {
		results := make(chan error, 4)
		for range 2 {
			go func() {
				results <- Restore(t.Context(), e.dir, e.model, e.backup, "", nil, daemontest.Quiet(), quiet())
			}()
			go func() {
				r := Rebuild{Config: e.conf, Model: e.model, Backup: e.backup, Out: quiet(), Log: daemontest.Quiet()}
				results <- r.Run(t.Context())
			}()
		}
		done, late := 0, time.After(daemontest.Patience)
		for range cap(results) {
			select {
			case err := <-results:
				if err == nil {
					done++
				} else if report.CodeOf(err) != report.ExitState || !strings.Contains(err.Error(), "under way") || !errors.Is(err,
					sketch.ErrLocked) {
					t.Errorf("round %d: %v", round, err)
				}
			case <-late:
				t.Fatalf("round %d: they hang", round)
			}
		}
		if done == 0 {
			t.Errorf("round %d: none was done", round)
		}
	}
	e.fresh("restores at once")
}

// TestNotOurs (J14, J15): files and folders at the place of a state, which were not made for it, are left alone.
func TestNotOurs(t *testing.T) {
	t.Parallel()
	e := newErased(t)
	for _, suffix := range []string{config.RestoreSuffix, config.RebuildSuffix} {
		if err := os.CopyFS(e.dir+suffix, os.DirFS(e.older)); err != nil {
			t.Fatal(err)
		}
	}
	quiet := report.NewEmitter(new(bytes.Buffer), true)
	r := Rebuild{Config: e.conf, Model: e.model, Out: quiet, Log: daemontest.Quiet()}
	for suffix, err := range map[string]error{
		config.RestoreSuffix: Restore(t.Context(), e.dir, e.model, e.backup, "", nil, daemontest.Quiet(), quiet),
		config.RebuildSuffix: r.Run(t.Context()),
	} {
		if report.CodeOf(err) != report.ExitState || !errors.Is(err, statedir.ErrNotOurs) ||
			!strings.Contains(err.Error(), e.dir+suffix) {
			t.Errorf("%s: %v", suffix, err)
		}
		if _, err := os.Stat(filepath.Join(e.dir+suffix, "rows", "MANIFEST")); err != nil {
			t.Errorf("%s was touched: %v", suffix, err)
		}
	}
}
