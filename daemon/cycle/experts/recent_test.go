package experts

import (
	"math/rand/v2"
	"testing"
)

// TestRecentIsBounded: what is remembered is the last so many keys at least, and twice as many at most.
func TestRecentIsBounded(t *testing.T) {
	r := newRecent[int](100)
	for i := 1; i < 10_000; i++ {
		r.put(uint64(i), i)
		if n := r.now.used + r.before.used; n > 200 {
			t.Fatalf("%d keys are remembered", n)
		}
		if v, ok := r.get(uint64(max(1, i-99))); !ok || v != max(1, i-99) {
			t.Fatalf("key %d is not remembered after key %d", max(1, i-99), i)
		}
	}
}

// TestRecentIsTwoMaps: what is remembered is what two maps of Go remember, of keys that come again or share their low
// bits, and of 0.
func TestRecentIsTwoMaps(t *testing.T) {
	const limit = 1000
	random := rand.New(rand.NewPCG(1, 2))
	r, now, before := newRecent[int](limit), make(map[uint64]int), make(map[uint64]int)
	for i := range 50_000 {
		key := uint64(random.IntN(3000))
		switch {
		case key == 1:
			key = 0
		case i%2 == 0:
			key <<= 40
		}
		want, known := now[key]
		if !known {
			want, known = before[key]
		}
		if got, ok := r.get(key); got != want || ok != known {
			t.Fatalf("event %d, key %d: %d, %t, want %d, %t", i, key, got, ok, want, known)
		}
		if i%3 > 0 {
			r.put(key, i)
			if now[key] = i; len(now) >= limit {
				now, before = make(map[uint64]int), now
			}
		}
		if r.now.used != len(now) || r.before.used != len(before) {
			t.Fatalf("event %d: %d and %d keys, want %d and %d", i, r.now.used, r.before.used, len(now), len(before))
		}
	}
}
