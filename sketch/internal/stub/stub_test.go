package stub

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// filled returns a stub with outcomes of several partitions, one of them taken back.
func filled() *Stub {
	s, r := new(Stub), rand.New(rand.NewPCG(1, 2))
	for i := range int64(50) {
		s.Add(Outcome{Topic: []string{"a", "b"}[r.IntN(2)], Partition: int32(r.IntN(3)),
			Incarnation: uint32(r.IntN(2)), Offset: i, Time: r.Int64N(1000), Value: r.NormFloat64()}, Earliest)
	}
	s.TakeBack("a", 1, 0)
	return s
}

// TestRoundTrip: what is stored of a stub is what it was, in as many bytes as it said, and other values are refused.
func TestRoundTrip(t *testing.T) {
	key := Key(ledger.Select, policy.Identity{1, 2, 3})
	if role, id, ok := ParseKey(key[:]); !ok || role != ledger.Select || id != (policy.Identity{1, 2, 3}) {
		t.Errorf("key of %v, %v, %t", role, id, ok)
	}
	row := codec.MakeRowKey(ledger.Select, policy.Identity{1, 2, 3})
	if _, _, ok := ParseKey(row[:]); ok {
		t.Error("the key of a row is taken for that of a stub")
	}
	for _, s := range []*Stub{new(Stub), filled()} {
		value := s.Append(nil, key[:])
		if n := len(key) + len(value); n != s.Size() || n > MaxBytes {
			t.Errorf("%d bytes, said %d, at most %d", n, s.Size(), MaxBytes)
		}
		got, err := Decode(key[:], value)
		if err != nil || !reflect.DeepEqual(got.Outcomes(), s.Outcomes()) || got.Size() != s.Size() {
			t.Errorf("%v as %v, %v", s, got, err)
		}
		for n := range value {
			if _, err := Decode(key[:], value[:n]); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(value), err)
			}
		}
		body := value[:len(value)-codec.CRCBytes]
		for n := 1; n < len(body); n++ { // sealed, but not what Append writes
			if of, err := Decode(key[:], codec.Seal(key[:], bytes.Clone(body[:n]), 0)); err == nil &&
				of.Size() != len(key)+n+codec.CRCBytes {
				t.Fatalf("%d bytes are read as a stub of %d", n, of.Size())
			}
		}
	}
	bad := new(Stub)
	bad.Add(Outcome{Topic: "a", Value: math.NaN()}, Earliest)
	if _, err := Decode(key[:], bad.Append(nil, key[:])); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a value that is no number: %v", err)
	}
}

// TestErase: of a forgotten identity what is before the cut goes, whatever the incarnation, and nothing else.
func TestErase(t *testing.T) {
	s := new(Stub)
	for _, o := range []Outcome{{Topic: "a", Offset: 3}, {Topic: "a", Offset: 8}, {Topic: "b", Offset: 1},
		{Topic: "c", Incarnation: 0, Offset: 9}, {Topic: "c", Incarnation: 1, Offset: 2}} {
		s.Add(o, Latest)
	}
	m := &ledger.Marker{Cut: []ledger.Position{{Topic: "a", Next: 5}, {Topic: "c", Incarnation: 1, Next: 2}}}
	if s.Erase(m) {
		t.Error("nothing is left")
	}
	var left []Outcome
	for _, o := range s.Outcomes() {
		left = append(left, Outcome{Topic: o.Topic, Incarnation: o.Incarnation, Offset: o.Offset})
	}
	if want := []Outcome{{Topic: "a", Offset: 8}, {Topic: "b", Offset: 1}, {Topic: "c", Incarnation: 1,
		Offset: 2}}; !reflect.DeepEqual(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	m.Cut = []ledger.Position{{Topic: "a", Next: 9}, {Topic: "b", Next: 9}, {Topic: "c", Incarnation: 2}}
	if !s.Erase(m) || len(s.Outcomes()) != 0 {
		t.Errorf("left %v", s.Outcomes())
	}
}

func FuzzDecode(f *testing.F) {
	key := Key(ledger.Train, policy.Identity{})
	sealed := filled().Append(nil, key[:])
	f.Add(sealed[:len(sealed)-codec.CRCBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(key[:], codec.Seal(key[:], bytes.Clone(b), 0))
		if err != nil {
			return
		}
		if again := s.Append(nil, key[:]); !bytes.Equal(again[:len(again)-codec.CRCBytes], b) {
			t.Errorf("%x is read as %x", b, again)
		}
	})
}
