package event

import "testing"

// TestRowsOfKinds: each kind of derived field has a name that no other has, a text and what it has; a list is of an
// entity, and each unit of an age has a length.
func TestRowsOfKinds(t *testing.T) {
	seen := map[Kind]bool{"": true}
	for i := range Kinds {
		k := &Kinds[i]
		if seen[k.Name] || k.Doc == "" || k.names == nil || KindOf(k.Name) != k {
			t.Errorf("%q has no text or no names, or the name of another: %q", k.Name, k.Doc)
		}
		seen[k.Name] = true
		if k.HasField && !k.OfEntity {
			t.Errorf("%s has a list of no entity", k.Name)
		}
	}
	for _, unit := range KindOf(Age).Units {
		if AgeUnits[unit] <= 0 {
			t.Errorf("an age in %s", unit)
		}
	}
	if len(KindOf(Age).Units) != len(AgeUnits) {
		t.Errorf("units %q of an age, and lengths %v", KindOf(Age).Units, AgeUnits)
	}
}
