package sketch

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/sketch/internal/codec"
)

// TestLacks: what a head says that there has to be is counted by the rows of its accounts. Rows of a process that ended
// before its next head, which are beyond them, take the place of none.
func TestLacks(t *testing.T) {
	s, err := NewMemory(Options{Seed: 7, Size: 50, Mirror: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	trainer, err := NewMemory(Options{Seed: 7, Size: 50, Merges: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trainer.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Begin("a", 0, 0); err != nil {
		t.Fatal(err)
	}
	rows := func(from, to int64) ([]Pair, *Head) {
		t.Helper()
		p := &Part{Topic: "a", Base: from, Next: to}
		for offset := from; offset < to; offset++ {
			p.Records = append(p.Records, Record{Offset: offset, Fate: Applied, Weight: 1, Payload: []byte("x")})
		}
		if err := s.Apply(p, nil); err != nil {
			t.Fatal(err)
		}
		e, err := s.Excerpt(1<<20, nil, false)
		if err == nil {
			err = s.Mirrored(e, nil, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(e.Pairs, func(p Pair) bool { return p.Key[0] != codec.PrefixRow }), e.Head
	}
	sent, head := rows(0, 6)
	beyond, _ := rows(6, 10)
	for _, c := range []struct {
		what  string
		pairs []Pair
		want  int64
	}{{"all", sent, 0}, {"half", sent[:3], 3}, {"none", nil, 6}, {"half, and rows beyond", slices.Concat(sent[:3], beyond),
		3}} {
		if got := trainer.Lacks(&Share{Head: head, Pairs: c.pairs}); got != c.want {
			t.Errorf("with %s of the rows %d are missing, not %d", c.what, got, c.want)
		}
	}
}
