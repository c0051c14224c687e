package dataset

import "testing"

// TestRowsOfFormats: each format has a name that no other has and a text. What events are read from can be replayed,
// and of a format whose rows are not lines nothing makes a line a record.
func TestRowsOfFormats(t *testing.T) {
	seen := map[Format]bool{"": true}
	for i := range Formats {
		k := &Formats[i]
		if seen[k.Name] || k.Doc == "" || formatKind(k.Name) != k {
			t.Errorf("%q has no text, or the name of another: %q", k.Name, k.Doc)
		}
		seen[k.Name] = true
		if (k.records != nil) == (k.readsRows != nil) {
			t.Errorf("%s: lines as records: %t, rows: %t", k.Name, k.records != nil, k.readsRows != nil)
		}
		if k.isJSON && k.takesLine == nil {
			t.Errorf("%s has a JSON form that nothing reads", k.Name)
		}
	}
	for line, want := range map[string]Format{
		"PAR1\t2\t3": Parquet, "{\"a\": 1}": JSONL, "[1]": JSONL, "1\t2\t3\t4": MovieLens, "3 1:2 7:4": LIBSVM, "a,b": CSV,
	} {
		if got := formatOf([]byte(line)); got != want {
			t.Errorf("%q is of format %s, want %s", line, got, want)
		}
	}
}
