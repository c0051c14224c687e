package verify

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
)

// derived gives the model of a bench derived fields.
func (b *bench) derived() {
	b.t.Helper()
	s := &b.model.Schema
	s.Derived = []config.Derived{
		{Name: "before", Kind: "previous_label", Of: "user"},
		{Name: "seen", Kind: "last", Of: "user", Field: "item", K: 2},
	}
	s.Categorical, s.Multi, s.Optional = append(s.Categorical, "before"), []string{"seen"}, []string{"before", "seen"}
}

// TestDerivedFields: derived fields are proved where a partition is read from its start. Where the log has lost that
// they are left out, and the rest of the rows is compared as ever.
func TestDerivedFields(t *testing.T) {
	b := newBench(t)
	b.derived()
	b.plain()
	b.store([partitions]int64{90, 20}, nil)
	b.store(b.next, nil)
	b.verifyOK()

	admin := kadm.NewClient(b.producer())
	if _, err := admin.DeleteRecords(b.context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0,
		At: 10}}}); err != nil {
		t.Fatal(err)
	}
	r := b.verify()
	if p := r.Partitions; p[0].Digest != digestUnverifiable || p[0].CheckedFrom != 10 || p[1].Digest != digestOK ||
		r.Summary.Lost+r.Summary.Double != 0 {
		t.Errorf("%+v", r)
	}
	b.withStore(func(s *sketch.Store) {
		if _, err := s.ForgetSubject("user", []byte("u3")); err != nil {
			t.Fatal(err)
		}
	})
	if r = b.verify(); r.Summary.NotRecomputed == "" || r.Partitions[1].Digest != digestOK {
		t.Errorf("forgotten: %+v", r)
	}
}

// TestDerivedFieldsDiffer: rows whose derived fields are not those of the log are noticed, though all that events gave
// is right.
func TestDerivedFieldsDiffer(t *testing.T) {
	b := newBench(t)
	b.derived()
	b.plain()
	b.store([partitions]int64{90, 20}, nil)
	b.withStore(func(s *sketch.Store) {
		if err := s.Revise(func(string, sketch.Entity) ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	})
	b.store(b.next, nil)
	if r := b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestMismatch {
		t.Errorf("%+v", r)
	}
}
