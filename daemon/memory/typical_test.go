package memory

import "testing"

// TestTypical: what a configuration takes as a rule is below its bound, does not depend on limits that are only for
// events larger than usual ones, and falls with limits that are below these.
func TestTypical(t *testing.T) {
	typical := func(change ...string) (typical, most int64) {
		c, err := load(t, change...)
		if err != nil {
			t.Fatal(err)
		}
		m := Of(c)
		return m.TypicalBytes, m.TotalBytes
	}
	const size, input = "size: 200000", "start: earliest"
	first, most := typical(size, "size: 50000")
	if first <= processBytes || 2*first > most {
		t.Errorf("typically %d bytes of at most %d", first, most)
	}
	got, more := typical(size, "size: 50000", input, "start: earliest, max_id_bytes: 4KiB")
	if got != first || more <= most {
		t.Errorf("with longer names typically %d bytes, at most %d; before %d and %d", got, more, first, most)
	}
	if got, _ := typical(size, "size: 200000"); got <= first {
		t.Errorf("with more rows typically %d bytes, before %d", got, first)
	}
	if got, _ := typical(size, "size: 50000", "fold_in: {", "fold_in: {max_rows: 100, "); got >= first {
		t.Errorf("with fewer names typically %d bytes, before %d", got, first)
	}
}
