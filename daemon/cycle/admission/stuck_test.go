package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// burst returns event i of a stream of numbers, of whose events a share is of one kind.
func burst(r *rand.Rand, i int, share float64) *event.Event {
	if r.Float64() < share {
		return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{"one"}, Numeric: []float64{1}}
	}
	return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint(r.IntN(50))},
		Numeric: []float64{r.NormFloat64()}}
}

// openBursts returns what decides of a stream of bursts.
func openBursts() *EntityCap {
	m := config.DefaultModel()
	m.Schema = config.Schema{Task: "binary", Label: "y", Categorical: []string{"kind"}, Numeric: []string{"x"}}
	m.Resolve()
	schema := m.Schema.Event()
	return NewEntityCap(&m, &schema)
}

// TestStuckIsWhatTheStreamHasBecome: of a kind that comes more often than before, and stays, as many are left out as
// are remembered of copies. All after them are learned, and refits have them all.
func TestStuckIsWhatTheStreamHasBecome(t *testing.T) {
	c, r := openBursts(), rand.New(rand.NewPCG(13, 1))
	var to rows.Counted
	var late [][]byte
	for i := range 400_000 {
		share := 0.0
		if i > 10_000 {
			share = 0.2
		}
		ev := burst(r, i, share)
		if c.Take(&to, ev, rows.Position{}); i < 300_000 {
			continue
		}
		if to.None {
			t.Fatalf("event %d is left out", i)
		}
		late = append(late, rows.AppendEvent(nil, ev))
	}
	if n := c.Held[HeldCopy].Load(); n < copiesMemory/2 || n > copiesMemory+copiesWindow {
		t.Errorf("%d were left out before", n)
	}
	if floods := c.Floods(); floods != nil {
		for i, isCopy := range floods.Find(late)[0] {
			if isCopy {
				t.Fatalf("row %d of %d is left out", i, len(late))
			}
		}
	}
}

// TestRowsOfABurst: where events of a usual kind came in a burst, refits and a restart have as large a share of that
// kind as there was, also of what came long before and after.
func TestRowsOfABurst(t *testing.T) {
	c, r := openBursts(), rand.New(rand.NewPCG(13, 2))
	var to rows.Counted
	var sample [][]byte
	usual := 0
	for i := range 60_000 {
		share := 0.02
		if isBurst := i >= 20_000 && i < 23_000; isBurst {
			share = 0.3
		}
		ev := burst(r, i, share)
		c.Take(&to, ev, rows.Position{})
		if sample = append(sample, rows.AppendEvent(nil, ev)); share == 0.02 && ev.Categorical[0] == "one" {
			usual++
		}
	}
	left := c.Held[HeldCopy].Load()
	if left < 300 {
		t.Fatalf("%d of the burst are left out", left)
	}
	counted := func(isCopy func(i int) bool) (n int) {
		for i := range sample {
			var ev event.Event
			if err := rows.DecodeEvent(&ev, sample[i], make(rows.Interner)); err != nil {
				t.Fatal(err)
			}
			if !isCopy(i) && ev.Categorical[0] == "one" {
				n++
			}
		}
		return n
	}
	of := c.Floods().Find(sample)[0]
	second := openBursts()
	if err := second.Restore(c.Keep()); err != nil {
		t.Fatal(err)
	}
	replay := func(i int) bool {
		var ev event.Event
		if err := rows.DecodeEvent(&ev, sample[i], make(rows.Interner)); err != nil {
			t.Fatal(err)
		}
		second.Take(&to, &ev, rows.Position{})
		return to.None
	}
	refit, restart := counted(func(i int) bool { return of[i] }), counted(replay)
	t.Logf("%d usual rows: a refit has %d, a restart %d; %d were left out", usual, refit, restart, left)
	// What is usual is an estimate from some 80 events.
	if min(refit, restart) < usual*3/4 || max(refit, restart) > usual*4/3 {
		t.Errorf("of %d usual rows of a kind a refit has %d, a restart %d", usual, refit, restart)
	}
}
