package guard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/fitted"
)

func TestReservoirIsCappedByEntity(t *testing.T) {
	var r fitted.Reservoir
	for i := range 10_000 {
		add(&r, fitted.GuardRow{Entity: fmt.Sprint(i % 200), Payload: []byte{1}})
	}
	for range 10_000 {
		add(&r, fitted.GuardRow{Entity: "one", Payload: []byte{2}})
	}
	count := make(map[string]int)
	for _, row := range r.Rows {
		count[row.Entity]++
	}
	if len(r.Rows) != GuardSize || count["one"] > guardOfEntity {
		t.Errorf("%d rows, %d of one entity", len(r.Rows), count["one"])
	}
	for entity, n := range r.Count {
		if count[entity] != n {
			t.Errorf("entity %s has %d rows, counted %d", entity, count[entity], n)
		}
	}
	if add(&r, fitted.GuardRow{Entity: "large", Payload: make([]byte, guardRowBytes+1)}); r.Count["large"] != 0 {
		t.Error("a row above the limit was kept")
	}
}

// TestVerdict: what passes and what does not, for the three sets.
func TestVerdict(t *testing.T) {
	rows := func(unseen, current float64) *RowDifferences {
		return &RowDifferences{
			N:       100,
			Counted: 100,
			Unseen:  Difference{Mean: unseen, Variance: 1e-4, Against: 1},
			Current: Difference{Mean: current, Variance: 1e-4, Against: 1},
		}
	}
	gains := func(unseen, current float64) *RowDifferences {
		of := rows(unseen, current)
		of.Refit = Difference{Mean: -0.3, Variance: 1e-4, Against: 1}
		return of
	}
	stuck := gains(-0.05, 0)
	stuck.Counted = GuardLeast - 1
	few := rows(1, 1)
	few.N = GuardLeast - 1
	beyond := rows(0, 0)
	beyond.beyond = true
	for name, test := range map[string]struct {
		held, recent, latest *RowDifferences
		same                 bool
		want                 HeldBack
	}{
		"as good":                     {rows(0, 0), rows(0, 0), rows(0, 0), true, ""},
		"within the margin":           {rows(0.16, 0.1), rows(0.1, 0.1), rows(0.1, 0.1), true, ""},
		"held-out rows":               {rows(0.2, 0.1), rows(0, 0), rows(0, 0), true, HeldBackHoldout},
		"no worse than what is there": {rows(0.2, 0), rows(0.2, 0), rows(0.2, 0), true, ""},
		"recent events":               {rows(0, 0), rows(0.2, 0.1), rows(0, 0), true, HeldBackWindow},
		"after a change":              {rows(1, 1), rows(1, 1), gains(-0.3, -0.3), true, ""},
		"a while after a change":      {rows(1, 1), rows(1, 1), gains(-0.05, 0), true, ""},
		"one label":                   {rows(1, 1), rows(0, 0), gains(-0.3, -0.3), false, HeldBackHoldout},
		"by few events that differ":   {rows(1, 1), rows(0, 0), stuck, true, HeldBackHoldout},
		"worse of late":               {rows(1, 1), rows(0, 0), gains(0.2, 0.1), true, HeldBackWindow},
		"latest events":               {rows(0, 0), rows(0, 0), rows(0.2, 0.1), true, HeldBackWindow},
		"few rows":                    {few, few, few, true, ""},
		"outputs":                     {rows(0, 0), beyond, rows(0, 0), true, HeldBackOutputs},
	} {
		if got := verdict(test.held, test.recent, test.latest, 0, test.same); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestReservoirReplacesTheOldest: the row that makes place is the one that was added first, of the entity where that
// has its share, as by a walk over all rows.
func TestReservoirReplacesTheOldest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r fitted.Reservoir
	added := make([]float64, 0, GuardSize) // by row, when it was added
	for n := range 4000 {
		entity := fmt.Sprint("e", int(200*rng.Float64()*rng.Float64()))
		own := r.Count[entity] >= max(guardOfEntity, GuardSize/max(len(r.Count), 1))
		at := len(r.Rows)
		if own || at == GuardSize {
			at = -1
			for i := range r.Rows {
				if (!own || r.Rows[i].Entity == entity) && (at < 0 || added[i] < added[at]) {
					at = i
				}
			}
		} else {
			added = append(added, 0)
		}
		added[at] = float64(n)
		if add(&r, fitted.GuardRow{Entity: entity, Label: float64(n)}); r.Rows[at].Label != float64(n) {
			t.Fatalf("row %d of %s is not in place %d, the oldest", n, entity, at)
		}
	}
}
