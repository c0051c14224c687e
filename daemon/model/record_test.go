package model

import "testing"

// TestCopiesAreWrittenOnce: what came is written one turn later, once, and again where that failed.
func TestCopiesAreWrittenOnce(t *testing.T) {
	var c lateCopies
	for i, turn := range []struct {
		now, writes string
		fails       bool
	}{
		{"", "", false}, // nothing came yet
		{"a", "", false},
		{"a", "a", true},
		{"a", "a", false},
		{"a", "", false}, // nothing came since
		{"b", "", false},
		{"c", "b", false},
		{"c", "c", false},
		{"c", "", false},
	} {
		var now []byte
		if turn.now != "" {
			now = []byte(turn.now)
		}
		wrote := ""
		c.take(now, func(b []byte) bool { wrote += string(b); return !turn.fails })
		if wrote != turn.writes {
			t.Errorf("turn %d writes %q, want %q", i, wrote, turn.writes)
		}
	}
}
