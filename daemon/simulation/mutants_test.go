//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/mutant"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// mutants are ways for a daemon to lose, to count twice, to publish what there is not yet, or to stop for good; seed is of a history that shows it.
var mutants = []struct {
	name string
	seed int
	mutant.Edit
}{
	{"resume off by one", 1, mutant.Edit{File: "daemon/model/reader.go", Old: "\tread.OnHalt, read.OnPause,",
		New: "\tif MUTANT { read.Start = func(t string, p int32) (int64, bool) { n, ok := state.store.Position(t, p); return n + 1, ok } }\n" +
			"\tread.OnHalt, read.OnPause,"}},
	{"progressive sums beside the transaction", 1, mutant.Edit{File: "daemon/ingest/queue.go", Old: "q.storing[len(q.storing)-1].sums)",
		New: "map[bool][]byte{false: q.storing[len(q.storing)-1].sums}[MUTANT])"}},
	{"markers taken for records", 1, mutant.Edit{File: "consumer/walker.go", Old: "case h.attributes&attrControl != 0:",
		New: "case h.attributes&attrControl != 0 && !MUTANT:"}},
	{"a lost connection is lost for good", 1, mutant.Edit{File: "consumer/fetcher.go", Old: "if backoff.Sleep(ctx, c.source.pause(err, tries)) != nil {",
		New: "if MUTANT { <-ctx.Done() }\nif backoff.Sleep(ctx, c.source.pause(err, tries)) != nil {"}},
	{"alias before the version", 1, mutant.Edit{File: "snapshot/store.go", Old: "if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {",
		New: `if MUTANT {
				r, all := Record{Event: EventPublish}, append([]Move{{Alias: Latest}}, moves...)
				r.describe(&manifest)
				for i := range all { all[i].To = manifest.Version }
				if err := s.commit(root, model, &r, all); err != nil { return err }
				return s.writeVersion(ctx, root, manifest.Version, staged)
			}
			if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {`}},
	{"retention up to next taken for a gap", 2, mutant.Edit{File: "sketch/apply.go", Old: "if p.LogStart > next {",
		New: "if p.LogStart > next || MUTANT && p.LogStart == next && next > 0 {"}},
	{"only the first of several parts taken", 1, mutant.Edit{File: "sketch/apply.go", Old: "if err := s.take(p, aux); err != nil {",
		New: "if MUTANT && p != parts[0] { continue }\nif err := s.take(p, aux); err != nil {"}},
}

// TestMutants: the history of its seed notices each of them. With -histories more than 1 it looks for a seed among as many.
func TestMutants(t *testing.T) {
	tier.Need(t, tier.Long) // a second build of the daemon
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var edits []mutant.Edit
	for _, m := range mutants {
		edits = append(edits, m.Edit)
	}
	binary := filepath.Join(t.TempDir(), "mutants")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-vet=off", "-tags", "failpoint,simulation",
		"-overlay", mutant.Overlay(t, root, edits), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var wait sync.WaitGroup
	work := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range work {
				m := mutants[i]
				for seed := m.seed; ; seed++ {
					c := exec.CommandContext(t.Context(), binary, "-test.run", "^TestHistories$", "-test.timeout", "4m",
						"-first", fmt.Sprint(seed), "-histories", "1", "-shrink=false")
					c.Env = append(os.Environ(), fmt.Sprint(mutant.Variable, "=", i))
					out, err := c.CombinedOutput()
					if err != nil {
						t.Logf("%s: noticed by seed %d: %s", m.name, seed, why(out))
						break
					}
					if seed-m.seed+1 >= *count {
						t.Errorf("%s: not noticed by seed %d", m.name, seed)
						break
					}
				}
			}
		})
	}
	for i := range mutants {
		work <- i
	}
	close(work)
	wait.Wait()
}

// why is what a history says of its end.
func why(out []byte) string {
	for line := range bytes.Lines(out) {
		if s := string(line); strings.Contains(s, "seed ") || strings.HasPrefix(s, "panic") {
			return strings.TrimSpace(s)[:min(len(strings.TrimSpace(s)), 200)]
		}
	}
	return "no line of it"
}
