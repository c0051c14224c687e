package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// TestFormat1: a state that a build of format 1 wrote, before there were checkpoints or markers, opens as it is, and is
// one of the newest format from then on.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	must(t, unpack(filepath.Join("testdata", "format1.tar.gz"), dir))
	o := Options{
		Dir:             filepath.Join(dir, "state"),
		Size:            50,
		HoldoutSize:     10,
		HoldoutFraction: 0.2,
		Seed:            3,
		HalfLife:        200 * time.Second,
		ConfigHash:      "sha256:1",
	}
	for range 2 {
		s := mustOpen(t, o)
		st, err := s.State()
		must(t, err, s.Check())
		if st.SampleDigest.String() != "sha256:65efa39d5f1b93af55ba844b067556ce498920c6cef486a5fe77a638dd8c6232" ||
			st.Partitions[0].Digest.String() != "sha256:ba71fcb9c694e620c35a07f0cd69cce007a2dc683e13518fcd5e848a88278218" ||
			st.Partitions[1].Digest.String() != "sha256:26e5c0f51a4f8bd8f3138efdc094a4b8078848a4e99484b07c172a3093b556bd" {
			t.Errorf("digests of %+v", st)
		}
		if st.Lineage != "f0e1d2c3b4a5968778695a4b3c2d1e0f" || st.Format != codec.FormatVersion ||
			string(s.Aux()) != "sums" ||
			st.Partitions[1].Gap != 10 ||
			st.UnderFilled ||
			!st.OfLog {
			t.Errorf("state %+v, aux %q", st, s.Aux())
		}
		must(t, s.Close())
	}
	w, err := witness.Read(o.Dir)
	must(t, err)
	if w.Format != codec.FormatVersion {
		t.Errorf("the witness still says format %d: an older build would open what it cannot read", w.Format)
	}
}

// TestResize: a smaller size keeps exactly what a sample of that size would have kept; a larger one keeps its rows,
// says since when it is under-filled, and is what the log gives above its threshold until it is full, when it is what
// the log gives. Other settings are refused.
func TestResize(t *testing.T) {
	for name, change := range map[string]func(*Options){"uniform": func(*Options) {}, "decay": func(
		o *Options) {
		o.HalfLife = time.Hour
	},
		"quotas": func(o *Options) { o.Quotas = []Quota{{Class: "0", Share: 0.3}} }} {
		t.Run(name, func(t *testing.T) {
			o := diskOptions(t)
			change(&o)
			records := mixedLog(6000)
			fresh := func(o Options, end int64) *Store {
				m, err := NewMemory(o)
				must(t, err)
				applyLog(t, m, "a", 0, records, end, 700)
				return m
			}
			if o.Quotas != nil {
				for i := range records {
					if records[i].Fate == Applied {
						records[i].Group = fmt.Append(nil, records[i].Offset%3)
					}
				}
			}
			s := mustOpen(t, o)
			applyLog(t, s, "a", 0, records, 2000, 500)
			first := s.Lineage()
			must(t, s.Close())

			o.Size, o.HoldoutSize = 20, 6
			s = mustOpen(t, o)
			if got, want := stateOf(t, s), stateOf(t, fresh(o, 2000)); !reflect.DeepEqual(got, want) ||
				got.UnderFilled {
				t.Errorf("smaller:\n%+v, want\n%+v", got, want)
			}
			second := s.Lineage()
			must(t, s.Check(), s.Close())

			o.Size, o.HoldoutSize = 30, 8
			s = mustOpen(t, o)
			st, err := s.State()
			must(t, err, s.Check())
			if !st.UnderFilled || !reflect.DeepEqual(st.Since, []Position{{Topic: "a", Next: 2000}}) ||
				st.Rows[Train] != 20 {
				t.Errorf("larger: %+v", st)
			}
			if third := s.Lineage(); first == second || second == third || first == third {
				t.Error("sizes changed and the lineage did not")
			}
			apply := func(from, to int64) {
				p := &Part{Topic: "a", Base: from, Next: to}
				for _, r := range records {
					if r.Offset >= from && r.Offset < to {
						p.Records = append(p.Records, r)
					}
				}
				must(t, s.Apply(p, nil))
			}
			apply(2000, 2300)
			m := fresh(o, 2300)
			must(t, m.Align(s))
			if got, want := stateOf(t, s), stateOf(t, m); got.SampleDigest != want.SampleDigest || !got.UnderFilled {
				t.Errorf("under-filled:\n%+v, want\n%+v", got, want)
			}
			apply(2300, 6000)
			got, want := stateOf(t, s), stateOf(t, fresh(o, 6000))
			if got.SampleDigest != want.SampleDigest || got.UnderFilled || got.Rows != want.Rows {
				t.Errorf("filled up:\n%+v, want\n%+v", got, want)
			}
			must(t, s.Check(), s.Close())

			for option, other := range map[string]func(*Options){
				"Seed": func(o *Options) { o.Seed++ }, "HalfLife": func(o *Options) { o.HalfLife += time.Minute },
				"Weighted": func(o *Options) { o.Weighted = true }, "HoldoutFraction": func(o *Options) { o.HoldoutFraction = 0.3 },
				"Quotas": func(o *Options) { o.Quotas = []Quota{{Class: "1", Share: 0.3}} },
			} {
				changed := o
				other(&changed)
				_, err := Open(t.Context(), changed)
				if e, ok := errors.AsType[*ConfigError](err); !ok || e.Option != option {
					t.Errorf("%s changed: %v", option, err)
				}
			}
		})
	}
}

// TestCapRefusesMoreRoom: a wider cap would have room for rows that nobody remembers.
func TestCapRefusesMoreRoom(t *testing.T) {
	o := Options{Dir: t.TempDir(), Size: 50, CapBy: "user", CapShare: 0.1}
	s := mustOpen(t, o)
	must(t, s.Close())
	o.Size = 60
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Size is 60") {
		t.Errorf("error %v, want one of Size", err)
	}
	o.Size = 40
	must(t, mustOpen(t, o).Close())
}

// userLog gives each event of mixedLog one of ten users, whose name its payload has.
func userLog(n int) []Record {
	records := mixedLog(n)
	for i := range records {
		if r := &records[i]; r.Fate == Applied {
			r.Payload = fmt.Appendf(nil, "%s event %d", userAt(r.Offset), r.Offset)
		}
	}
	return records
}

func userAt(offset int64) string { return fmt.Sprintf("subject-%d", offset%10) }

// TestErasure: a subject's rows leave the state, and its name the files; what is read again does not bring them back,
// later events are like any other, and the accounts do not change.
func TestErasure(t *testing.T) {
	o := diskOptions(t)
	o.Size, o.HoldoutSize = 500, 100
	s := mustOpen(t, o)
	records := userLog(3000)
	applyLog(t, s, "a", 0, records, 2000, 500)
	before := stateOf(t, s)
	lineage := s.Lineage()
	values := func(field string, payload []byte) [][]byte {
		if field != "user" {
			return nil
		}
		user, _, _ := bytes.Cut(payload, []byte(" "))
		return [][]byte{user}
	}
	m, err := s.ForgetSubject("user", []byte("subject-7"))
	must(t, err)
	rows, err := s.Erase(t.Context(), values)
	must(t, err, s.Check())
	after, err := s.State()
	must(t, err)
	left := before.Rows[Train] + before.Holdout() - after.Rows[Train] - after.Holdout()
	if rows == 0 || rows != left || after.Lineage == lineage || !after.UnderFilled || len(after.Forgotten) != 1 ||
		!after.Forgotten[0].Done ||
		after.Forgotten[0].Rows != int64(rows) || after.Forgotten[0].Hash != SubjectHash("user", []byte("subject-7")) ||
		m.Done {
		t.Errorf("%d rows erased, state %+v", rows, after)
	}
	for i := range after.Partitions {
		got, want := after.Partitions[i], before.Partitions[i]
		got.Rows, want.Rows = [NumRoles]int64{}, [NumRoles]int64{}
		if got != want {
			t.Errorf("account %+v, was %+v", got, want)
		}
	}
	again, err := s.Erase(t.Context(), values)
	if must(t, err); again != 0 {
		t.Errorf("%d rows more at the second time", again)
	}
	w, err := ReadWitness(o.Dir)
	must(t, err)
	forgotten := w.Carried()
	must(t, s.Purge(), s.Check(), s.Close())
	holdsBytes(t, o.Dir, "subject-6 ", true)
	holdsBytes(t, o.Dir, "subject-7 ", false)

	// A state made anew from the log has the same rows, and later events of the subject.
	s = mustOpen(t, o)
	o.Forgotten = forgotten
	fresh, err := NewMemory(o)
	must(t, err)
	for _, store := range []*Store{s, fresh} {
		must(t, store.Begin("a", 0, 0))
		next, _ := store.Position("a", 0)
		p := &Part{Topic: "a", Base: next, Next: 3000}
		for _, r := range records {
			if r.Offset >= next {
				r.Forgotten = store.Forgets("a", 0, r.Offset, "user", []byte(userAt(r.Offset)))
				p.Records = append(p.Records, r)
			}
		}
		must(t, store.Apply(p, nil), store.Check())
	}
	must(t, fresh.Align(s))
	got, want := stateOf(t, fresh), stateOf(t, s)
	if got.SampleDigest != want.SampleDigest || !reflect.DeepEqual(got.Rows, want.Rows) ||
		got.Partitions[0].Digest != want.Partitions[0].Digest {
		t.Errorf("made anew\n%+v, want\n%+v", got, want)
	}
	sample, err := s.Sample()
	must(t, err)
	later := 0
	for _, r := range sample.Train {
		if userAt(r.Offset) == "subject-7" {
			later++
			if r.Offset < 2000 {
				t.Errorf("row of offset %d is back", r.Offset)
			}
		}
	}
	if later == 0 {
		t.Error("later events of the subject are kept out too")
	}
	must(t, s.Close())
}

// holdsBytes looks for text in every file of a directory.
func holdsBytes(t *testing.T, dir, text string, want bool) {
	t.Helper()
	found := ""
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, []byte(text)) {
			found = name
		}
		return err
	}))
	if (found != "") != want {
		t.Errorf("%q in a file: %q, want %t", text, found, want)
	}
}

// TestErasureByIdentity: rows do not carry the value of the identity field, but are found by it.
func TestErasureByIdentity(t *testing.T) {
	s, err := NewMemory(Options{Size: 100, Identity: "id", Seed: 2})
	must(t, err, s.Begin("a", 0, 0))
	p := &Part{Topic: "a", Next: 50}
	for i := range int64(50) {
		p.Records = append(p.Records, Record{Offset: i, Fate: Applied, Weight: 1, Identity: fmt.Append(nil, "id-", i)})
	}
	must(t, s.Apply(p, nil))
	_, err = s.ForgetSubject("id", []byte("id-33"))
	must(t, err)
	rows, err := s.Erase(t.Context(), func(string, []byte) [][]byte { return nil })
	must(t, err, s.Check())
	sample, err := s.Sample()
	must(t, err)
	for _, r := range sample.Train {
		if r.Offset == 33 {
			t.Error("the row is still there")
		}
	}
	if rows != 1 || len(sample.Train) != 49 {
		t.Errorf("%d rows erased, %d left", rows, len(sample.Train))
	}
}

// TestIncarnation: a topic that was made again is counted from its start, and the account of the old one stays.
func TestIncarnation(t *testing.T) {
	o := diskOptions(t)
	s := mustOpen(t, o)
	applyLog(t, s, "a", 0, mixedLog(1000), 1000, 300)
	applyLog(t, s, "a", 1, mixedLog(500), 500, 300)
	applyLog(t, s, "b", 0, mixedLog(500), 500, 300)
	old := s.Ledger()[0]
	must(t, s.Halt("a", 0, "topic was made again"), s.RaiseIncarnation("a", map[int32]int64{0: 7}))
	if _, ok := s.Position("a", 1); ok {
		t.Error("a partition that the new topic lacks is still read")
	}
	p := &Part{Topic: "a", Base: 7, Next: 200, LogStart: 7}
	for _, r := range mixedLog(200) {
		if r.Offset >= 7 {
			p.Records = append(p.Records, r)
		}
	}
	must(t, s.Apply(p, nil), s.Check(), s.Close())
	s = mustOpen(t, o)
	st, err := s.State()
	must(t, err, s.Check(), s.Begin("a", 1, 3))
	if len(st.Partitions) != 2 || len(st.Archived) != 2 || st.OfLog || st.Partitions[0].Incarnation != 1 ||
		st.Partitions[0].Start != 7 ||
		st.Partitions[0].Next != 200 {
		t.Fatalf("state %+v", st)
	}
	if a := st.Archived[0]; a.Next != 1000 || a.Digest != old.Digest || a.Applied != old.Applied ||
		(&ledger.Account{Row: a}).Audit() != nil {
		t.Errorf("archived %+v, was %+v", a, old)
	}
	if l := s.Ledger()[1]; l.Partition != 1 || l.Incarnation != 1 || l.Start != 3 {
		t.Errorf("partition begun later: %+v", l)
	}
	if err := s.RaiseIncarnation("c", nil); !errors.Is(err, ErrPart) {
		t.Errorf("unknown topic: %v", err)
	}
	must(t, s.Close())
}

// TestVerifyFromACheckpoint: what is read from a checkpoint on ends in the account of the state.
func TestVerifyFromACheckpoint(t *testing.T) {
	o := diskOptions(t)
	o.CheckpointEvery = 100
	s := mustOpen(t, o)
	records := mixedLog(5000)
	applyLog(t, s, "a", 0, records, 5000, 333)
	checkpoints, err := s.Checkpoints("a", 0)
	must(t, err)
	if len(checkpoints) < 20 || len(checkpoints) > 64 {
		t.Fatalf("%d checkpoints", len(checkpoints))
	}
	for _, from := range checkpoints {
		m, err := NewMemory(o)
		must(t, err, m.BeginAt(from))
		p := &Part{Topic: "a", Base: from.Next, Next: 5000}
		for _, r := range records {
			if r.Offset >= from.Next {
				p.Records = append(p.Records, r)
			}
		}
		must(t, m.Apply(p, nil), m.Check())
		got, want := m.Ledger()[0], s.Ledger()[0]
		got.Rows = want.Rows
		if got != want {
			t.Errorf("from %d: %+v, want %+v", from.Next, got, want)
		}
		if st, err := m.State(); err != nil || st.OfLog {
			t.Errorf("a sample from the middle says that it is of the log: %v", err)
		}
	}
	must(t, s.Close())
}

// TestSmallerWithQuotas: a smaller size may leave more room to the rows without a quota, since those with one are
// rounded up. The sample says that it is under-filled, and can be opened again.
func TestSmallerWithQuotas(t *testing.T) {
	o := diskOptions(t)
	o.Size, o.HoldoutSize = 10, 6
	o.Quotas = []Quota{{Class: "0", Share: 0.33}, {Class: "1", Share: 0.51}} // 4 + 6 + 0 rows
	s := mustOpen(t, o)
	records := mixedLog(300)
	for i := range records {
		if records[i].Fate == Applied {
			records[i].Group = fmt.Append(nil, records[i].Offset%3)
		}
	}
	applyLog(t, s, "a", 0, records, 200, 50)
	must(t, s.Close())
	o.Size = 9 // 3 + 5 + 1
	for range 2 {
		s = mustOpen(t, o)
		st, err := s.State()
		must(t, err, s.Check())
		if rows, _ := s.Size(); rows[Train] != 8 || !st.UnderFilled {
			t.Errorf("%d rows, under-filled %v: want 8 rows, of 9", rows[Train], st.UnderFilled)
		}
		must(t, s.Close())
	}
	s = mustOpen(t, o)
	applyLog(t, s, "a", 0, records, 300, 50)
	must(t, s.Check(), s.Close())
}

// TestAlignAtTheThreshold: a shard that takes the threshold of the merged sample keeps its row that has exactly this
// threshold. A sample made anew of the log, as verify makes it, has to be the same.
func TestAlignAtTheThreshold(t *testing.T) {
	fresh := func(size int) *Store {
		m, err := NewMemory(Options{Size: size, HoldoutSize: 10, HoldoutFraction: 0.2, Seed: 3})
		must(t, err)
		applyLog(t, m, "a", 0, mixedLog(2000), 2000, 700)
		return m
	}
	shard, again := fresh(50), fresh(50)
	dropped, err := shard.Raise(fresh(20).Thresholds())
	must(t, err, again.Align(shard))
	got, want := stateOf(t, again), stateOf(t, shard)
	if dropped != 29 || want.Rows[Train] != 21 {
		t.Errorf("%d rows dropped, %d left of 50", dropped, want.Rows[Train])
	}
	if got.SampleDigest != want.SampleDigest || got.Rows != want.Rows {
		t.Errorf("made anew\n%+v, want\n%+v", got, want)
	}
}
