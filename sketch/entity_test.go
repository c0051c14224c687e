package sketch

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// entityPart is a part whose records each change the entity of their number modulo 61, and take one away now and then.
func entityPart(base int64, n int) *Part {
	p := &Part{Topic: "t", Base: base, Next: base + int64(n)}
	for i := base; i < p.Next; i++ {
		r := Record{Offset: i, Fate: Applied, Weight: 1, CRC: uint32(i), Payload: []byte{1}}
		r.Entities = append(r.Entities,
			Entity{Key: SubjectHash("n", fmt.Append(nil, i%61)), Value: fmt.Append(nil, "last ", i)})
		if i%10 == 9 {
			r.Entities = append(r.Entities, Entity{Key: SubjectHash("n", fmt.Append(nil, (i+1)%61))})
		}
		p.Records = append(p.Records, r)
	}
	return p
}

func entitiesOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	out := make(map[string]string)
	must(t, s.Entities("t", 0, func(e Entity) error {
		out[e.Key.String()] = string(e.Value)
		return nil
	}))
	return out
}

// TestEntities: entities are always those of the records before the ledger's next, whichever transaction the process
// ends with.
func TestEntities(t *testing.T) {
	const n = 200
	want := func(next int64) map[string]string { // record by record
		out := make(map[string]string)
		for i := range next {
			for _, e := range entityPart(i, 1).Records[0].Entities {
				if out[e.Key.String()] = string(e.Value); e.Value == nil {
					delete(out, e.Key.String())
				}
			}
		}
		return out
	}
	seen := map[int64]bool{}
	for crash := range 60 {
		j := &journal{Backend: storage.NewMemory(), until: crash/2 + 1, durable: crash%2 == 0}
		s, err := load(t.Context(), j, &Options{Size: 50}, (&Options{Size: 50, CheckpointEvery: 1000}).choose)
		if err != nil {
			t.Fatal(err)
		}
		if err = s.Begin("t", 0, 0); err == nil {
			err = s.Apply(entityPart(0, n), nil)
		}
		if err != nil && !errors.Is(err, ErrStorage) {
			t.Fatal(err)
		}
		j.until = -1
		if s, err = load(t.Context(), j, &Options{Size: 50}, (&Options{Size: 50}).choose); err != nil {
			t.Fatal(err)
		}
		must(t, s.Begin("t", 0, 0))
		next, _ := s.Position("t", 0)
		seen[next] = true
		if got := entitiesOf(t, s); !maps.Equal(got, want(next)) {
			t.Fatalf("crash at commit %d, next %d: %v, want %v", crash, next, got, want(next))
		}
		must(t, s.Apply(entityPart(0, n), nil), s.Check())
		if got := entitiesOf(t, s); !maps.Equal(got, want(n)) {
			t.Errorf("crash at commit %d: %v in the end", crash, got)
		}
	}
	if len(seen) < 5 {
		t.Errorf("crashes at offsets %v", seen)
	}
}

// TestRevise: every entity can be changed or taken away, and a damaged one is noticed.
func TestRevise(t *testing.T) {
	s := mustOpen(t, Options{Dir: t.TempDir(), Size: 50})
	must(t, s.Begin("t", 0, 0), s.Begin("t-2", 0, 0), s.Apply(entityPart(0, 30), nil))
	other := entityPart(0, 7)
	other.Topic = "t-2"
	must(t, s.Apply(other, nil))
	before := entitiesOf(t, s)
	must(t, s.Revise(func(_ string, e Entity) ([]byte, error) {
		if strings.HasSuffix(string(e.Value), "8") {
			return nil, nil
		}
		return append([]byte("was "), e.Value...), nil
	}))
	after := entitiesOf(t, s)
	for key, value := range before {
		if want, kept := "was "+value, !strings.HasSuffix(value, "8"); after[key] != want && kept ||
			!kept && after[key] != "" {
			t.Errorf("%q became %q", value, after[key])
		}
	}
	if err := s.Revise(func(string, Entity) ([]byte, error) { return nil, ErrPart }); !errors.Is(err, ErrPart) ||
		len(entitiesOf(t, s)) != len(after) {
		t.Errorf("%v", err)
	}
	must(t, s.Check())
	key := append(codec.EntityPrefix("t", 0), make([]byte, len(Digest{}))...)
	must(t, s.backend.Commit([]storage.Op{{Key: key, Value: codec.Seal(key, []byte("x"), 1)}}))
	if err := s.Check(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged entity: %v", err)
	}
	if err := s.Entities("t", 0, func(Entity) error { return nil }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged entity: %v", err)
	}
	many := entityPart(30, 1)
	many.Records[0].Entities = make([]Entity, MaxEntities+1)
	if err := s.Apply(many, nil); !errors.Is(err, ErrPart) {
		t.Errorf("too many entities: %v", err)
	}
	must(t, s.Close())
}
