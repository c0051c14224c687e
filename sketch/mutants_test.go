package sketch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// A mutant is a way to get it wrong: an edit of the code, or something that the harness does wrong around it.
type mutant struct {
	name           string
	file, old, new string // the edit: old, once in file, becomes new, and MUTANT in it whether this mutant is the one
	driver         driver
	silent         bool // must not be noticed: the harness lacks the fault that shows it
	joined         bool // of the join with outcomes, which other histories play: see outcomes_test.go
	shared         bool // of samples that are merged: see merge_test.go
}

// mutants are classic ways to lose or to count twice, ways to get a policy wrong, and bugs that this code once had.
var mutants = []mutant{
	{
		name: "no guard against offsets below next",
		file: "apply.go",
		old:  "if r.Offset < l.Next {",
		new:  "if r.Offset < l.Next && !MUTANT {",
	},
	{
		name: "priority without seed",
		file: "apply.go",
		old:  "r.id = policy.Identity(sum[:16])",
		new:  "if MUTANT { rand.Read(sum[:]) }\nr.id = policy.Identity(sum[:16])",
	},
	{
		name: "digest without offset",
		file: "internal/ledger/row.go",
		old:  "uint64(offset))",
		new:  "map[bool]uint64{false: uint64(offset)}[MUTANT])",
	},
	{name: "no gap check", file: "apply.go", old: "if p.LogStart > next {",
		new: "if MUTANT { p.LogStart, p.Base = min(p.LogStart, next), min(p.Base, next) }\nif p.LogStart > next {"},
	{
		name: "batch kept over a rollback",
		file: "apply.go",
		old:  "if p.Base > next {",
		new:  "if p.Base > next && !MUTANT {",
	},
	{name: "only the first of several parts taken", file: "apply.go", old: "if err := s.take(p, aux); err != nil {",
		new: "if MUTANT && p != parts[0] { continue }\nif err := s.take(p, aux); err != nil {"},
	{name: "rows without ledger", driver: driver{withoutLedger: true}},
	{name: "ledger without rows", driver: driver{withoutRows: true}},
	{name: "transaction written in pieces", driver: driver{torn: true}},
	{name: "record skipped at resume", driver: driver{skipAtResume: true}},
	{name: "control records applied", driver: driver{controlApplied: true}},
	{name: "aborted records applied", driver: driver{abortedApplied: true}},
	{name: "group's offset trusted at the start", driver: driver{brokerOffset: true}},
	{name: "join adds counts", driver: driver{joinAdds: true}},
	{name: "join keeps the older copy", driver: driver{joinOlder: true}},
	{
		name:   "join keeps the older copy, log never truncated",
		driver: driver{joinOlder: true, noTruncation: true},
		silent: true,
	},
	{name: "rebuild without markers", driver: driver{forgetsMarkers: true}},
	{
		name: "holes at the end of a part not counted",
		file: "apply.go",
		old:  "l.Holes += p.Next - l.Next",
		new:  "if !MUTANT { l.Holes += p.Next - l.Next }",
	},
	{name: "aux written with the first piece", file: "apply.go", old: "if err := s.commit(nil); err != nil {",
		new: "if err := s.commit(map[bool][]byte{true: aux}[MUTANT]); err != nil {"},
	{
		name: "eviction not in the other partition's account",
		file: "apply.go",
		old:  "s.ledger.At(out[i].Place).Rows[r.Role]--",
		new:  "if !MUTANT { s.ledger.At(out[i].Place).Rows[r.Role]-- }",
	},
	{name: "incarnation not in the identity", file: "apply.go", old: "draw.ByOffset(p.Topic, at.incarnation,",
		new: "draw.ByOffset(p.Topic, map[bool]uint32{false: at.incarnation}[MUTANT],"},
	{
		name: "threshold learns of put out rows alone",
		file: "internal/reservoir/reservoir.go",
		old:  "r.Lose(e.Rank)\n",
		new:  "if !MUTANT { r.Lose(e.Rank) }\n",
	},
	{name: "one row more than the capacity", file: "internal/reservoir/reservoir.go",
		old: "{ return len(r.Entries) < r.Capacity }",
		new: "{ return len(r.Entries) < r.Capacity || MUTANT && len(r.Entries) == r.Capacity }"},
	{
		name: "upsert by arrival",
		file: "apply.go",
		old:  "newer = r.Time > old.Time",
		new:  "newer = r.Time > old.Time || MUTANT",
	},
	{name: "quota of the wrong class", file: "internal/reservoir/samples.go",
		old: "sum := draw.ByBytes(policy.DomainGroup, []byte(q.Class))",
		new: "if MUTANT { q.Class += \"0\" }\nsum := draw.ByBytes(policy.DomainGroup, []byte(q.Class))"},
	{name: "quota rounded down", file: "internal/policy/settings.go", old: "math.Ceil(float64(share * float64(size)))",
		new: "map[bool]func(float64) float64{false: math.Ceil, true: math.Floor}[MUTANT](float64(share * float64(size)))"},
	{
		name: "cap keeps the first rows",
		file: "internal/reservoir/reservoir.go",
		old:  "if e.compare(&least) < 0 {",
		new:  "if e.compare(&least) < 0 || MUTANT {",
	},
	{
		name: "cap's displaced rows raise the threshold",
		file: "internal/reservoir/reservoir.go",
		old:  "r.out = append(r.out, r.remove(int(r.positions[least.ID])))",
		new:  "r.out = append(r.out, r.remove(int(r.positions[least.ID])))\nif MUTANT { r.Lose(r.out[len(r.out)-1].Rank) }",
	},
	{name: "room after an erasure is for anyone", file: "internal/reservoir/reservoir.go",
		old: "return r.Evicted && e.Rank <= r.Threshold\n",
		new: "return r.Evicted && e.Rank <= r.Threshold && !MUTANT\n"},
	{
		name: "smaller size keeps the old threshold",
		file: "forget.go",
		old:  "if i >= losers {",
		new:  "if i >= losers && !MUTANT {",
	},
	{name: "erasure raises the threshold", file: "forget.go", old: "entries, len(entries), func(n int)",
		new: "entries, map[bool]int{false: len(entries)}[MUTANT], func(n int)"},
	{
		name: "resize not finished after a crash",
		file: "open.go",
		old:  "} else if chosen.Unsettled ||",
		new:  "} else if chosen.Unsettled && !MUTANT ||",
	},
	{name: "marker done before its rows are out", file: "forget.go", old: "victims, err := s.rowsOf(ctx, &m, values)",
		new: "m.Done = MUTANT\nvictims, err := s.rowsOf(ctx, &m, values)"},
	{
		name: "marker without a cut",
		file: "forget.go",
		old:  "s.ledger.At(place).Incarnation == at.Incarnation && offset < at.Next",
		new:  "s.ledger.At(place).Incarnation == at.Incarnation && (offset < at.Next || MUTANT)",
	},
	{
		name: "bug: a subject forgotten again, in a state made anew, is forgotten less",
		file: "forget.go",
		old:  "ledger.Extend(&m, old.Cut) //",
		new:  "if !MUTANT { ledger.Extend(&m, old.Cut) } //",
	},
	{name: "bug: a smaller size never leaves a sample more room", file: "resize.go",
		old: "if !s.samples.Resize(&chosen) {",
		new: "if grows := s.samples.Resize(&chosen); !grows || MUTANT && chosen.Size <= s.settings.Size && " +
			"chosen.HoldoutSize <= s.settings.HoldoutSize {"},
	{
		name: "checkpoints never thinned",
		file: "internal/ledger/checkpoint.go",
		old:  "if n := m.records / every; n != newest",
		new:  "if n := m.records / every; MUTANT || n != newest",
	},
	{
		name: "checkpoints of a lost end kept",
		file: "checkpoint.go",
		old:  "s.pending.Put(codec.CheckpointKey(&l, l.Next), false,",
		new:  "if MUTANT { l.Next++ }\ns.pending.Put(codec.CheckpointKey(&l, l.Next), false,",
	},
	{name: "rows stay when their outcomes are given up", joined: true, file: "join.go",
		old: "e != nil && stubs.Excludes(e.Rank)", new: "e != nil && !MUTANT && stubs.Excludes(e.Rank)"},
	{name: "outcomes stay when their rows are given up", joined: true, file: "join.go",
		old: "e != nil && rows.Excludes(e.Rank)", new: "e != nil && !MUTANT && rows.Excludes(e.Rank)"},
	{name: "outcome before its event dropped", joined: true, file: "join.go", old: "if r.TakesBack {\n\t\t\treturn nil",
		new: "if r.TakesBack || MUTANT && s.samples.All[r.Role].Find(r.id) == nil {\n\t\t\treturn nil"},
	{name: "tombstone ignored", joined: true, file: "join.go", old: "changed = of.TakeBack(",
		new: "changed = !MUTANT && of.TakeBack("},
	{name: "tombstone takes back what other partitions had", joined: true, file: "internal/stub/stub.go",
		old: "return l.compareList(&of) == 0 })", new: "return l.compareList(&of) == 0 || MUTANT })"},
	{name: "emptied list leaves its place", joined: true, file: "internal/stub/stub.go",
		old: "s.lists[i].outcomes = nil\n",
		new: "s.lists[i].outcomes = nil\nif MUTANT { s.lists = slices.Delete(s.lists, i, i+1) }\n"},
	{name: "outcomes kept by arrival", joined: true, file: "internal/stub/stub.go",
		old: "if full := len(l.outcomes) >= MaxOutcomes; full && order == Latest {",
		new: "if full := len(l.outcomes) >= MaxOutcomes; full && MUTANT { return false } else if full && order == Latest {"},
	{name: "latest outcomes given up for the earliest", joined: true, file: "internal/stub/stub.go",
		old: "full && order == Latest {", new: "full && (order == Latest) != MUTANT {"},
	{name: "stub not read from the piece at hand", joined: true, file: "join.go",
		old: "if value, ok := s.pending.RowValue(key); ok {",
		new: "if value, ok := s.pending.RowValue(key); ok && !MUTANT {"},
	{name: "thresholds of outcomes lost at a restart", joined: true, file: "open.go",
		old: "r.Evicted, r.Threshold = acc.Of(i)\n",
		new: "if r.Evicted, r.Threshold = acc.Of(i); MUTANT && r.Stubs { r.Evicted, r.Threshold = false, 0 }\n"},
	{name: "merged outcomes replace those of other shards", shared: true, file: "join.go",
		old: "if err == nil && have.Merge(of) {",
		new: "if err == nil && MUTANT { have = of }\nif err == nil && have.Merge(of) || MUTANT {"},
	{name: "sides of a shard's sample raised apart", shared: true, file: "mirror.go",
		old: "if rows := &t[r.Role]; r.Stubs &&", new: "if rows := &t[r.Role]; MUTANT {} else if r.Stubs &&"},
	{name: "smaller size leaves the sides apart", joined: true, file: "resize.go",
		old: "if err := s.alignAll(); err != nil {", new: "if MUTANT {} else if err := s.alignAll(); err != nil {"},
}

// setMutant chooses the mutant, -1 none, in a build that has them.
var setMutant func(int)

// TestMutantsFit: what each of them changes is in its file, once.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		if m.file == "" {
			continue
		}
		text, err := os.ReadFile(m.file)
		if n := bytes.Count(text, []byte(m.old)); err != nil || n != 1 {
			t.Errorf("%s: %d times in %s: %s (error %v)", m.name, n, m.file, m.old, err)
		}
	}
}

// TestMutants: the histories notice each way to get it wrong. The edits are laid over the code for a second build of
// this test, so that the code itself knows nothing of them. testdata/mutants.txt has a seed for each that shows it;
// -update searches for those that are not noticed by theirs.
func TestMutants(t *testing.T) {
	tier.Need(t, tier.Long) // a second build of this package
	if setMutant == nil {
		runOverlaid(t)
		return
	}
	name := filepath.Join("testdata", "mutants.txt")
	seeds := map[string]int{}
	text, err := os.ReadFile(name)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var seed int
		number, mutant, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if _, err := fmt.Sscan(number, &seed); err == nil {
			seeds[mutant] = seed
		}
	}
	var table strings.Builder
	fmt.Fprintln(&table,
		"seed\tmutant: what the history of the seed shows, or that none does because a fault is left out")
	for i, m := range mutants {
		noticed := func(seed int) error {
			p := plans.Example(seed)
			defer setMutant(-1)
			setMutant(i)
			if m.shared {
				return runTeam(uint64(seed))
			}
			if m.joined {
				return playOutcomes(uint64(seed))
			}
			return run(p, m.driver, nil)
		}
		if m.silent {
			for seed := range 30 {
				if err := noticed(seed); err != nil {
					t.Errorf("%s: noticed by seed %d: %v", m.name, seed, err)
				}
			}
			fmt.Fprintf(&table, "-\t%s\n", m.name)
			continue
		}
		seed, ok := seeds[m.name]
		if ok = ok && noticed(seed) != nil; *update {
			for at := 0; at < 100_000 && !ok; at++ {
				seed, ok = at, noticed(at) != nil
			}
		}
		if !ok {
			t.Errorf("%s: not noticed by seed %d", m.name, seed)
		}
		fmt.Fprintf(&table, "%d\t%s\n", seed, m.name)
	}
	if *update {
		must(t, os.WriteFile(name, []byte(table.String()), 0o644))
	}
}

// runOverlaid builds this test with the mutants in the code and runs it.
func runOverlaid(t *testing.T) {
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	must(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	lay := func(file string, text string) {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		must(t, os.WriteFile(to, []byte(text), 0o600))
		overlay.Replace[filepath.Join(here, file)] = to
	}
	edited := map[string]string{}
	for i, m := range mutants {
		if m.file == "" {
			continue
		}
		text, ok := edited[m.file]
		if !ok {
			b, err := os.ReadFile(m.file)
			must(t, err)
			text = string(b)
		}
		if n := strings.Count(text, m.old); n != 1 {
			t.Fatalf("%s: %d times in %s: %s", m.name, n, m.file, m.old)
		}
		edited[m.file] = strings.Replace(text, m.old,
			strings.ReplaceAll(m.new, "MUTANT", fmt.Sprintf("(Mutated == %d)", i)), 1)
	}
	edited["apply.go"] = strings.Replace(edited["apply.go"], "package sketch\n",
		"package sketch\n\nimport \"crypto/rand\"\n", 1)
	var imports, set strings.Builder // a variable in each room that is edited, and what sets all of them
	rooms := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(edited)) {
		lay(file, edited[file])
		in := filepath.Dir(file)
		if rooms[in] {
			continue
		}
		rooms[in] = true
		name, of := filepath.Base(in), filepath.Base(in)+"."
		if in == "." {
			name, of = "sketch", ""
		} else {
			fmt.Fprintf(&imports, "import %q\n", "github.com/refitd/refitd/sketch/"+in)
		}
		lay(filepath.Join(in, "mutated.go"), "package "+name+"\n\nvar Mutated = -1\n")
		fmt.Fprintf(&set, "%sMutated = i\n", of)
	}
	lay("mutated_test.go", fmt.Sprintf("package sketch\n\n%s\nfunc init() { setMutant = func(i int) {\n%s} }\n",
		&imports, &set))
	text, err := json.Marshal(overlay)
	must(t, err, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	args := []string{"test", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^TestMutants$", "-count=1", "."}
	if *update {
		args = append(args, "-update")
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("no tests to run")) {
		t.Fatalf("%v\n%s", errors.Join(err), out)
	}
}
