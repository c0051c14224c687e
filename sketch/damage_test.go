package sketch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/sketch/internal/audit"
)

// probeDir names the environment variable that turns the test binary into a process that opens a state, reads the log
// from where the state says, and prints what came of it.
const probeDir = "SKETCH_PROBE_DIR"

// verdict is what a probe prints.
type verdict struct {
	Error     string // of Open
	Corrupt   bool
	Rollbacks []Rollback
	State     *audit.State // after the log was read to its end
}

// damageLog is the length of the log behind the states that are damaged, and damageFlushed how much of it is in tables.
const damageLog, damageFlushed = 9000, 6000

func damageOptions(dir string) Options {
	return Options{Dir: dir, Size: 3000, HoldoutSize: 100, HoldoutFraction: 0.1, Seed: 5, MemTableBytes: 8 << 20}
}

func probe(dir string) {
	var out verdict
	defer func() { json.NewEncoder(os.Stdout).Encode(out) }()
	s, err := Open(context.Background(), damageOptions(dir))
	if err != nil {
		out.Error, out.Corrupt = err.Error(), errors.Is(err, ErrCorrupt)
		return
	}
	out.Rollbacks = s.Rollbacks()
	err = rereadLog(s, damageLog)
	if err == nil {
		out.State, err = s.State()
	}
	if err = errors.Join(err, s.Check(), s.Close()); err != nil {
		out.Error = err.Error()
	}
}

// rereadLog applies mixedLog from the ledger's next to end.
func rereadLog(s *Store, end int64) error {
	if err := s.Begin("a", 0, 0); err != nil {
		return err
	}
	next, _ := s.Position("a", 0)
	records := mixedLog(int(end))
	for ; next < end; next, _ = s.Position("a", 0) {
		p := &Part{Topic: "a", Base: next, Next: min(next+100, end)}
		for _, r := range records {
			if r.Offset >= p.Base && r.Offset < p.Next {
				p.Records = append(p.Records, r)
			}
		}
		if err := s.Apply(p, nil); err != nil {
			return err
		}
	}
	return nil
}

// runProbe opens a state in another process. One that dies without an answer fails the test.
func runProbe(t *testing.T, dir string) verdict {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), probeDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var out verdict
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("the process died: %v\n%.2000s", err, stderr.String())
	}
	return out
}

// copyState copies a state directory as a kill at this moment would leave it: Badger maps its files, so reading them
// shows what was written.
func copyState(t testing.TB, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		return copySparse(path, filepath.Join(to, rel))
	}))
}

// copySparse leaves out blocks of zeros: the logs of Badger are mostly empty.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	at := int64(0)
	for {
		n, err := io.ReadFull(in, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if err != nil {
			break
		}
	}
	return errors.Join(out.Truncate(at), out.Close())
}

// killedState returns a directory as a kill leaves it, with tables and a live log, its witness a while behind, and the
// state that the whole log gives.
func killedState(t *testing.T) (dir string, want *audit.State) {
	t.Helper()
	live := t.TempDir()
	s := mustOpen(t, damageOptions(live))
	must(t, rereadLog(s, damageFlushed/2), s.Close())
	s = mustOpen(t, damageOptions(live))
	must(t, rereadLog(s, damageFlushed), s.Close())
	s = mustOpen(t, damageOptions(live))
	must(t, rereadLog(s, damageLog-500), s.Witness(), rereadLog(s, damageLog-100))
	dir = t.TempDir()
	copyState(t, live, dir)
	must(t, s.Close())

	m, err := NewMemory(damageOptions(""))
	must(t, err, rereadLog(m, damageLog))
	return dir, stateOf(t, m)
}

// files returns the files of a state directory that match a pattern and hold something, the fullest first if there are
// several.
func filesOf(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(names) == 0 {
		t.Fatalf("no %s in %s", pattern, dir)
	}
	return names
}

// written returns how many bytes of a file come before its last that is not zero.
func written(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return len(bytes.TrimRight(b, "\x00"))
}

func edit(t *testing.T, name string, f func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err, os.WriteFile(name, f(b), 0o600))
}

// TestDamage: whatever is done to a file of a killed state, it is either refused as damaged, with the name of the file,
// or opened as an earlier state, from which the log gives again what it gave.
func TestDamage(t *testing.T) {
	tier.NotUnderRace(t)
	dir, want := killedState(t)
	rng := rand.New(rand.NewPCG(11, 7))
	flips := tier.Size(2, 50)
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1 << rng.IntN(8); return b }
	}
	type damage struct {
		name, file string
		change     func(b []byte) []byte
		refused    bool // must be
	}
	var cases []damage
	for _, kind := range []struct {
		pattern string
		refused bool
	}{{"rows/*.mem", false}, {"rows/*.sst", true}, {"rows/MANIFEST", true}, {"WITNESS", true}, {"rows/KEYREGISTRY", false},
		{"rows/DISCARD",
			false}, {"rows/*.vlog", false}} {
		names := filesOf(t, dir, kind.pattern)
		some := flips
		if strings.Contains("rows/KEYREGISTRY rows/DISCARD rows/*.vlog", kind.pattern) { // they hold nothing
			some = min(flips, 10)
		}
		for i := range some {
			name := names[rng.IntN(len(names))]
			n := written(t, name)
			if n == 0 {
				break
			}
			at := rng.IntN(n)
			if i%5 == 0 && kind.refused { // the end is index and footer of a table
				at = n - 1 - rng.IntN(min(n, 40))
			}
			cases = append(cases, damage{fmt.Sprintf("bit of byte %d", at), name, flip(at), kind.refused})
		}
		if !tier.Asked(tier.Long) { // one file of a kind
			names = names[:min(len(names), 1)]
		}
		for _, name := range names {
			n := written(t, name)
			zeroFrom, zeroTo := n/3, min(n, n/3+100<<10)
			cases = append(
				cases,
				damage{"cut in the middle", name, func(b []byte) []byte { return b[:n/2] }, kind.refused},
				damage{"emptied", name, func([]byte) []byte { return nil }, kind.refused},
				damage{"deleted", name, nil, kind.pattern == "rows/*.sst" || kind.pattern == "rows/MANIFEST"},
				damage{
					"100 KB zeroed",
					name,
					func(b []byte) []byte { clear(b[zeroFrom:zeroTo]); return b },
					kind.refused && n > 3,
				},
			)
		}
	}
	cases = append(cases,
		damage{"copied while in use", filesOf(t, dir, "rows/MANIFEST")[0], func(b []byte) []byte { return b }, false})
	cases = append(
		cases,
		damage{
			"value log written",
			filesOf(t, dir, "rows/*.vlog")[0],
			func(b []byte) []byte { return append(b[:20], 0x40, 1, 1, 1) },
			true,
		},
	)

	behind, refused := 0, 0
	for i, c := range cases {
		rel, err := filepath.Rel(dir, c.file)
		must(t, err)
		t.Run(fmt.Sprintf("%s %s", filepath.Base(rel), c.name), func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), fmt.Sprint(i))
			copyState(t, dir, copied)
			name := filepath.Join(copied, rel)
			if c.change == nil {
				must(t, os.Remove(name))
			} else {
				edit(t, name, c.change)
			}
			out := runProbe(t, copied)
			switch {
			case out.Error != "":
				refused++
				if !out.Corrupt || !strings.Contains(out.Error, filepath.Base(rel)) {
					t.Errorf("refused with %q, want ErrCorrupt and the name of the file", out.Error)
				}
			case c.refused:
				t.Error("opened")
			default:
				if len(out.Rollbacks) > 0 {
					behind++
				}
				out.State.Lineage = ""
				if fmt.Sprintf("%+v", out.State) != fmt.Sprintf("%+v", want) {
					t.Errorf("state after reading again\n%+v, want\n%+v", out.State, want)
				}
			}
		})
	}
	t.Logf("%d damages: %d refused, %d rolled back and read again", len(cases), refused, behind)
	if behind == 0 {
		t.Error("no damage to the log was noticed by the witness")
	}
}

// TestYoungState: a state whose every row is still in the log of the database, and loses it, begins its partitions
// again where they began.
func TestYoungState(t *testing.T) {
	live := t.TempDir()
	s := mustOpen(t, damageOptions(live))
	must(t, s.Begin("b", 1, 40), rereadLog(s, 3000), s.Witness())
	dir := filepath.Join(t.TempDir(), "copy")
	copyState(t, live, dir)
	want := stateOf(t, s)
	must(t, s.Close())
	for _, name := range filesOf(t, dir, "rows/*.mem") {
		must(t, os.Remove(name))
	}
	s = mustOpen(t, damageOptions(dir))
	if got := s.Rollbacks(); len(got) != 1 || got[0] != (Rollback{Topic: "a", Partition: 0, Next: 0, Witnessed: 3000}) {
		t.Errorf("rollbacks %v", got)
	}
	must(t, rereadLog(s, 3000))
	if got := stateOf(t, s); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("state after reading again\n%+v, want\n%+v", got, want)
	}
	must(t, s.Close())
}
