package rows

import "testing"

// TestNamesThatTablesAdd: a name that a list has got since an event was admitted has learned nothing of it.
func TestNamesThatTablesAdd(t *testing.T) {
	w := &Counted{Shared: true, Held: []bool{false, true}, Own: []bool{false, false}}
	for place, want := range []bool{false, true, true, true} {
		if w.Holds(place) != want {
			t.Errorf("place %d is held: %t", place, !want)
		}
	}
	if w.HoldsPair(0, -1) || !w.HoldsPair(0, 1) {
		t.Error("pairs are held by other names than theirs")
	}
	if all := (*Counted)(nil); all.Holds(7) || all.HoldsPair(0, 7) {
		t.Error("an event that counts in full holds names")
	}
}
