package format

import "testing"

// TestNamedIsACopy: a caller that changes the list of fields does not change the schema.
func TestNamedIsACopy(t *testing.T) {
	s := Schema{Categorical: []string{"user", "item"}}
	clear(s.Named())
	if s.Categorical[0] != "user" || s.Categorical[1] != "item" {
		t.Errorf("fields are now %q", s.Categorical)
	}
}
