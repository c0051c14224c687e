package sketch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// mountTmpfs mounts a file system of the given size, or skips the test.
func mountTmpfs(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// occupy writes a file of the given size.
func occupy(t *testing.T, name string, bytes int64) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	block := make([]byte, 1<<20)
	for ; bytes > 0; bytes -= int64(len(block)) {
		_, err = f.Write(block[:min(bytes, int64(len(block)))])
		must(t, err)
	}
	must(t, f.Close())
}

// fingerprint is the hash and time of every file below dir.
func fingerprint(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = fmt.Sprint(sha256.Sum256(b), st.ModTime())
		return nil
	}))
	return out
}

// TestFullDisk: a state is not opened without the space to do so, and nothing of it is touched; with the space it is
// all there.
func TestFullDisk(t *testing.T) {
	mount := mountTmpfs(t, 120)
	dir := filepath.Join(mount, "state")
	o := damageOptions(dir)
	o.MinFreeBytes = 40 << 20
	s := mustOpen(t, o)
	must(t, rereadLog(s, 2000), s.Close())
	free, err := FreeBytes(dir)
	must(t, err)
	occupy(t, filepath.Join(mount, "filler"), free-o.MinFreeBytes+1<<20)

	before := fingerprint(t, dir)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("Open on a full disk: %v", err)
	}
	if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
		t.Error("refusing to open changed the state")
	}
	must(t, os.Remove(filepath.Join(mount, "filler")))
	s = mustOpen(t, o)
	must(t, rereadLog(s, damageLog), s.Check(), s.Close())
}

// TestCloseOnAFullDisk: closing gives up rather than write a table that does not fit, and the next start has
// everything.
func TestCloseOnAFullDisk(t *testing.T) {
	mount := mountTmpfs(t, 120)
	dir := filepath.Join(mount, "state")
	out := runHelper(t, "close-full", dir)
	if !strings.Contains(out, "free space") {
		t.Errorf("closing on a full disk said %q", out)
	}
	must(t, os.Remove(filepath.Join(dir, "filler")))
	s := mustOpen(t, damageOptions(dir))
	if next, _ := s.Position("a", 0); next != damageLog {
		t.Errorf("next is %d after a close on a full disk, want %d", next, damageLog)
	}
	must(t, s.Check(), s.Close())
}

// TestDiskFillsUnderACommit: a process that dies of a full disk (Badger's mapped files end it with SIGBUS) has lost
// nothing that it acknowledged.
func TestDiskFillsUnderACommit(t *testing.T) {
	mount := mountTmpfs(t, 60)
	dir := filepath.Join(mount, "state")
	cmd := helper(t, "fill", dir)
	text, died := cmd.Output()
	if died == nil {
		t.Fatal("the disk did not fill")
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		t.Fatal("nothing was acknowledged before the disk was full")
	}
	acknowledged, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	must(t, err, os.Remove(filepath.Join(mount, "filler")))
	s := mustOpen(t, fillOptions(dir))
	next, _ := s.Position("a", 0)
	if next < acknowledged {
		t.Errorf("next is %d, %d was acknowledged", next, acknowledged)
	}
	t.Logf("%v after %d offsets", died, acknowledged)
	must(t, s.Check(), s.Close())
}

// helperVerb names the environment variable that turns the test binary into one of the processes below.
const helperVerb = "SKETCH_HELPER"

func helper(t *testing.T, verb, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperVerb+"="+verb, "SKETCH_HELPER_DIR="+dir)
	return cmd
}

// runHelper returns what the process printed; it must not die.
func runHelper(t *testing.T, verb, dir string) string {
	t.Helper()
	out, err := helper(t, verb, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	return string(out)
}

func fillOptions(dir string) Options {
	return Options{Dir: dir, Size: 1 << 20, Seed: 1, MemTableBytes: 8 << 20}
}

// help is what such a process does.
func help(verb, dir string) {
	switch verb {
	case "open":
		s, err := Open(context.Background(), damageOptions(dir))
		if err == nil {
			err = s.Close()
		}
		fmt.Println(err)
	case "open-limited":
		limit := syscall.Rlimit{Cur: 8 << 20, Max: 8 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			log.Fatal(err)
		}
		help("open", dir)
	case "hold":
		s, err := Open(context.Background(), damageOptions(dir))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("held")
		os.Stdin.Read(make([]byte, 1)) // until the parent ends it
		s.Close()
	case "close-full":
		s, err := Open(context.Background(), damageOptions(dir))
		if err == nil {
			err = rereadLog(s, damageLog)
		}
		if err != nil {
			log.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "filler"))
		for err == nil { // until the disk is full
			_, err = f.Write(make([]byte, 64<<10))
		}
		fmt.Println(s.Close())
	case "fill":
		s, err := Open(context.Background(), fillOptions(dir))
		if err == nil {
			err = s.Begin("a", 0, 0)
		}
		if err != nil {
			log.Fatal(err)
		}
		filler, err := os.Create(filepath.Join(filepath.Dir(dir), "filler"))
		for next := int64(0); ; next += 100 {
			if err == nil {
				_, err = filler.Write(make([]byte, 256<<10))
			}
			p := &Part{Topic: "a", Base: next, Next: next + 100}
			for i := range int64(100) {
				p.Records = append(p.Records,
					Record{Offset: next + i, Fate: Applied, Weight: 1, Payload: make([]byte, 1000)})
			}
			if err := s.Apply(p, nil); err != nil {
				log.Fatal(err)
			}
			fmt.Println(p.Next)
		}
	}
}

// TestInUse: the second process gets an error at once that names the holder of the state. A lock whose owner was
// killed blocks no process.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	cmd := helper(t, "hold", dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Process.Signal(syscall.SIGSTOP)) // stopped is not dead
	start := time.Now()
	_, err = Open(t.Context(), damageOptions(dir))
	if want := fmt.Sprintf("state directory is in use by pid %d", cmd.Process.Pid); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want ErrLocked with %q", err, want)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("the answer took %v", d)
	}
	must(t, cmd.Process.Signal(syscall.SIGCONT), cmd.Process.Kill())
	cmd.Wait() // reports the kill
	in.Close()
	must(t, mustOpen(t, damageOptions(dir)).Close())
}

// TestUnwritable: what the system refuses is reported before Badger is opened, with the path and what to do.
func TestUnwritable(t *testing.T) {
	t.Run("file size limit", func(t *testing.T) {
		if out := runHelper(t, "open-limited", t.TempDir()); !strings.Contains(out, "file too large") ||
			!strings.Contains(out, fmt.Sprint(32<<20)) {
			t.Errorf("refused with %q", out)
		}
	})
	t.Run("another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("taking another user's place needs root")
		}
		binary := filepath.Join(t.TempDir(), "test")
		content, err := os.ReadFile(os.Args[0])
		must(t, err, os.WriteFile(binary, content, 0o755))
		dir := filepath.Join(t.TempDir(), "state")
		must(t, mustOpen(t, damageOptions(dir)).Close())
		for d := filepath.Dir(dir); d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
			must(t, os.Chmod(d, 0o755))
		}
		for d := filepath.Dir(binary); d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
			must(t, os.Chmod(d, 0o755))
		}
		cmd := helper(t, "open", dir)
		cmd.Path, cmd.Dir = binary, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "permission denied") ||
			!strings.Contains(text, dir) ||
			!strings.Contains(text, "user id 65534") {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		mount := mountTmpfs(t, 120)
		dir := filepath.Join(mount, "state")
		s := mustOpen(t, damageOptions(dir))
		must(t, rereadLog(s, 1000), s.Close())
		must(t, syscall.Mount("", mount, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		if _, err := Open(t.Context(), damageOptions(dir)); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("error %v", err)
		}
		must(t, syscall.Mount("", mount, "tmpfs", syscall.MS_REMOUNT, ""))
		s = mustOpen(t, damageOptions(dir))
		must(t, rereadLog(s, damageLog), s.Check(), s.Close())
	})
}

// TestWitness: a state that has lost its end says how much, begins partitions again where they once began, and is not
// taken for another.
func TestWitness(t *testing.T) {
	o := damageOptions(t.TempDir())
	s := mustOpen(t, o)
	must(t, rereadLog(s, 2000), s.Close())
	old := t.TempDir()
	copyState(t, o.Dir, old)
	s = mustOpen(t, o)
	if len(s.Rollbacks()) > 0 {
		t.Errorf("rollbacks %v of a state that lost nothing", s.Rollbacks())
	}
	must(t, rereadLog(s, 3000), s.Begin("b", 4, 70), s.Close())
	must(t, os.RemoveAll(filepath.Join(o.Dir, rowsName)))
	copyState(t, filepath.Join(old, rowsName), filepath.Join(o.Dir, rowsName))

	for range 2 { // looking at it does not make the loss forgotten
		s, err := OpenExisting(t.Context(), o.Dir, nil)
		must(t, err)
		if want := []Rollback{{Topic: "a", Next: 2000, Witnessed: 3000}}; !reflect.DeepEqual(s.Rollbacks(), want) {
			t.Errorf("rollbacks %v, want %v", s.Rollbacks(), want)
		}
		must(t, s.Close())
	}
	s = mustOpen(t, o)
	if got := s.Rollbacks(); len(got) != 1 || got[0].Offsets() != 1000 {
		t.Errorf("rollbacks %v, want one of 1000", got)
	}
	if next, ok := s.Position("b", 4); !ok || next != 70 {
		t.Errorf("partition b/4 begins at %d (%t), want 70", next, ok)
	}
	must(t, rereadLog(s, 3000), s.Check(), s.Close())
	s = mustOpen(t, o)
	if len(s.Rollbacks()) > 0 {
		t.Errorf("rollbacks %v after the log was read again", s.Rollbacks())
	}
	must(t, s.Close())

	w, err := witness.Read(o.Dir)
	must(t, err)
	w.Partitions[0].Digest = strings.Repeat("0", 64)
	must(t, witness.Write(w, o.Dir))
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "digest") {
		t.Errorf("error %v of a state with another history, want ErrCorrupt", err)
	}
}

// TestWitnessIsWrittenWhenItChanges: a state at rest writes nothing; events, and a subject that is forgotten, are
// witnessed.
func TestWitnessIsWrittenWhenItChanges(t *testing.T) {
	o := damageOptions(t.TempDir())
	s := mustOpen(t, o)
	must(t, s.Witness())
	for _, c := range []struct {
		what  string
		do    func() error
		wants bool
	}{
		{"events", func() error { return rereadLog(s, 1000) }, true},
		{"rest", func() error { return nil }, false},
		{"a subject", func() error { return second(s.ForgetSubject("user", []byte("x"))) }, true},
		{"rest after it", func() error { return nil }, false},
		{"more events", func() error { return rereadLog(s, 1100) }, true},
	} {
		before, err := os.Stat(filepath.Join(o.Dir, witness.Name))
		must(t, err, c.do(), s.Witness())
		after, err := os.Stat(filepath.Join(o.Dir, witness.Name))
		must(t, err)
		if written := !os.SameFile(before, after); written != c.wants {
			t.Errorf("after %s it was written: %t", c.what, written)
		}
		want, err := s.Testify()
		must(t, err)
		if got, err := witness.Read(o.Dir); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after %s it says %+v (%v), want %+v", c.what, got, err, want)
		}
	}
	must(t, s.Close())
}

// TestNewerFormat: a state of a later version is refused before anything is written.
func TestNewerFormat(t *testing.T) {
	o := damageOptions(t.TempDir())
	s := mustOpen(t, o)
	must(t, rereadLog(s, 1000), s.Close())
	w, err := witness.Read(o.Dir)
	must(t, err)
	w.Format = codec.FormatVersion + 1
	must(t, witness.Write(w, o.Dir))
	before := fingerprint(t, o.Dir)
	for _, open := range []func() (*Store, error){
		func() (*Store, error) { return Open(t.Context(), o) },
		func() (*Store, error) { return OpenExisting(t.Context(), o.Dir, nil) },
	} {
		want := fmt.Sprintf("format %d is newer than %d", codec.FormatVersion+1, codec.FormatVersion)
		if _, err := open(); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want ErrFormat with %q", err, want)
		}
	}
	if after := fingerprint(t, o.Dir); !reflect.DeepEqual(before, after) {
		t.Error("refusing to open changed the state")
	}
}

// TestNoValueLog: the largest values there are stay below the size from which on Badger would move them out of its
// tables.
func TestNoValueLog(t *testing.T) {
	row := codec.RowBytes(strings.Repeat("t", 249), policy.Identity{1}, make([]byte, MaxPayloadBytes))
	if largest := max(row, MaxAuxBytes+
		codec.CRCBytes); largest >= storage.ValueThreshold {
		t.Errorf("values of up to %d bytes, Badger keeps those below %d", largest, storage.ValueThreshold)
	}
	s := mustOpen(t, damageOptions(t.TempDir()))
	if err := s.backend.Commit([]storage.Op{{Key: []byte("x"), Value: make([]byte, storage.ValueThreshold)}}); err == nil {
		t.Error("a value of the value log was written")
	}
	must(t, s.Close())
}

// failing is a backend whose commits fail from the given one on.
type failing struct {
	storage.Backend
	commits, from int
}

func (f *failing) Commit(ops []storage.Op) error {
	if f.commits++; f.commits >= f.from {
		return syscall.EIO
	}
	return f.Backend.Commit(ops)
}

// TestStorageErrorIsFinal: after a commit that failed nothing is tried any more (I9), whatever is asked for.
func TestStorageErrorIsFinal(t *testing.T) {
	s, err := NewMemory(damageOptions(""))
	must(t, err, rereadLog(s, 500))
	f := &failing{Backend: s.backend, from: 3}
	s.backend = f
	if err := rereadLog(s, 2000); !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("error %v", err)
	}
	for name, err := range map[string]error{
		"Apply": rereadLog(s, 3000), "Begin": s.Begin("b", 0, 0), "Halt": s.Halt("a", 0, "x"), "AcceptGap": s.AcceptGap("a",
			0, 9999),
	} {
		if !errors.Is(err, ErrStorage) {
			t.Errorf("%s: %v, want the storage error", name, err)
		}
	}
	if f.commits != 3 {
		t.Errorf("%d commits, the third of which failed", f.commits)
	}
}
