package admission

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestCopies: what a stream draws again and again is no copy, and floods of events that came before are, of which 512
// events at most are learned, and 64 where hardly any came again. What comes between and after them is learned.
func TestCopies(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"kind"}}
	of := func(kind int) *event.Event {
		return &event.Event{Label: float64(kind % 2), Weight: 1, Categorical: []string{fmt.Sprint(kind)}}
	}
	for name, draw := range map[string]func(r *rand.Rand, i int) int{
		"few kinds":           func(r *rand.Rand, _ int) int { return r.IntN(50) },
		"many kinds":          func(r *rand.Rand, _ int) int { return r.IntN(3000) },
		"hardly any again":    func(r *rand.Rand, _ int) int { return r.IntN(1_000_000) },
		"kinds of all shares": func(r *rand.Rand, _ int) int { return int(math.Exp(14 * r.Float64())) },
		"each twice":          func(_ *rand.Rand, i int) int { return i / 2 },
		"more come again": func(r *rand.Rand, i int) int {
			if r.Float64() < []float64{0.2, 0.4}[min(1, i/15_000)] {
				return r.IntN(i + 1)
			}
			return i
		},
		"others each day": func(r *rand.Rand, i int) int { return i/2000*1000 + r.IntN(1000) },
	} {
		c, r := newCopies(schema), rand.New(rand.NewPCG(7, 1))
		past := make([]int, 0, 30_000)
		for i := range 30_000 {
			past = append(past, draw(r, i))
			if c.take(of(past[i])) {
				t.Fatalf("%s: event %d is taken for a copy", name, i)
			}
		}
		if float64(c.single) < 0.3*float64(len(c.keys)) {
			continue // of what comes again and again a flood shows in nothing
		}
		unheard := 0
		for flood, sent := range map[string]func(i int) int{
			"one event":      func(int) int { return past[5] },
			"100 in turn":    func(i int) int { return past[i%100] },
			"2,000 again":    func(i int) int { return past[25_000+i%2000] },
			"5,000 again":    func(i int) int { return past[20_000+i] },
			"between others": func(i int) int { return []int{past[20_000+i], draw(r, 30_000+i)}[i%2] },
		} {
			learned := 0
			for i := range 5000 {
				kind := sent(i)
				isNew := c.count.of(c.fields.key(of(kind))) == 0
				switch isCopy := c.take(of(kind)); {
				case isCopy && isNew:
					t.Fatalf("%s, %s: a new event is taken for a copy", name, flood)
				case !isCopy && !isNew:
					learned++
				}
			}
			most := copiesWindow
			if float64(c.single) > 0.9*float64(len(c.keys)) {
				most = 4 * copiesLeast // where hardly an event comes again
			}
			if learned > most {
				t.Errorf("%s, %s: %d copies are learned, want at most %d", name, flood, learned, most)
			}
			for range copiesWindow {
				unheard--
				c.take(of(unheard))
			}
			if c.isFlood() {
				t.Errorf("%s, %s: has no end after %d new events", name, flood, copiesWindow)
			}
		}
	}
}

// TestTurnsAreNoCopies: fields that come again in turns, with other times, are no flood; with the same times they are.
func TestTurnsAreNoCopies(t *testing.T) {
	c := newCopies(&event.Schema{Categorical: []string{"shop"}})
	at := func(i, day int) *event.Event {
		return &event.Event{Weight: 1, Time: int64(day), Categorical: []string{fmt.Sprint("shop", i)}}
	}
	const shops, days = 2000, 3
	for i := range days * shops {
		if c.take(at(i%shops, i/shops)) {
			t.Fatalf("event %d is taken for a copy", i)
		}
	}
	for i := range shops {
		if isCopy := c.take(at(i, 0)); i > copiesWindow && !isCopy {
			t.Fatalf("event %d of the first day, sent again, is no copy", i)
		}
	}
}

// TestFloodsAreRemembered: which events came again in a flood is known for longer than the events are.
func TestFloodsAreRemembered(t *testing.T) {
	c := newCopies(&event.Schema{Categorical: []string{"kind"}})
	at := func(i int) *event.Event {
		return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{"a"}}
	}
	for range 2 {
		for i := range 2000 {
			c.take(at(i))
		}
	}
	for i := range copiesMemory {
		c.take(at(10_000 + i))
	}
	key := c.fields.key(at(1500))
	if n, ok := c.flooded.get(uint64(key)); !ok || n != 1 || c.count.of(key) != 0 {
		t.Errorf("%d events counted, known: %t, remembered: %d", n, ok, c.count.of(key))
	}
}

// TestKeyCounts: keys, many of which have one home, are counted as by a map.
func TestKeyCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var counts keyCounts
	want := make(map[uint32]uint32)
	for i := range 20_000 {
		key, n := uint32(r.IntN(40))<<16|uint32(r.IntN(1+i/10)), 1
		if want[key] > 0 && r.IntN(2) == 0 {
			n = -1
		}
		want[key] = uint32(int(want[key]) + n)
		if got := counts.add(key, n); got != want[key] {
			t.Fatalf("%d events of key %x, want %d", got, key, want[key])
		}
		if want[key] == 0 {
			delete(want, key)
		}
		if other := uint32(r.IntN(40))<<16 | uint32(r.IntN(1+i/10)); uint32(counts.of(other)) != want[other] {
			t.Fatalf("%d events of key %x, want %d", counts.of(other), other, want[other])
		}
	}
	if counts.used != len(want) || counts.used < 1000 {
		t.Errorf("%d keys, want %d", counts.used, len(want))
	}
}

// BenchmarkCopies takes up events of two names that do not come again. An operation is one event.
func BenchmarkCopies(b *testing.B) {
	c := newCopies(&event.Schema{Categorical: make([]string, 2)})
	ev, names := event.Event{Weight: 1, Categorical: make([]string, 2)}, make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("name-", i)
	}
	for b.Loop() {
		ev.Time++
		ev.Categorical[0], ev.Categorical[1] = names[ev.Time%1000], names[ev.Time%777]
		c.take(&ev)
	}
}

// TestCopiesForEver: what repeats for longer than is remembered is learned again, and memory is bounded.
func TestCopiesForEver(t *testing.T) {
	before := heap()
	c := newCopies(&event.Schema{Numeric: make([]string, 1)})
	ev := event.Event{Weight: 1, Numeric: make([]float64, 1)}
	for i := range 2*copiesMemory + 10 {
		ev.Numeric[0] = float64(i)
		c.take(&ev)
	}
	if used := int(heap() - before); used > copiesMemory*copyEntryBytes || c.count.used > copiesMemory ||
		c.single < copiesMemory-50 {
		t.Errorf("%d events take %d bytes, counted are %d", c.count.used, used, copiesMemory*copyEntryBytes)
	}
	for range copiesMemory + copiesWindow {
		c.take(&ev)
	}
	for range copiesWindow {
		if c.take(&ev) {
			t.Fatal("what is usual by now is taken for a copy")
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
