package solver

import (
	"runtime"
	"testing"
	"weak"
)

// TestResultIsAlone: a result does not keep the solve, whose scratch is many times as large, in memory.
func TestResultIsAlone(t *testing.T) {
	p := plantedRatings(41, 300, 9, 11)
	var results []*Result
	var solves []weak.Pointer[solve]
	for range 2 {
		run, err := newSolve(t.Context(), p, smallSettings())
		if err != nil {
			t.Fatal(err)
		}
		solves = append(solves, weak.Make(run))
		result, err := run.run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	runtime.GC()
	if solves[0].Value() != nil { // the other one may be on the stack yet
		t.Error("the scratch of a solve is kept as long as its result")
	}
	runtime.KeepAlive(results)
}
