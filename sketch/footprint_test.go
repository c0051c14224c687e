package sketch

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
)

// heap returns the bytes that are reachable.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFootprints: the index of a sample takes at most its footprint, and at least two fifths of it.
func TestFootprints(t *testing.T) {
	for _, n := range []int{10_000, 40_000} {
		for name, o := range map[string]policy.Settings{"identity": {Identity: "id"}, "cap": {CapBy: "user"}} {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			o.Size = n
			before := heap()
			s := reservoir.NewSamples(&o, false)
			r := s.All[Train]
			r.Capacity = n
			if o.CapBy != "" {
				r.PerGroup = 8
			}
			for i := range n + n/2 {
				var id policy.Identity
				binary.LittleEndian.PutUint64(id[:], uint64(i+1))
				e := reservoir.MakeEntry(rng.Uint64(), id, 0, 100, 0)
				var group policy.Identity
				binary.LittleEndian.PutUint64(group[:], uint64(1+i%(n/4)))
				r.Offer(e, group)
			}
			took, footprint := heap()-before, IndexFootprint(len(r.Entries), o.CapBy != "")
			t.Logf("%s: %d rows, %d bytes, footprint %d", name, len(r.Entries), took, footprint)
			if len(r.Entries) != n || took > footprint || took < 2*footprint/5 {
				t.Errorf("%s: the index of %d rows takes %d bytes, its footprint is %d", name, len(r.Entries), took,
					footprint)
			}
			runtime.KeepAlive(s)
		}
	}
}

// TestDiskFootprint: what Badger allocates stays below its footprint; a stored row is as large as is said, within a
// third.
func TestDiskFootprint(t *testing.T) {
	const n, payload = 4000, 80
	o := diskOptions(t)
	o.Size = n
	before := heap()
	s := mustOpen(t, o)
	defer func() { must(t, s.Close()) }()
	must(t, s.Begin("t", 0, 0))
	for next := int64(0); next < n; next += 500 {
		p := Part{Topic: "t", Base: next, Next: next + 500}
		for i := range int64(500) {
			p.Records = append(
				p.Records,
				Record{
					Offset:  next + i,
					Fate:    Applied,
					CRC:     uint32(i),
					Time:    next + i,
					Weight:  1,
					Payload: make([]byte, payload),
				},
			)
		}
		if err := s.Apply(&p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if took := heap() - before; took > DiskFootprint(n, payload) {
		t.Errorf("the state takes %d bytes, its footprint is %d", took, DiskFootprint(n, payload))
	}
	rows, bytes := s.Size()
	kept := 0
	for _, k := range rows {
		kept += k
	}
	if want := StoredFootprint(kept, payload); 3*bytes > 4*want || 3*bytes < 2*want {
		t.Errorf("%d rows are %d bytes, said to be %d", kept, bytes, want)
	}
}
