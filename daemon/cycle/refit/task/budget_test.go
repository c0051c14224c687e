package task

import (
	"testing"

	"github.com/refitd/refitd/snapshot/format"
)

// TestSweepsAreRepeatedWhereTheyEnded: of a refit with two variational stages that the clock ended in the one behind
// its solves, the first is repeated whole.
func TestSweepsAreRepeatedWhereTheyEnded(t *testing.T) {
	const limit, solves, sweeps = 10, 3, 4
	n := sweeps
	b := Budget{Repeat: &format.CutShort{Solves: solves, Sweeps: &n}}
	for calls := range solves + 1 {
		b.Calls = calls
		want := limit
		if calls == solves {
			want = sweeps
		}
		if got := b.Sweeps(limit); got != want || b.EndedInSweeps() != (calls == solves) {
			t.Errorf("after %d of %d solves: %d sweeps, want %d; ended in them: %t", calls, solves, got, want,
				b.EndedInSweeps())
		}
	}
}
