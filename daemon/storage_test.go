package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// smallDisk mounts a file system of the given size, or skips the test.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// occupy leaves free bytes of the file system of path.
func occupy(t *testing.T, path string, free int64) {
	t.Helper()
	have, err := sketch.FreeBytes(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, have-free), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskPausesReading: at the reserve reading stops, which /-/ready says; with space again it continues without
// a restart, and nothing is lost.
func TestFullDiskPausesReading(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	disk := smallDisk(t, 256)
	b := daemontest.New(t)
	n := 6000
	b.ProduceRatings(21, n)
	path := b.Configure("full", "path: state-full", fmt.Sprintf("path: %q", filepath.Join(disk, "state")), "1MiB",
		"100MiB", "lambda: auto", "lambda: 3")
	cmd, web := daemontest.Endless(t, path)
	applied := func() float64 {
		_, metrics := daemontest.Get(t, web+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total")
	}
	daemontest.Within(t, daemontest.Patience, "the first events", func() bool { return applied() == float64(n) })
	filler := filepath.Join(disk, "filler")
	occupy(t, filler, 60<<20)
	daemontest.Within(t, daemontest.Patience, "not ready for want of disk", func() bool {
		b.ProduceRatings(22, 50)
		n += 50
		status, text := daemontest.Get(t, web+"/-/ready")
		return status == 503 && strings.Contains(text, "disk")
	})
	b.ProduceRatings(23, 20_000)
	n += 20_000
	before := applied()
	if until := time.Now().Add(2 * time.Second); before >= float64(n) {
		t.Error("reading went on")
	} else {
		daemontest.Within(t, daemontest.Patience, "two seconds of silence", func() bool {
			if now := applied(); now != before {
				t.Fatalf("%g events were applied on a full disk", now-before)
			}
			return time.Now().After(until)
		})
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	daemontest.Within(t, daemontest.Patience, "all events, once there is space",
		func() bool { return applied() == float64(n) })
	t.Logf("%d events after a pause, %v from the moment there was space", n, time.Since(start))
	daemontest.Within(t, daemontest.Patience, "ready",
		func() bool { status, _ := daemontest.Get(t, web+"/-/ready"); return status == 200 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // reports the kill
	sameAsCalm(b, path)
}

// sameAsCalm runs a configuration to the log ends and compares its state with one that was never disturbed.
func sameAsCalm(b *daemontest.Bench, path string) {
	b.T.Helper()
	got, want := b.Run(path), b.Run(b.Configure("calm", "lambda: auto", "lambda: 3"))
	if got.Err != nil || want.Err != nil {
		b.T.Fatal(got.Err, want.Err)
	}
	if a, b2 := got.State(b.T), want.State(b.T); !reflect.DeepEqual(a, b2) {
		b.T.Errorf("state\n%+v, undisturbed\n%+v", a, b2)
	}
}

// TestLostState: an empty state whose group has offsets is not begun unless that is asked for.
func TestLostState(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(24, 1500)
	path := b.Configure("lost", "lambda: auto", "lambda: 3")
	first := b.Run(path)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	if err := os.RemoveAll(filepath.Join(b.Dir, "state-lost")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		lost := b.Run(path)
		e := report.ErrorOf(lost.Err)
		if report.CodeOf(lost.Err) != report.ExitState ||
			!strings.Contains(e.Message, "state is empty but group g-lost has offsets") ||
			e.Topic != daemontest.Topic {
			t.Fatalf("lost state: %+v", e)
		}
	}
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d, err := daemon.New(
		t.Context(),
		daemon.Options{
			Config:     conf,
			UntilEnd:   true,
			StartFresh: true,
			Out:        report.NewEmitter(&out, true),
			Log:        daemontest.Quiet(),
		},
	)
	if err == nil {
		err = d.Run(t.Context())
	}
	again := daemontest.Parse(t, out.Bytes(), err)
	if err != nil || !reflect.DeepEqual(again.State(t), first.State(t)) {
		t.Errorf("error %v, state\n%+v, want\n%+v", err, again.State(t), first.State(t))
	}
}

// TestLostStateBesideVersions (J13): a group that has no offsets, as after its retention or under another name, does
// not make a lost state a first one where the store has versions that were cut from the topics.
func TestLostStateBesideVersions(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(45, 1500)
	edit := []string{
		"lambda: auto",
		"lambda: 3",
		"path: state-other",
		"path: state-group",
		"store: store-other",
		"store: store-group",
	}
	first := b.Run(b.Configure("group", edit...))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	if err := os.RemoveAll(filepath.Join(b.Dir, "state-group")); err != nil {
		t.Fatal(err)
	}
	path := b.Configure("other", edit...) // of another group
	for range 2 {
		e := report.ErrorOf(b.Run(path).Err)
		if e.Code != "state" || e.Key != "--start-fresh" ||
			!strings.Contains(e.Message, "state is empty but version 1 in") {
			t.Fatalf("lost state: %+v", e)
		}
	}
}

// TestVanishedState (J14): a daemon whose state directory is removed, or replaced by another one, ends with exit code 5
// within seconds, while events come in and while none do.
func TestVanishedState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events bool
		damage func(dir string) error
	}{
		"removed under load": {true, os.RemoveAll},
		"removed while idle": {false, os.RemoveAll},
		"replaced": {true, func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.CopyFS(dir, os.DirFS(dir+"-moved")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.New(t)
			b.ProduceRatings(46, 2000)
			path := b.Configure("vanished", daemontest.Simple...)
			cmd, web := daemontest.Endless(t, path)
			daemontest.Within(t, daemontest.Patience, "the first events", func() bool {
				_, metrics := daemontest.Get(t, web+"/metrics")
				return daemontest.Sum(t, metrics, "refitd_events_total") == 2000
			})
			if err := c.damage(filepath.Join(b.Dir, "state-vanished", "ratings")); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for seed := uint64(47); ; seed++ {
				if c.events {
					b.ProduceRatings(seed, 200)
				}
				select {
				case <-ended:
				case <-time.After(100 * time.Millisecond):
					if time.Since(start) < daemontest.Patience {
						continue
					}
					t.Fatal("it runs on")
				}
				break
			}
			took := time.Since(start)
			if text := fmt.Sprint(cmd.Stderr); cmd.ProcessState.ExitCode() != report.ExitState ||
				!strings.Contains(text, "state directory is gone") {
				t.Errorf("%v\n%.2000s", cmd.ProcessState, text)
			}
			if took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Logf("ended after %v", took)
		})
	}
}

// TestOlderState: an older copy of the whole state is noticed by what was published since, read on exactly, and nothing
// is published until it has caught up.
func TestOlderState(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(25, 2000)
	edit := []string{
		"lambda: auto",
		"lambda: 3",
		"max_basis: 4",
		"max_basis: 2",
		"every_events: 0",
		"every_events: 300",
		"fetch_max_wait: 100ms",
		"fetch_max_wait: 100ms, max_partition_fetch_bytes: 4KiB",
	}
	path := b.Configure("older", edit...)
	if o := b.Run(path); o.Err != nil {
		t.Fatal(o.Err)
	}
	state, old := filepath.Join(b.Dir, "state-older"), filepath.Join(b.Dir, "old")
	if err := os.CopyFS(old, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(26, 3000)
	second := b.Run(path)
	if second.Err != nil {
		t.Fatal(second.Err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, state); err != nil {
		t.Fatal(err)
	}
	d, stop := b.Start(path)
	daemontest.Within(t, daemontest.Patience, "the end of the log", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		if n := daemontest.Sum(t, metrics, "refitd_state_rollback_offsets_total"); n != 3000 {
			t.Fatalf("rollback of %g offsets, want 3000", n)
		}
		return daemontest.Sum(t, metrics, "refitd_events_total") == 3000
	})
	stop()
	if third := b.Run(path); third.Err != nil || !reflect.DeepEqual(third.State(t), second.State(t)) {
		t.Errorf("error %v, state\n%+v, want\n%+v", third.Err, third.State(t), second.State(t))
	}
	store := publish.NewStore(filepath.Join(b.Dir, "store-older"))
	versions, err := store.Versions("ratings")
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int64{}
	for _, v := range versions {
		m, err := store.Manifest("ratings", v)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Cut {
			if c.Next < next[c.Partition] {
				t.Errorf("version %d was cut at %d of partition %d, an earlier one at %d", v, c.Next, c.Partition,
					next[c.Partition])
			}
			next[c.Partition] = c.Next
		}
	}
	t.Logf("%d versions", len(versions))
}

// tracer returns strace, which makes calls of the system fail, or skips the test.
func tracer(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: writes cannot be made to fail")
	}
	if out, err := exec.Command(strace, "-f", "-e", "inject=msync:error=EIO:when=60000", os.Args[0],
		"-test.run=^$").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v %.200s", err, out)
	}
	return strace
}

// TestStorageErrors: the first write that fails ends the process with exit code 5; the next start continues from what
// is durable; after three in ten minutes it stays down.
func TestStorageErrors(t *testing.T) {
	tier.OfProcesses(t)
	t.Parallel()
	strace := tracer(t)
	b := daemontest.New(t)
	b.ProduceRatings(27, 30_000)
	path := b.Configure("eio", "lambda: auto", "lambda: 3", "fetch_max_wait: 100ms",
		"fetch_max_wait: 100ms, max_partition_fetch_bytes: 4KiB") // one write for each answer of the broker
	for i := range 3 {
		cmd := exec.CommandContext(t.Context(), strace, "-f", "-o", os.DevNull, "-e", "trace=msync",
			"-e", fmt.Sprintf("inject=msync:error=EIO:when=%d+", 8+i), os.Args[0])
		cmd.Env = append(os.Environ(), daemontest.ChildConfig+"="+path)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != report.ExitState || !strings.Contains(stderr.String(), "storage error") ||
			!strings.Contains(stderr.String(), "input/output error") {
			t.Fatalf("run %d: %v\n%.3000s", i, err, stderr.String())
		}
	}
	down := b.Run(path)
	if report.CodeOf(down.Err) != report.ExitState ||
		!strings.Contains(down.Err.Error(), "storage error 3 times in 10m0s") {
		t.Fatalf("after three storage errors: %v", down.Err)
	}
	if err := os.Remove(filepath.Join(b.Dir, "state-eio", "ratings", "storage-errors")); err != nil {
		t.Fatal(err)
	}
	sameAsCalm(b, path)
}

// TestCheckBeforeOpening: a state that the check in another process refuses is not opened.
func TestCheckBeforeOpening(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	conf, err := config.Load(b.Configure("checked"))
	if err != nil {
		t.Fatal(err)
	}
	refused := &report.ExitError{Code: report.ExitState, Err: fmt.Errorf("000001.sst is damaged")}
	var dir string
	_, err = daemon.New(
		t.Context(),
		daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: daemontest.Quiet(),
			CheckState: func(_ context.Context, d string) error { dir = d; return refused }},
	)
	if report.CodeOf(err) != report.ExitState || !strings.Contains(err.Error(), "000001.sst") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
		t.Errorf("state %q was made: %v", dir, err)
	}
}

// TestFullStore (B4): a store that is full does not keep events from being applied. Its versions are logged and
// counted as failures and leave nothing behind. The version before them stays the latest, and publishing continues
// once there is space.
func TestFullStore(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 1)
	b := daemontest.New(t)
	b.ProduceRatings(41, 2000)
	store := filepath.Join(disk, "store")
	d, log, stop := startWith(
		b,
		b.Configure(
			"fullstore",
			append(daemontest.Simple, "store: store-fullstore", fmt.Sprintf("store: %q", store))...),
	)
	defer stop()
	events, published := 2000, func(result string) bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return strings.Contains(metrics, fmt.Sprintf("refitd_publish_total{model=\"ratings\",result=%q} 1\n", result))
	}
	refit := func() {
		t.Helper()
		daemontest.Within(t, daemontest.Patience, "events applied without the store", func() bool {
			_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
			return daemontest.Sum(t, metrics, "refitd_events_total") == float64(events)
		})
		if err := d.Refit("ratings"); err != nil {
			t.Fatal(err)
		}
	}
	refit()
	daemontest.Within(t, daemontest.Patience, "a first version", func() bool { return published("success") })
	filler := filepath.Join(disk, "filler")
	occupy(t, filler, 0)
	b.ProduceRatings(42, 1000)
	events += 1000
	refit()
	daemontest.Within(t, daemontest.Patience, "a version that cannot be published",
		func() bool { return published("failure") })
	names, err := filepath.Glob(filepath.Join(store, "ratings", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if base := filepath.Base(name); !slices.Contains([]string{"1", "aliases", "log.jsonl", ".lock"}, base) {
			t.Errorf("left behind in the store: %s", name)
		}
	}
	if m, err := snapshot.Open(store, "ratings", snapshot.Selector{Alias: snapshot.Latest}); err != nil ||
		m.Manifest().Version != 1 {
		t.Errorf("the latest version on a full disk: %v", err)
	}
	if !strings.Contains(log.String(), `"msg":"publish failed"`) ||
		!strings.Contains(log.String(), "no space left on device") {
		t.Errorf("the log does not say that a publication failed for want of space")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(43, 1000)
	events += 1000
	refit()
	daemontest.Within(t, daemontest.Patience, "a version once there is space", func() bool {
		m, err := snapshot.Open(store, "ratings", snapshot.Selector{Alias: snapshot.Latest})
		return err == nil && m.Manifest().Version > 1
	})
}

// TestSlowDisk: writes that take 200 ms each make a run slow and nothing else.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(44, 4000)
	path := b.Configure("slow", "lambda: auto", "lambda: 3")
	cmd := exec.CommandContext(t.Context(), tracer(t), "-f", "-o", os.DevNull, "-e", "trace=msync", "-e",
		"inject=msync:delay_exit=200000", os.Args[0])
	cmd.Env = append(os.Environ(), daemontest.ChildConfig+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	sameAsCalm(b, path)
}
