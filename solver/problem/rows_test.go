package problem

import (
	"errors"
	"testing"
)

// TestValidateRows: rows that were not made by Append are looked at, also those that more were appended to or that were
// selected from.
func TestValidateRows(t *testing.T) {
	bad := func() *Rows {
		return &Rows{NumColumns: 4, Start: []int{0, 2, 4}, Index: []int32{0, 3, 2, 1}, Value: []float64{1, 1, 1, 1}}
	}
	longer := bad()
	longer.Append([]int32{0, 1, 2}, []float64{1, 1, 1})
	more := bad().Select([]int{1})
	more.Append([]int32{0, 3}, []float64{1, 1})
	for name, x := range map[string]*Rows{"parts": bad(), "with a row appended": longer, "selected": bad().Select([]int{0,
		1}),
		"selected, with a row appended": more} {
		if err := x.validate(); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := NewRows(4, 2, 4)
	good.Append([]int32{0, 3}, []float64{1, 1})
	good.Append([]int32{1, 2}, []float64{1, 1})
	for name, x := range map[string]*Rows{"appended": good, "selected": good.Select([]int{1, 0, 1})} {
		if err := x.validate(); err != nil || x.checked != len(x.Index) {
			t.Errorf("%s: %v, %d of %d entries are known to be right", name, err, x.checked, len(x.Index))
		}
	}
}
