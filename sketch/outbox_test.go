package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/sketch/internal/outbox"
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
			k := outbox.Key("a", 1, 0, 99)
			return m.Commit([]storage.Op{{Key: k, Value: outbox.Append(nil, k, &DeadLetter{Reason: "x"}, nil)}})
		},
		"of no partition": func(m *storage.Memory, _ string) error {
			k := outbox.Key("b", 1, 0, 1)
			return m.Commit([]storage.Op{{Key: k, Value: outbox.Append(nil, k, &DeadLetter{Reason: "x"}, nil)}})
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
