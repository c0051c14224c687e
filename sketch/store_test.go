package sketch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/witness"
)

func diskOptions(t *testing.T) Options {
	return Options{Dir: t.TempDir(), Size: 50, HoldoutSize: 10, HoldoutFraction: 0.2, Seed: 3}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// mixedLog returns n records of every fate, with holes.
func mixedLog(n int) (records []Record) {
	for i := range int64(n) {
		r := Record{
			Offset:  i,
			Fate:    Applied,
			CRC:     uint32(i * 2654435761),
			Time:    1000 * i,
			Weight:  1,
			Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		switch {
		case i%11 == 3:
			continue
		case i%7 == 2:
			r = Record{Offset: i, Fate: Rejected, CRC: r.CRC, Reason: []string{"not_json", "label_range"}[i%2]}
		case i%13 == 0:
			r = Record{Offset: i, Fate: Control}
		case i%17 == 0:
			r = Record{Offset: i, Fate: Aborted}
		}
		records = append(records, r)
	}
	return records
}

// applyLog applies the records below end in parts of the given number of offsets.
func applyLog(t testing.TB, s *Store, topic string, number int32, records []Record, end, step int64) {
	t.Helper()
	must(t, s.Begin(topic, number, 0))
	i := 0
	for base := int64(0); base < end; base += step {
		p := &Part{Topic: topic, Partition: number, Base: base, Next: min(base+step, end)}
		for i < len(records) && records[i].Offset < p.Next {
			p.Records = append(p.Records, records[i])
			i++
		}
		must(t, s.Apply(p, nil))
	}
}

func stateOf(t testing.TB, s *Store) *audit.State {
	t.Helper()
	st, err := s.State()
	must(t, err)
	st.Lineage = ""
	return st
}

// TestStateIsOfTheLog: a verifier that reads the log into memory with other batches, partitions in another order, gets
// the same state as the store on disk, digests included.
func TestStateIsOfTheLog(t *testing.T) {
	records := mixedLog(3000)
	for _, halfLife := range []time.Duration{0, 200 * time.Second} {
		o := diskOptions(t)
		o.HalfLife = halfLife
		s := mustOpen(t, o)
		applyLog(t, s, "a", 0, records, 3000, 700)
		applyLog(t, s, "a", 1, records[:900], 1000, 1000)
		applyLog(t, s, "b", 0, records, 3000, 1)
		want := stateOf(t, s)
		must(t, s.Check(), s.Close())

		m, err := NewMemory(o)
		must(t, err)
		applyLog(t, m, "b", 0, records, 3000, 3000)
		applyLog(t, m, "a", 1, records[:900], 1000, 37)
		applyLog(t, m, "a", 0, records, 3000, 256)
		if got := stateOf(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("half-life %v: state\n%+v, want\n%+v", halfLife, got, want)
		}
		other := o
		other.Seed++
		m, err = NewMemory(other)
		must(t, err)
		applyLog(t, m, "a", 0, records, 3000, 3000)
		if got := stateOf(t, m); got.SampleDigest == want.SampleDigest ||
			got.Partitions[0].Digest != want.Partitions[0].Digest {
			t.Error("the seed must change the sample and not the ledger")
		}
	}
}

// TestReopen: rows, counts, aux, halts and settings come back.
func TestReopen(t *testing.T) {
	o := diskOptions(t)
	o.ConfigHash = "sha256:1"
	s := mustOpen(t, o)
	applyLog(t, s, "a", 0, mixedLog(2000), 2000, 500)
	must(t, s.Apply(&Part{Topic: "a", Base: 2000, Next: 2000}, []byte("sums")), s.Halt("a", 0, "topic was recreated"))
	lineage, want := s.Lineage(), stateOf(t, s)
	must(t, s.Close())

	o.ConfigHash = "sha256:2"
	want.ConfigHash = o.ConfigHash
	s = mustOpen(t, o)
	if got := stateOf(t, s); !reflect.DeepEqual(got, want) || s.Lineage() != lineage || string(s.Aux()) != "sums" {
		t.Errorf("state after reopening\n%+v, want\n%+v", got, want)
	}
	if s.Ledger()[0].Halted != "topic was recreated" {
		t.Errorf("halted is %q", s.Ledger()[0].Halted)
	}
	must(t, s.Resume("a", 0), s.Begin("a", 0, 7))
	if l := s.Ledger()[0]; l.Halted != "" || l.Start != 0 {
		t.Errorf("after Resume and a second Begin: %+v", l)
	}
	must(t, s.Close())

	s, err := OpenExisting(t.Context(), o.Dir, nil)
	must(t, err)
	want.Partitions[0].Halted = ""
	if got := stateOf(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("state by OpenExisting\n%+v, want\n%+v", got, want)
	}
	must(t, s.Close())
}

// TestOpenRefuses what it must not continue, and says why.
func TestOpenRefuses(t *testing.T) {
	made := func(t *testing.T) Options {
		o := diskOptions(t)
		s := mustOpen(t, o)
		applyLog(t, s, "a", 0, mixedLog(500), 500, 500)
		must(t, s.Close())
		return o
	}
	write := func(t *testing.T, s *Store, key, value []byte) {
		must(t, s.backend.Commit([]storage.Op{{Key: key, Value: value}}))
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, o *Options)
		want   error
		text   string
	}{
		{"other half-life", func(t *testing.T, o *Options) { o.HalfLife = time.Hour }, ErrConfig,
			"HalfLife is 1h0m0s, but the state was made with 0s"},
		{"other seed", func(t *testing.T, o *Options) { o.Seed++ }, ErrConfig, "Seed is 4"},
		{"identity", func(t *testing.T, o *Options) { o.Identity = "id" }, ErrConfig, "Identity is"},
		{"bad fraction", func(t *testing.T, o *Options) { o.HoldoutFraction = 1 }, nil, "HoldoutFraction is 1"},
		{"MANIFEST gone", func(t *testing.T, o *Options) { must(t, os.Remove(filepath.Join(o.Dir, "rows", "MANIFEST"))) },
			ErrCorrupt, "MANIFEST missing, refusing"},
		{"emptied", func(t *testing.T, o *Options) {
			must(t, os.RemoveAll(filepath.Join(o.Dir, "rows")))
			must(t, os.Mkdir(filepath.Join(o.Dir, "rows"), 0o700))
		}, ErrCorrupt, "MANIFEST missing, refusing"},
		{"exchanged", func(t *testing.T, o *Options) {
			other := made(t)
			must(t, os.RemoveAll(filepath.Join(o.Dir, "rows")), os.Rename(filepath.Join(other.Dir, "rows"), filepath.Join(o.Dir,
				"rows")))
		}, ErrCorrupt, "WITNESS says"},
		{"MANIFEST cut", func(t *testing.T, o *Options) {
			name := filepath.Join(o.Dir, "rows", "MANIFEST")
			f, err := os.Stat(name)
			must(t, err, os.Truncate(name, f.Size()/2))
		}, ErrCorrupt, ""},
		{"witness unreadable", func(t *testing.T, o *Options) {
			must(t, os.WriteFile(filepath.Join(o.Dir, witness.Name), []byte("{"), 0o600))
		}, ErrCorrupt, "WITNESS"},
		{"newer format", func(t *testing.T, o *Options) {
			must(t, witness.Write(&Witness{Format: codec.FormatVersion + 1, Lineage: "x"}, o.Dir))
		}, ErrFormat, fmt.Sprintf("format %d is newer than %d", codec.FormatVersion+1, codec.FormatVersion)},
		{"row flipped", func(t *testing.T, o *Options) {
			s := mustOpen(t, *o)
			key, value := firstRow(t, s)
			value[len(value)-6] ^= 4
			write(t, s, key, value)
			for name, err := range map[string]error{"Check": s.Check(), "Sample": second(s.Sample()), "State": second(
				s.State())} {
				if !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: %v, want ErrCorrupt", name, err)
				}
			}
			must(t, s.Close())
		}, ErrCorrupt, "checksum"},
		{"row moved", func(t *testing.T, o *Options) {
			s := mustOpen(t, *o)
			key, value := firstRow(t, s)
			write(t, s, key, nil)
			key[5] ^= 1
			write(t, s, key, value)
			must(t, s.Close())
		}, ErrCorrupt, "checksum"},
		{"row lost", func(t *testing.T, o *Options) {
			s := mustOpen(t, *o)
			key, _ := firstRow(t, s)
			write(t, s, key, nil)
			must(t, s.Close())
		}, ErrCorrupt, "the ledger says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := made(t)
			c.damage(t, &o)
			s, err := Open(t.Context(), o)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q, want %q with %q", err, c.want, c.text)
			}
		})
	}
	t.Run("no state", func(t *testing.T) {
		if _, err := OpenExisting(t.Context(), t.TempDir(), nil); !errors.Is(err, ErrNoState) {
			t.Errorf("error %v, want ErrNoState", err)
		}
	})
	t.Run("in use", func(t *testing.T) {
		o := made(t)
		s := mustOpen(t, o)
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
			t.Errorf("error %v, want ErrLocked", err)
		}
		must(t, s.Close())
	})
}

func second[T any](_ T, err error) error { return err }

func firstRow(t *testing.T, s *Store) (key, value []byte) {
	t.Helper()
	must(t, s.backend.View(func(c storage.Cut) error {
		return c.Each([]byte{codec.PrefixRow}, func(k, v []byte) error {
			if key == nil {
				key, value = append(key, k...), append(value, v...)
			}
			return nil
		})
	}))
	return key, value
}

// TestCheckFindsAMisplacedRow: a row under another identity, sealed for it, passes the checksum and not Check.
func TestCheckFindsAMisplacedRow(t *testing.T) {
	s, err := NewMemory(Options{Size: 1000, Seed: 1})
	must(t, err)
	applyLog(t, s, "a", 0, mixedLog(100), 100, 100)
	key, value := firstRow(t, s)
	moved := append([]byte(nil), key...)
	moved[17] ^= 1
	sealed := codec.Seal(moved, value[:len(value)-codec.CRCBytes], 0)
	must(t, s.backend.Commit([]storage.Op{{Key: key}, {Key: moved, Value: sealed}}))
	if err := s.Check(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "not at its key") {
		t.Errorf("Check: %v", err)
	}
}

// TestSeedDrawnOnce: without a seed one is drawn, kept, and used again.
func TestSeedDrawnOnce(t *testing.T) {
	o := diskOptions(t)
	o.DrawSeed = true
	s := mustOpen(t, o)
	seed := s.Seed()
	must(t, s.Close())
	s = mustOpen(t, o)
	if s.Seed() != seed || seed == o.Seed {
		t.Errorf("seed %d after reopening, drawn %d, option %d", s.Seed(), seed, o.Seed)
	}
	must(t, s.Close())
}

// TestGap: nothing of a part is applied when the log starts above next, until the gap is accepted.
func TestGap(t *testing.T) {
	s, err := NewMemory(Options{Size: 10})
	must(t, err)
	records := mixedLog(100)
	applyLog(t, s, "a", 0, records, 50, 50)
	part := &Part{Topic: "a", LogStart: 60, Base: 60, Next: 100}
	for _, r := range records {
		if r.Offset >= 60 {
			part.Records = append(part.Records, r)
		}
	}
	before := stateOf(t, s)
	var gap *GapError
	if err := s.Apply(part, []byte("x")); !errors.As(err, &gap) ||
		*gap != (GapError{Topic: "a", Next: 50, LogStart: 60}) {
		t.Fatalf("error %v, want a gap of 10", err)
	}
	if !reflect.DeepEqual(before, stateOf(t, s)) || s.Aux() != nil {
		t.Error("a refused part changed the state")
	}
	must(t, s.AcceptGap("a", 0, 60), s.AcceptGap("a", 0, 55), s.Apply(part, nil), s.Check())
	if l := s.Ledger()[0]; l.Gap != 10 || l.Next != 100 {
		t.Errorf("ledger %+v, want a gap of 10 and next 100", l)
	}
}

// TestPartRefused: parts that contradict themselves or the ledger change nothing and do not stop the store.
func TestPartRefused(t *testing.T) {
	s, err := NewMemory(Options{Size: 10})
	must(t, err, s.Begin("a", 0, 10))
	ok := Record{Offset: 10, Fate: Applied, Weight: 1}
	with := func(f func(*Record)) []Record {
		r := ok
		f(&r)
		return []Record{r}
	}
	for name, p := range map[string]Part{
		"unknown partition": {Topic: "b", Base: 10, Next: 11},
		"skips offsets":     {Topic: "a", Base: 11, Next: 12},
		"ends first":        {Topic: "a", Base: 10, Next: 9},
		"outside":           {Topic: "a", Base: 10, Next: 10, Records: []Record{ok}},
		"twice":             {Topic: "a", Base: 10, Next: 12, Records: []Record{ok, ok}},
		"no fate":           {Topic: "a", Base: 10, Next: 11, Records: with(func(r *Record) { r.Fate = 0 })},
		"no reason":         {Topic: "a", Base: 10, Next: 11, Records: with(func(r *Record) { r.Fate = Rejected })},
		"no weight":         {Topic: "a", Base: 10, Next: 11, Records: with(func(r *Record) { r.Weight = 0 })},
		"big payload": {Topic: "a", Base: 10, Next: 11, Records: with(func(r *Record) {
			r.Payload = make([]byte,
				MaxPayloadBytes+1)
		})},
		"identity": {Topic: "a", Base: 10, Next: 11, Records: with(func(r *Record) { r.Identity = []byte("x") })},
	} {
		if err := s.Apply(&p, nil); !errors.Is(err, ErrPart) {
			t.Errorf("%s: error %v, want ErrPart", name, err)
		}
	}
	if err := s.Apply(&Part{Topic: "a", Base: 10, Next: 10}, make([]byte, MaxAuxBytes+1)); !errors.Is(err, ErrPart) {
		t.Errorf("big aux: error %v, want ErrPart", err)
	}
	must(t, s.Apply(&Part{Topic: "a", Base: 10, Next: 11, Records: []Record{ok}}, nil))
	if l := s.Ledger()[0]; l.Next != 11 || l.Applied != 1 {
		t.Errorf("ledger %+v", l)
	}
}

// TestBigPart: a part of several times Badger's transaction limit, with payloads and aux at theirs, goes in by pieces.
func TestBigPart(t *testing.T) {
	o := diskOptions(t)
	o.Size = 1 << 20
	s := mustOpen(t, o)
	must(t, s.Begin("a", 0, 0))
	p := &Part{Topic: "a", Next: 40_000}
	small, big := make([]byte, 150), make([]byte, MaxPayloadBytes)
	for i := range p.Next {
		r := Record{Offset: i, Fate: Applied, Weight: 1, Payload: small}
		if i%2000 == 0 {
			r.Payload = big
		}
		p.Records = append(p.Records, r)
	}
	must(t, s.Apply(p, make([]byte, MaxAuxBytes)), s.Check())
	if rows, _ := s.Size(); rows[Train] < 31_000 || len(s.Aux()) != MaxAuxBytes {
		t.Errorf("%d rows, aux of %d bytes", rows[Train], len(s.Aux()))
	}
	must(t, s.Close())
}

// TestSampleBesideApply: a cut taken while parts are applied agrees with itself: n applied records, n rows.
func TestSampleBesideApply(t *testing.T) {
	o := diskOptions(t)
	o.Size, o.HoldoutFraction = 1<<20, 0
	s := mustOpen(t, o)
	must(t, s.Begin("a", 0, 0))
	var wg sync.WaitGroup
	wg.Go(func() {
		for p := benchPart(0, 200); p.Next < 20_000; advance(p) {
			p.Topic, p.Partition = "a", 0
			s.Classify(p)
			if err := s.Apply(p, nil); err != nil {
				t.Error(err)
			}
		}
	})
	for last := int64(0); last < 19_000 && !t.Failed(); {
		sample, err := s.Sample()
		must(t, err)
		if n := sample.Cut[0].Next; int64(len(sample.Train)) != n || n < last {
			t.Fatalf("%d rows at a cut of %d, after one of %d", len(sample.Train), n, last)
		}
		last = sample.Cut[0].Next
	}
	wg.Wait()
	must(t, s.Close())
}
