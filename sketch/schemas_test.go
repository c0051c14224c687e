package sketch

import (
	"fmt"
	"testing"
)

// TestSchemasAreMirrored: a copy gets the schemas of a store, those that it had when it began to note what a copy lacks
// and those that came with a part. A store that is opened again sends them again: older builds have noted none. What
// takes the store's place has them.
func TestSchemasAreMirrored(t *testing.T) {
	o := diskOptions(t)
	s := mustOpen(t, o)
	must(t, s.Begin("a", 1, 0), s.AddSchemas([]Schema{{Key: []byte("1"), Value: []byte("first")}}), s.Close())
	o.Mirror = true
	sent := func() (keys string) {
		e, err := s.Excerpt(1<<20, nil, true)
		must(t, err)
		copied, err := NewMemory(Options{Size: o.Size, HoldoutSize: o.HoldoutSize, HoldoutFraction: o.HoldoutFraction,
			Seed: o.Seed, Merges: true})
		must(t, err)
		defer copied.Close()
		owns := func(string, int32) bool { return true }
		for i := range e.Pairs {
			must(t, copied.CheckPair(&e.Pairs[i], owns))
		}
		only := func(topic string, _ int32) bool { return topic != "a" } // another's partitions: schemas are of any
		for _, share := range []*Share{{Pairs: e.Pairs, Head: e.Head, Only: only}, {Pairs: e.Pairs, Head: e.Head}} {
			_, err = copied.Merge(share)
			must(t, err)
			keys += "|"
			must(t, copied.Schemas(func(one Schema) error { keys += fmt.Sprintf("%s=%s ", one.Key, one.Value); return nil }))
		}
		must(t, s.Mirrored(e, nil, false))
		return keys
	}
	const first, both = "|1=first |1=first ", "|1=first 2=second |1=first 2=second "
	s = mustOpen(t, o)
	if got := sent(); got != first {
		t.Errorf("as it begins: %q, want %q", got, first)
	}
	part := &Part{Topic: "a", Partition: 1, Next: 1, Records: []Record{{Fate: Applied, Weight: 1}},
		Schemas: []Schema{{Key: []byte("2"), Value: []byte("second")}}}
	must(t, s.Apply(part, nil))
	if got, want := sent(), "|2=second |2=second "; got != want {
		t.Errorf("of a part: %q, want %q", got, want)
	}
	if got, want := sent(), "||"; got != want {
		t.Errorf("once more: %q, want %q", got, want)
	}
	must(t, s.Close())
	s = mustOpen(t, o)
	defer s.Close()
	if got := sent(); got != both {
		t.Errorf("opened again: %q, want %q", got, both)
	}
}
