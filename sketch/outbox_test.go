package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// rejectedPart has n records from base on, of which every second one is rejected.
func rejectedPart(base int64, n int) *Part {
	p := &Part{Topic: "a", Partition: 1, Base: base, Next: base + int64(n)}
	for i := range int64(n) {
		r := Record{Offset: base + i, Fate: Applied, CRC: uint32(base + i), Weight: 1, Payload: []byte("x")}
		if i%2 == 1 {
			value := fmt.Appendf(nil, "value %d", r.Offset)
			r = Record{
				Offset:  r.Offset,
				Fate:    Rejected,
				CRC:     r.CRC,
				Reason:  "not_json",
				Time:    7 + r.Offset,
				Size:    len(value),
				Payload: value,
			}
		}
		p.Records = append(p.Records, r)
	}
	return p
}

func offsetsOf(letters []DeadLetter) (out []int64) {
	for _, l := range letters {
		out = append(out, l.Offset)
	}
	return out
}

func TestOutbox(t *testing.T) {
	o := diskOptions(t)
	o.OutboxRows = 6
	s := mustOpen(t, o)
	must(t, s.Begin("a", 1, 0))
	must(t, s.Apply(rejectedPart(0, 8), nil))
	must(t, s.Apply(rejectedPart(0, 8), nil)) // a replay posts nothing twice
	letters, err := s.DeadLetters(10)
	if err != nil || s.OutboxLen() != 4 || fmt.Sprint(offsetsOf(letters)) != "[1 3 5 7]" {
		t.Fatalf("%d letters: %+v, %v", s.OutboxLen(), letters, err)
	}
	if l := letters[1]; l.Topic != "a" || l.Partition != 1 || l.Reason != "not_json" || l.Time != 10 || l.Size != 7 ||
		string(l.Payload) != "value 3" {
		t.Errorf("letter %+v", l)
	}

	// Four are there and two fit: a part with four is refused whole, and cut before the third.
	p := rejectedPart(8, 8)
	if err := s.Apply(p, nil); !errors.Is(err, ErrOutboxFull) || s.OutboxLen() != 4 {
		t.Errorf("full: %v", err)
	}
	if next, _ := s.Position("a", 1); next != 8 {
		t.Errorf("next is %d after a part that was refused", next)
	}
	if !s.FitOutbox(p) || p.Next != 13 || len(p.Records) != 5 {
		t.Errorf("cut to %d with %d records", p.Next, len(p.Records))
	}
	must(t, s.Apply(p, nil))
	if p := rejectedPart(8, 5); s.FitOutbox(p) { // all of it is in the state
		t.Error("a replay was cut")
	}
	applied := &Part{
		Topic:     "a",
		Partition: 1,
		Base:      13,
		Next:      14,
		Records:   []Record{{Offset: 13, Fate: Applied, Weight: 1}},
	}
	if s.FitOutbox(applied) {
		t.Error("an event was cut: only rejected records need room")
	}
	must(t, s.Apply(applied, nil))

	// Order, erasure and what is left survive a restart, even of a store that keeps none.
	first, err := s.DeadLetters(2)
	must(t, err, s.Forget(first), s.Forget(first))
	dropped, err := s.DropOutbox(func(l *DeadLetter) bool { return bytes.HasSuffix(l.Payload, []byte(" 7")) })
	must(t, err, s.Check(), s.Close())
	if dropped != 1 {
		t.Errorf("%d letters dropped", dropped)
	}
	o.OutboxRows = 0
	s = mustOpen(t, o)
	letters, err = s.DeadLetters(10)
	must(t, err, s.Check())
	if fmt.Sprint(offsetsOf(letters)) != "[5 9 11]" {
		t.Errorf("letters of offsets %v", offsetsOf(letters))
	}
	must(t, s.Apply(rejectedPart(14, 4), nil))
	if s.OutboxLen() != 3 {
		t.Error("a store without an outbox posted a letter")
	}
	must(t, s.Close())
}

// TestOutboxCrash: at whatever commit the machine goes down, a rejected record is counted if and only if it is in the
// outbox, or was sent.
func TestOutboxCrash(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		j := &journal{Backend: storage.NewMemory(), until: 1 << 30}
		open := func() *Store {
			o := Options{Size: 5, Seed: 1, OutboxRows: 1000}
			s, err := load(t.Context(), j, &o, func(*policy.Settings) (policy.Settings, error) { return o.settings(), nil })
			must(t, err)
			return s
		}
		s := open()
		must(t, s.Begin("a", 1, 0))
		sent := map[int64]bool{}
		for range 20 {
			j.until, j.durable = rng.IntN(6), rng.IntN(2) == 0
			next, _ := s.Position("a", 1)
			err := s.Apply(rejectedPart(next-next%2, 1+rng.IntN(40)), nil)
			if err == nil {
				var letters []DeadLetter
				letters, err = s.DeadLetters(rng.IntN(8))
				must(t, err)
				for _, l := range letters {
					sent[l.Offset] = true
				}
				err = s.Forget(letters)
			}
			if err != nil {
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				j.until = 1 << 30
				s = open()
			}
			must(t, s.Check())
			letters, err := s.DeadLetters(1000)
			must(t, err)
			waiting := map[int64]bool{}
			for _, l := range letters {
				waiting[l.Offset] = true
			}
			next, _ = s.Position("a", 1)
			for offset := range next {
				if want := offset%2 == 1; want && !sent[offset] && !waiting[offset] || !want && waiting[offset] {
					t.Fatalf("seed %d: next %d, offset %d: waiting %t, sent %t", seed, next, offset, waiting[offset],
						sent[offset])
				}
			}
			if len(letters) != s.OutboxLen() {
				t.Fatalf("seed %d: %d letters, the store says %d", seed, len(letters), s.OutboxLen())
			}
		}
	}
}

// TestOutboxDamage: a letter that the ledger does not know of, or that was altered, is noticed.
func TestOutboxDamage(t *testing.T) {
	for name, damage := range map[string]func(m *storage.Memory, key string) error{
		"a flipped bit": func(m *storage.Memory, key string) error {
			var value []byte
			err := m.View(func(c storage.Cut) (err error) {
				at, err := c.Get([]byte(key))
				value = bytes.Clone(at)
				return err
			})
			value[5] ^= 1
			return errors.Join(err, m.Commit([]storage.Op{{Key: []byte(key), Value: value}}))
		},
		"ahead of the ledger": func(m *storage.Memory, _ string) error {
			k := deadLetterKey("a", 1, 0, 99)
			return m.Commit([]storage.Op{{Key: k, Value: appendDeadLetter(nil, k, &Record{Reason: "x"})}})
		},
		"of no partition": func(m *storage.Memory, _ string) error {
			k := deadLetterKey("b", 1, 0, 1)
			return m.Commit([]storage.Op{{Key: k, Value: appendDeadLetter(nil, k, &Record{Reason: "x"})}})
		},
	} {
		s, err := NewMemory(Options{Size: 5, OutboxRows: 10})
		must(t, err, s.Begin("a", 1, 0), s.Apply(rejectedPart(0, 4), nil), s.Check())
		must(t, damage(s.backend.(*storage.Memory), s.outbox[0]))
		if err := s.Check(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeadLetterCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := DeadLetter{
			Topic:       rapid.StringMatching(`[a-z._-]{1,249}`).Draw(t, "topic"),
			Partition:   rapid.Int32Min(0).Draw(t, "partition"),
			Incarnation: rapid.Uint32().Draw(t, "incarnation"),
			Offset:      rapid.Int64Min(0).Draw(t, "offset"),
			Reason:      rapid.StringMatching(`[a-z_]{1,64}`).Draw(t, "reason"),
			Time:        rapid.Int64().Draw(t, "time"),
			Size: rapid.IntRange(-1, 1<<30).
				Draw(t, "size"),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, MaxDeadLetterBytes).Draw(t, "payload"),
		}
		key := deadLetterKey(want.Topic, want.Partition, want.Incarnation, want.Offset)
		record := Record{Reason: want.Reason, Time: want.Time, Size: want.Size, Payload: want.Payload}
		if rapid.Bool().Draw(t, "with a detail") {
			want.Detail = Detail{
				Field:    rapid.StringN(0, 60, 60).Draw(t, "field"),
				Expected: rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "expected"),
				Got:      rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "got"),
			}
			record.Detail = &want.Detail
		}
		got, err := decodeDeadLetter(key, appendDeadLetter(nil, key, &record))
		if err != nil || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("letter %+v, %v, want %+v", got, err, want)
		}
		got.Payload, want.Payload = nil, nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("letter %+v, want %+v", got, want)
		}
	})
}

// TestDeadLetterOfALongField: a name that there is no room for is cut between characters, and one of an older build has
// no detail.
func TestDeadLetterOfALongField(t *testing.T) {
	key := deadLetterKey("a", 1, 0, 5)
	long := Record{Reason: strings.Repeat("r", MaxReasonBytes), Payload: []byte("value"),
		Detail: &Detail{
			Field:    strings.Repeat("ü", 200),
			Expected: strings.Repeat("e", 64),
			Got:      strings.Repeat("g", 64),
		}}
	got, err := decodeDeadLetter(key, appendDeadLetter(nil, key, &long))
	if err != nil || got.Field != strings.Repeat("ü", 30) || got.Expected != long.Detail.Expected ||
		got.Got != long.Detail.Got ||
		got.Reason != long.Reason ||
		string(got.Payload) != "value" {
		t.Errorf("%+v, %v", got, err)
	}
	before := []byte("\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x02\x08not_json{]")
	got, err = decodeDeadLetter(key, codec.Seal(key, before, 0))
	if err != nil || got.Reason != "not_json" || got.Detail != (Detail{}) || got.Time != 1000 ||
		string(got.Payload) != "{]" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzDeadLetter: stored bytes are refused without a panic; what is accepted encodes to the same bytes.
func FuzzDeadLetter(f *testing.F) {
	key := deadLetterKey("a", 1, 0, 5)
	f.Add(key, appendDeadLetter(nil, key, &Record{Reason: "not_json", Size: -1}))
	f.Add(key, appendDeadLetter(nil, key, &Record{Reason: "not_json", Size: 2, Payload: []byte("{]")}))
	f.Add([]byte("o"), []byte(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, key, body []byte) {
		if len(body) >= codec.CRCBytes {
			body = body[:len(body)-codec.CRCBytes]
		}
		value := codec.Seal(key, bytes.Clone(body), 0) // a fuzzer does not find checksums
		l, err := decodeDeadLetter(key, value)
		if err != nil {
			return
		}
		if again := deadLetterKey(l.Topic, l.Partition, l.Incarnation, l.Offset); !bytes.Equal(again, key) {
			t.Errorf("key %x became %x", key, again)
		}
		record := Record{Reason: l.Reason, Time: l.Time, Size: l.Size, Payload: l.Payload}
		if bytes.Contains(value[13:13+int(value[12])], []byte{0}) && !strings.Contains(l.Reason, "\x00") {
			record.Detail = &l.Detail
		}
		if got := appendDeadLetter(nil, key, &record); !bytes.Equal(got, value) {
			t.Errorf("letter %x encodes to %x", value, got)
		}
	})
}
