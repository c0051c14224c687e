package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// historySet returns a set of one table of prices with as_of: event, and another with the same settings but as_of.
func historySet(t *testing.T) (with, latest *Set) {
	t.Helper()
	parse := func(as string) *Set {
		c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input: {topics: [t]}
  schema: {task: regression, label: y, categorical: [user, item]}
  tables: [{name: prices, topics: [prices], of: item, key: id, categorical: [tier], multi: [tags], numeric: [price]`+as+`}]
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return New(&c.Models[0])
	}
	return parse(", as_of: event"), parse(", as_of: latest")
}

// written is a record of a key: price 0 is a tombstone.
type written struct {
	time, offset int64
	price        float64
}

func priced(name string, price float64) *event.Event {
	return &event.Event{Weight: 1, Categorical: []string{name, fmt.Sprint("t", price)}, Multi: [][]string{nil},
		Numeric: []float64{price}}
}

// feed takes records of a key as package ingest does, and returns the row that they leave.
func feed(s *Set, topic string, partition int32, name string, records []written, keep, limit int) (old *Row) {
	for _, w := range records {
		r, ev := &Row{Topic: topic, Partition: partition, Offset: w.offset}, (*event.Event)(nil)
		if w.price != 0 {
			ev = priced(name, w.price)
			ev.Time = w.time
		}
		if !r.Follow(old, w.time, ev, keep, limit, make(rows.Interner)) {
			continue
		}
		if old != nil {
			s.Remove(0, old)
		}
		r.Bytes = len(AppendRow(nil, r))
		s.Put(0, r)
		old = r
	}
	return old
}

// priceAt returns with which price an event of a time is joined, 0 for none.
func priceAt(s *Set, name string, time int64) float64 {
	ev := &event.Event{Time: time, Categorical: []string{"u", name, ""}, Multi: [][]string{nil},
		Numeric: []float64{math.NaN()}}
	if s.Join(ev); ev.Categorical[2] == "" {
		return 0
	}
	return ev.Numeric[0]
}

// TestHistoryAgainstSlowTwin: whatever the order of times within partitions, and of partitions, an event is joined with
// the value of its time as a scan of all records finds it, and the bytes of a refit's record are the same.
func TestHistoryAgainstSlowTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		partitions := make([][]written, 1+r.IntN(3))
		var all []written
		for p := range partitions {
			for o := range 1 + r.Int64N(9) {
				w := written{time: 1 + r.Int64N(12), offset: o, price: float64(1 + r.IntN(1<<20))}
				partitions[p], all = append(partitions[p], w), append(all, written{w.time, int64(p)<<32 | o, w.price})
			}
		}
		slices.SortFunc(all, func(a, b written) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset))
		})
		twin := func(time int64) float64 {
			price := all[0].price
			for _, w := range all {
				if w.time <= time {
					price = w.price
				}
			}
			return price
		}
		var want []byte
		for range 3 {
			s, _ := historySet(t)
			for _, p := range r.Perm(2 * len(partitions)) { // two keys of each say something of the name
				var of []written
				for _, w := range partitions[p/2] {
					if w.offset*7%3%2 == int64(p%2) {
						of = append(of, w)
					}
				}
				feed(s, "prices", int32(p/2), "i", of, 1000, 1<<20)
			}
			for time := range int64(14) {
				if got := priceAt(s, "i", time); time > 0 && got != twin(time) || time == 0 && got != twin(math.MaxInt64) {
					t.Fatalf("round %d: %g at %d, the twin says %g, of %v", round, got, time, twin(time), partitions)
				}
			}
			if now := s.Find(Entity{0, "i"}).Event.Numeric[0]; now != twin(math.MaxInt64) {
				t.Fatalf("round %d: the latest is %g", round, now)
			}
			if got := s.AppendRecord(nil); want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Fatalf("round %d: another record", round)
			}
		}
	}
}

// TestEndOfValues: a tombstone ends a value from its time on, a record after it begins another, whatever its time; and
// whether there is a value follows from the last record alone.
func TestEndOfValues(t *testing.T) {
	s, _ := historySet(t)
	feed(s, "prices", 0, "i", []written{{10, 0, 1}, {20, 1, 0}, {25, 2, 0}, {30, 3, 2}, {40, 4, 0}}, 9, 1<<20)
	for time, want := range map[int64]float64{5: 1, 10: 1, 19: 1, 20: 0, 29: 0, 30: 2, 39: 2, 40: 0, 99: 0} {
		if got := priceAt(s, "i", time); got != want {
			t.Errorf("%g at %d, want %g", got, time, want)
		}
	}
	if n, _ := s.Count(0); n != 0 || s.Find(Entity{0, "i"}) != nil || len(s.Rows(0)) != 0 {
		t.Errorf("%d rows after the tombstone", n)
	}
	named := 0
	if s.EachNamed(func([]byte) bool { named++; return true }); named != 1 {
		t.Errorf("a name with a history alone is named %d times", named)
	}
	feed(s, "prices", 1, "i", []written{{7, 0, 3}}, 9, 1<<20)
	for time, want := range map[int64]float64{8: 3, 15: 1, 25: 3, 35: 2, 50: 3} {
		if got := priceAt(s, "i", time); got != want {
			t.Errorf("%g at %d, want %g of two rows", got, time, want)
		}
	}
	feed(s, "prices", 2, "i", []written{{50, 0, 4}, {60, 1, 0}}, 9, 1<<20)
	if r := s.Find(Entity{0, "i"}); r == nil || r.Event.Numeric[0] != 3 {
		t.Errorf("%+v counts of two rows", r)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		s, _ := historySet(t)
		var list []written
		is := false
		for o := range r.Int64N(8) {
			w := written{time: 1 + r.Int64N(9), offset: o, price: float64(r.IntN(3))}
			list, is = append(list, w), w.price != 0
		}
		feed(s, "prices", 0, "i", list, 2+r.IntN(4), 1<<20)
		n, _ := s.Count(0)
		if (s.Find(Entity{0, "i"}) != nil) != is || (n == 1) != is || len(s.Rows(0)) != n {
			t.Fatalf("a row is %t after %v", !is, list)
		}
		c := s.Snapshot()
		if m, _ := c.Count(0); m != n {
			t.Fatalf("%d rows in a copy of %d", m, n)
		}
	}
}

// TestHistoryIsBounded: the newest values stay, within their number and their bytes; older events get the oldest, and
// are counted; and records that say the same again take no room.
func TestHistoryIsBounded(t *testing.T) {
	s, _ := historySet(t)
	var list []written
	for i := range int64(10) {
		list = append(list, written{10 * (i + 1), i, float64(i + 1)})
	}
	feed(s, "prices", 0, "i", list, 3, 1<<20)
	for time, want := range map[int64]float64{15: 8, 79: 8, 80: 8, 90: 9, 100: 10, 500: 10} {
		if got := priceAt(s, "i", time); got != want {
			t.Errorf("%g at %d, want %g", got, time, want)
		}
	}
	if n := s.Earlier(0); n != 2 {
		t.Errorf("%d joins with a newer value, want 2", n)
	}
	s, _ = historySet(t)
	row := feed(s, "prices", 0, "i", list, 100, 200)
	if n := len(AppendRow(nil, row)); n > 200 || priceAt(s, "i", 100) != 10 || priceAt(s, "i", 15) < 3 {
		t.Errorf("%d bytes, the oldest price is %g", n, priceAt(s, "i", 15))
	}
	s, _ = historySet(t)
	list = nil
	for i := range int64(90) { // a dump a day, of which each tenth has another price
		list = append(list, written{10 * (i + 1), i, float64(i/10 + 1)})
	}
	feed(s, "prices", 0, "i", list, 11, 1<<20)
	for time := int64(10); time <= 900; time += 5 {
		if got, want := priceAt(s, "i", time), float64((time/10-1)/10+1); got != want {
			t.Errorf("%g at %d, want %g", got, time, want)
		}
	}
}

// TestRowsOfBothForms: a row that was written before a table had as_of: event is a history of one value, and one with
// a history says its newest in a table without.
func TestRowsOfBothForms(t *testing.T) {
	with, latest := historySet(t)
	old := AppendRow(nil, &Row{Topic: "prices", Offset: 5, Event: func() event.Event {
		ev := priced("i", 7)
		ev.Time = 50
		return *ev
	}()})
	row, err := DecodeRow("prices", 0, old, make(rows.Interner))
	if err != nil {
		t.Fatal(err)
	}
	with.Put(0, row)
	next := &Row{Topic: "prices", Offset: 6}
	ev := priced("i", 9)
	ev.Time = 60
	if !next.Follow(row, 60, ev, 5, 1<<20, make(rows.Interner)) {
		t.Fatal("no row")
	}
	with.Remove(0, row)
	with.Put(0, next)
	if a, b := priceAt(with, "i", 55), priceAt(with, "i", 65); a != 7 || b != 9 {
		t.Errorf("%g, then %g", a, b)
	}
	again, err := DecodeRow("prices", 0, AppendRow(nil, next), make(rows.Interner))
	if err != nil || again.Offset != 6 || !bytes.Equal(again.History, next.History) {
		t.Fatalf("%+v: %v", again, err)
	}
	latest.Put(0, again)
	if a, b := priceAt(latest, "i", 55), priceAt(latest, "i", 65); a != 9 || b != 9 {
		t.Errorf("%g and %g by the latest", a, b)
	}
	b := AppendRow(nil, next)
	for n := range b {
		if r, err := DecodeRow("prices", 0, b[:n], make(rows.Interner)); err == nil && len(r.History) == len(next.History) {
			t.Errorf("a row of %d of %d bytes is read", n, len(b))
		}
	}
}

// TestChanging: columns are named that a table's latest value does not suit, and no others.
func TestChanging(t *testing.T) {
	with, latest := historySet(t)
	for _, s := range []*Set{latest, with} {
		list := make([]*Row, 200)
		at := int64(1_700_000_000_000)
		put := func(i int, price float64, tier string) {
			ev := priced(fmt.Sprint("i", i), price)
			ev.Time, ev.Categorical[1] = at, tier
			row := &Row{Topic: "prices", Event: *ev}
			if list[i] != nil {
				s.Remove(0, list[i])
				s.Changed(0, list[i], row)
			}
			s.Put(0, row)
			list[i] = row
		}
		for i := range list {
			put(i, 1, "a")
		}
		for i := range 20 {
			put(i, 2, "a")
		}
		if got := s.Changing(0); got != nil {
			t.Errorf("%q change, of a tenth", got)
		}
		put(0, 3, "b")
		want := []string{"price"}
		if s == with {
			want = nil
		}
		if got := s.Changing(0); !slices.Equal(got, want) {
			t.Errorf("%q change, want %q", got, want)
		}
		at += changesWindow + 1
		if put(1, 5, "a"); s.Changing(0) != nil {
			t.Error("changes of another week count")
		}
	}
}
