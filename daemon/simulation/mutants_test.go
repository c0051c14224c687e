//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/mutant"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// A wrong is a way to lose, to count twice, to publish what there is not yet, or to stop for good; seed is of a history
// that shows it, of these kinds of steps alone.
type wrong struct {
	name  string
	kinds string
	seed  int
	mutant.Edit
}

const stepsOfMutants = "14"

// mutants are shown by histories of a daemon.
var mutants = []wrong{
	{"resume off by one", "", 1, mutant.Edit{File: "daemon/model/read/reader.go", Old: "\tread.OnHalt, read.OnPause,",
		New: "\tif MUTANT { read.Start = func(t string, p int32) (int64, bool) { n, ok := state.Store.Position(t, p); " +
			"return n + 1, ok } }\n" +
			"\tread.OnHalt, read.OnPause,"}},
	{"progressive sums outside the transaction", "", 1, mutant.Edit{File: "daemon/ingest/queue.go",
		Old: "q.storing[len(q.storing)-1].sums)",
		New: "map[bool][]byte{false: q.storing[len(q.storing)-1].sums}[MUTANT])"}},
	{
		"markers taken for records",
		"",
		1,
		mutant.Edit{File: "consumer/walker.go", Old: "case h.attributes&attrControl != 0:",
			New: "case h.attributes&attrControl != 0 && !MUTANT:"},
	},
	{"a lost connection is lost for good", "", 6, mutant.Edit{File: "consumer/fetcher.go",
		Old: "return backoff.Sleep(ctx, c.source.pause(err, tries))",
		New: "if MUTANT { <-ctx.Done() }\nreturn backoff.Sleep(ctx, c.source.pause(err, tries))"}},
	{"alias before the version", "kill,produce", 4, mutant.Edit{File: "snapshot/publish/store.go",
		Old: "if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {",
		New: `if MUTANT {
				r, all := Record{Event: EventPublish}, append([]Move{{Alias: pointer.Latest}}, moves...)
				r.describe(&manifest)
				for i := range all { all[i].To = manifest.Version }
				if err := s.commit(root, model, last, &r, all); err != nil { return err }
				return s.writeVersion(ctx, root, manifest.Version, staged)
			}
			if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {`}},
	{
		"only the first of several parts taken",
		"",
		1,
		mutant.Edit{File: "sketch/apply.go", Old: "if err := s.take(p, aux); err != nil {",
			New: "if MUTANT && p != parts[0] { continue }\nif err := s.take(p, aux); err != nil {"},
	},
	{
		"a cut before the ledger",
		"produce,stop,idle",
		4,
		mutant.Edit{File: "daemon/ingest/samples.go", Old: "Partition: c.Partition, Next: c.Next})\n\t}\n",
			New: "Partition: c.Partition, Next: c.Next + map[bool]int64{true: 1}[MUTANT]})\n\t}\n"},
	},
	{
		"retention up to next taken for a gap",
		"produce,stop,retention",
		2,
		mutant.Edit{File: "sketch/apply.go", Old: "if p.LogStart > next {",
			New: "if p.LogStart > next || MUTANT && p.LogStart == next && next > 0 {"},
	},
	{"a delta out of the chain", "", 1, mutant.Edit{File: "daemon/publish/deltas.go", Old: "c.file.Sequence()+1,",
		New: "c.file.Sequence()+1+map[bool]int64{true: 1}[MUTANT],"}},
}

// mutantsOfTeams are shown by histories of a team.
var mutantsOfTeams = []wrong{
	{
		"a threshold falls",
		"produce,kill",
		2,
		mutant.Edit{File: "sketch/mirror.go", Old: "if !t.Evicted || r.Evicted && t.Rank <= r.Threshold {",
			New: "if MUTANT && t.Evicted { r.Threshold = t.Rank }\n\tif !t.Evicted || r.Evicted && t.Rank <= r.Threshold {"},
	},
	{
		"lost rows are not missed",
		"lost tail,produce",
		1,
		mutant.Edit{File: "daemon/shard/incoming.go", Old: "missing := r.missing(in, number, &h)\n",
			New: "missing := r.missing(in, number, &h)\n\tif MUTANT { missing = 0 }\n"},
	},
	{
		"a lost end is not sent again",
		"lost tail,stop",
		1,
		mutant.Edit{File: "daemon/shard/sender.go", Old: "if err != nil || acknowledged.compare(mark{}) == 0 {",
			New: "if MUTANT { s.after = mark{} }\n\tif err != nil || acknowledged.compare(mark{}) == 0 || MUTANT {"},
	},
	{
		"what a run before has sent is not missed",
		"lost start,stop",
		1,
		mutant.Edit{File: "daemon/shard/incoming.go", Old: "h.After.compare(in.head) <= 0\n",
			New: "h.After.compare(in.head) <= 0 || MUTANT\n"},
	},
	{
		"two processes stay one shard",
		"taken for dead,produce",
		1,
		mutant.Edit{File: "daemon/shard/sender.go", Old: "\tif other != nil {",
			New: "\tif other != nil && !MUTANT {"},
	},
	{
		"the trainer resumes off by one",
		"stop between,produce",
		1,
		mutant.Edit{File: "daemon/shard/resume.go", Old: "\tr.next, r.end = resume, end\n",
			New: "\tif MUTANT && ok { resume++ }\n\tr.next, r.end = resume, end\n"},
	},
	{"the memo is not kept", "produce,stop", 2, mutant.Edit{File: "daemon/shard/memo.go", Old: "\tif len(memo) > 0 {",
		New: "\tif len(memo) > 0 && !MUTANT {"}},
	{"what changed after an excerpt is taken for sent", "produce,kill,slow", 1, mutant.Edit{
		File: "sketch/internal/mirror/notes.go", Old: "\treturn e.notes\n",
		New: "\tif MUTANT {\n\t\tfor e.notes = nil; uint64(len(e.notes)) < n.next; {\n\t\t\t" +
			"e.notes = append(e.notes, noteKey(uint64(len(e.notes))))\n\t\t}\n\t}\n" +
			"\treturn e.notes\n"}},
	{
		"a head that is behind is trusted",
		"fall back,produce",
		1,
		mutant.Edit{File: "sketch/internal/share/share.go", Old: "if l.Next < own.Next {",
			New: "if l.Next < own.Next && !MUTANT {"},
	},
	{"a head without some partitions is trusted", "fall back,produce", 3, mutant.Edit{File: "daemon/shard/incoming.go",
		Old: "!r.takes() && !r.covers(number, &h)", New: "!r.takes() && !MUTANT && !r.covers(number, &h)"}},
	{"rows of an instance before are taken", "arrive late,produce", 1, mutant.Edit{File: "daemon/shard/incoming.go",
		Old: "case c < 0:\n\t\treturn false", New: "case c < 0:\n\t\treturn MUTANT"}},
	{"what waits of others is not read again", "stop between,produce", 1, mutant.Edit{File: "daemon/shard/incoming.go",
		Old: "i != number && other.waiting != nil", New: "i != number && other.waiting != nil && !MUTANT"}},
	{"rows beyond the accounts are taken", "fall back,produce", 1, mutant.Edit{File: "sketch/merge.go",
		Old: "place < 0 || row.Offset >= s.ledger.At(place).Next",
		New: "place < 0 || row.Offset >= s.ledger.At(place).Next && !MUTANT"}},
	{"a version of less than was published", "lost start,produce", 2, mutant.Edit{File: "daemon/model/state/state.go",
		Old: "\tfor _, c := range s.Published {", New: "\tif MUTANT { return \"\" }\n\tfor _, c := range s.Published {"}},
}

// mutantsOfGroups are shown by histories of processes to which a group gives the shards.
var mutantsOfGroups = []wrong{
	{"a shard that was taken away keeps running", "leave,produce", 1, mutant.Edit{File: "daemon/shard/group.go",
		Old: "\t\tg.Taken(shards, lost)\n",
		New: "\t\tif !MUTANT { g.Taken(shards, lost) }\n"}},
	{"a shard taken up from its first head", "log gone", 1, mutant.Edit{File: "daemon/shard/incoming.go",
		Old: "in.kept, in.gaps = share, r.gaps\n", New: "if in.gaps = r.gaps; in.kept == nil || !MUTANT {\n\t\t\tin.kept " +
			"= share\n\t\t}\n"}},
	{"a shard taken up from nothing", "log gone", 1, mutant.Edit{File: "daemon/shard/takeup.go",
		Old: "if in.kept == nil {", New: "if in.kept == nil || MUTANT {"}},
	{"a shard taken up from later than all was sent", "log gone", 1, mutant.Edit{File: "daemon/shard/takeup.go",
		Old: "return min(last.From, wished), nil", New: "if MUTANT {\n\t\treturn end - 1, nil\n\t}\n\treturn " +
			"min(last.From, wished), nil"}},
	{"a state that was left behind is used again", "log gone", 1, mutant.Edit{File: "daemon/shard/sender.go",
		Old: "if s.Moves && !s.taken {", New: "if s.Moves && !s.taken && !MUTANT {"}},
	{"a shard given up before its last change is out", "produce", 1, mutant.Edit{File: "daemon/shard/sender.go",
		Old: "\t\tcase <-done:\n", New: "\t\tcase <-done:\n\t\t\tif MUTANT { return nil }\n"}},
}

var only = flag.String("mutant", "", "a part of the names of the mutants that are tried")

// TestMutantsFit: what each of them changes is in its file, once.
func TestMutantsFit(t *testing.T) {
	for _, m := range slices.Concat(mutants, mutantsOfTeams, mutantsOfGroups) {
		text, err := os.ReadFile(filepath.Join("../..", m.File))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if n := bytes.Count(text, []byte(m.Old)); n != 1 {
			t.Errorf("%s: %d times in %s: %s", m.name, n, m.File, m.Old)
		}
	}
}

// TestMutants: the history of its seed notices each of them. With -histories more than 1 it looks for a seed among as
// many.
func TestMutants(t *testing.T) {
	tier.Need(t, tier.Long) // a second build of the daemon
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var edits []mutant.Edit
	all := slices.Concat(mutants, mutantsOfTeams, mutantsOfGroups)
	for _, m := range all {
		edits = append(edits, m.Edit)
	}
	binary := filepath.Join(t.TempDir(), "mutants")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-vet=off", "-tags",
		"failpoint,simulation", "-overlay", mutant.Overlay(t, root, edits), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var wait sync.WaitGroup
	work := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range work {
				m, histories := all[i], "^TestHistories$"
				if !strings.Contains(m.name, *only) {
					continue
				}
				switch {
				case i >= len(mutants)+len(mutantsOfTeams):
					histories = "^TestGroups$"
				case i >= len(mutants):
					histories = "^TestTeams$"
				}
				for seed := m.seed; ; seed++ {
					c := exec.CommandContext(t.Context(), binary, "-test.run", histories, "-test.timeout", "4m",
						"-first", fmt.Sprint(seed), "-histories", "1", "-steps", stepsOfMutants, "-kinds", m.kinds,
						"-shrink=false")
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
	for i := range all {
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
