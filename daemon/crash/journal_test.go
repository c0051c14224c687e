package crash

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch"
)

// host is a state directory and the ledger of its one topic.
type host struct {
	t      *testing.T
	dir    string
	ledger []sketch.LedgerRow
	log    bytes.Buffer
}

func newHost(t *testing.T, partitions int32) *host {
	h := &host{t: t, dir: t.TempDir()}
	for p := range partitions {
		h.ledger = append(h.ledger, sketch.LedgerRow{Topic: "t", Partition: p})
	}
	return h
}

func (h *host) start() *Journal {
	h.t.Helper()
	j, err := Open(h.dir, h.ledger, new(sync.Mutex), time.Unix(1, 0).UTC(), slog.New(slog.NewTextHandler(&h.log, nil)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { j.hand.Close() }) // of a process that died nobody closes it
	return j
}

// read takes the records from the ledger's next to end as an ingest does, those below stored at once, and reports
// whether dies ended it at one of them.
func (h *host) read(j *Journal, partition int32, end int64, stored bool, dies func(offset int64) bool) bool {
	l := &h.ledger[partition]
	if offset, _, ok := j.Quarantined("t", partition); ok {
		end = min(end, offset)
	}
	if l.Next >= end {
		return false
	}
	careful := j.Suspects("t", partition, l.Next, end)
	stage := Stage(int(l.Next+end) % stages)
	if !careful {
		j.Take(stage, "t", partition, l.Next, end)
	}
	for o := l.Next; o < end; o++ {
		if careful {
			j.Hold("t", partition, o)
		}
		if dies(o) {
			return true
		}
		if careful {
			j.Release()
		}
	}
	j.Done(stage)
	if stored {
		l.Next = end
	}
	return false
}

func at(record int64) func(int64) bool { return func(o int64) bool { return o == record } }

func never(int64) bool { return false }

// TestQuarantine (A8): the fourth start after deaths of one record knows it, whatever batches it was in, also with
// another such record in another partition, and a clean end in between. Passed, it is forgotten.
func TestQuarantine(t *testing.T) {
	h := newHost(t, 3)
	for i, end := range []int64{100, 70, 4000} {
		h.start() // and ends before it reads, which counts for nothing
		j := h.start()
		for p := range int32(3) {
			if _, _, ok := j.Quarantined("t", p); ok {
				t.Fatalf("quarantined after %d deaths", i)
			}
		}
		if !h.read(j, 1, 50, true, never) && !h.read(j, 1, end, true, at(60)) {
			t.Fatal("no death")
		}
	}
	for range 3 { // another one, while the first is kept out
		j := h.start()
		offset, reason, ok := j.Quarantined("t", 1)
		if !ok || offset != 60 || !strings.Contains(reason, "died 3 times with offset 60 of t/1") ||
			!strings.Contains(reason, "--to 61") {
			t.Fatalf("%d %q %t", offset, reason, ok)
		}
		if h.read(j, 1, 4000, true, at(60)) || h.ledger[1].Next != 60 {
			t.Fatalf("read up to %d", h.ledger[1].Next)
		}
		if !h.read(j, 2, 10, true, at(5)) {
			t.Fatal("no death")
		}
	}
	j := h.start()
	if offset, _, ok := j.Quarantined("t", 2); !ok || offset != 5 {
		t.Fatalf("%d %t", offset, ok)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	h.ledger[1].Next = 61     // accept-gap
	h.ledger[2].Incarnation++ // accept-gap --recreated
	j = h.start()
	for p := range int32(3) {
		if offset, _, ok := j.Quarantined("t", p); ok {
			t.Errorf("partition %d is still quarantined at %d", p, offset)
		}
	}
	if _, err := os.Stat(filepath.Join(h.dir, deathsFile)); !os.IsNotExist(err) {
		t.Errorf("%s has nothing to say: %v", deathsFile, err)
	}
}

// TestKillsQuarantineNothing (A8, A1): processes that are killed at random, three of four times with records in hand
// and mostly before anything of them is stored, quarantine nothing.
func TestKillsQuarantineNothing(t *testing.T) {
	h := newHost(t, 4)
	r := rand.New(rand.NewPCG(8, 0))
	most := 0
	for range 1000 {
		j := h.start()
		for i := range j.deaths.Reading {
			s := &j.deaths.Reading[i]
			most = max(most, s.Deaths)
			if s.quarantined() {
				t.Fatalf("quarantined: %+v\n%s", *s, &h.log)
			}
		}
		for range r.IntN(4) {
			p := int32(r.IntN(4))
			end := h.ledger[p].Next + 1 + r.Int64N(500)
			dies := never
			if killed := r.IntN(4) > 0; killed {
				dies = at(h.ledger[p].Next + r.Int64N(2000))
			}
			if h.read(j, p, end, r.IntN(3) == 0, dies) {
				break
			}
		}
		j.hand.Close()
		h.log.Reset()
	}
	t.Logf("at most %d deaths with the same records in hand", most)
}

// TestTrainingDeaths (G4): two deaths in refits in a row are too many, one refit that ends in between makes them none.
func TestTrainingDeaths(t *testing.T) {
	h := newHost(t, 1)
	expect := func(j *Journal, deaths int, tooOften bool) {
		t.Helper()
		if n, _, too := j.TrainingDeaths(); n != deaths || too != tooOften {
			t.Errorf("%d deaths, too often %t, want %d and %t", n, too, deaths, tooOften)
		}
	}
	j := h.start()
	j.BeginTraining()
	j = h.start()
	expect(j, 1, false)
	j.BeginTraining() // one that is interrupted
	j.EndTraining()
	j = h.start()
	expect(j, 1, false)
	j.BeginTraining()
	j = h.start()
	expect(j, 2, true)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = h.start()
	expect(j, 2, true)
	j.ForgetTraining()
	expect(j, 0, false)
	j = h.start()
	expect(j, 0, false)
	j.EndTraining()
	if files, err := filepath.Glob(filepath.Join(h.dir, "*")); err != nil || len(files) != 1 {
		t.Errorf("%v %v, want %s alone", files, err, HandFile)
	}
}

// TestUnreadableNotes: what cannot be read counts for nothing, and is said where it was a file of deaths.
func TestUnreadableNotes(t *testing.T) {
	for _, held := range []string{"", "\n", "t 0 5 6", "t 0 5 6 7\n", "t zero 5 6\n", "t 0 6 6\n", "\x00\x00\n",
		"\nt 0 5 6\n"} {
		h := newHost(t, 1)
		for name, text := range map[string]string{HandFile: held, deathsFile: `{"reading":[{"topic":"t","part`} {
			if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if j := h.start(); len(j.suspects) > 0 || !strings.Contains(h.log.String(), "cannot be read") {
			t.Errorf("%q: %v\n%s", held, j.suspects, &h.log)
		}
	}
}

// TestNotesFail: a file that cannot be written costs the notes, not the records.
func TestNotesFail(t *testing.T) {
	h := newHost(t, 1)
	j := h.start()
	j.hand.Close()
	j.Take(Decoding, "t", 0, 0, 10)
	j.Done(Decoding)
	if n := strings.Count(h.log.String(), "not noted"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &h.log)
	}
}

func BenchmarkTake(b *testing.B) {
	j, err := Open(b.TempDir(), nil, new(sync.Mutex), time.Unix(1, 0), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for i := range int64(b.N) {
		for stage := range Stage(stages) {
			j.Take(stage, "ratings", 3, i, i+4096)
			j.Done(stage)
		}
	}
}

// TestStages: what was decoded and what was learned when the process died are suspect both, as one range where they are
// of one partition.
func TestStages(t *testing.T) {
	h := newHost(t, 3)
	j := h.start()
	j.Take(Learning, "t", 1, 0, 100)
	j.Take(Decoding, "t", 1, 100, 200)
	j = h.start()
	for _, from := range []int64{0, 99, 100, 199} {
		if !j.Suspects("t", 1, from, from+1) {
			t.Errorf("offset %d is no suspect", from)
		}
	}
	if j.Suspects("t", 1, 200, 300) || j.Suspects("t", 0, 0, 1) {
		t.Error("suspects that were not in hand")
	}
	j.Take(Learning, "t", 0, 5, 6)
	j.Take(Decoding, "t", 2, 7, 8)
	j = h.start()
	if !j.Suspects("t", 0, 5, 6) || !j.Suspects("t", 2, 7, 8) || !j.Suspects("t", 1, 0, 200) {
		t.Errorf("suspects %v", j.suspects)
	}
}
