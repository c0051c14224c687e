package sketch

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/refitd/refitd/sketch/internal/storage"
)

// TestProgress: opening a state reports its files and its rows. A later pass over it and a restored backup report the
// rows. Each report starts at zero and never exceeds the total.
func TestProgress(t *testing.T) {
	o := Options{Dir: t.TempDir(), Size: 20_000, HoldoutSize: 2, Seed: 1}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * storage.ProgressEvery
	if err := s.Begin("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	part := Part{Topic: "t", Next: n}
	for i := range int64(n) {
		part.Records = append(part.Records,
			Record{Offset: i, Fate: Applied, Time: NoTime, Weight: 1, Payload: []byte("x")})
	}
	s.Classify(&part)
	if err := s.Apply(&part, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	reports := map[string]int{}
	last := map[string]int64{}
	ctx := WithProgress(t.Context(), func(unit string, done, total int64) {
		if reports[unit]++; done < 0 || done > total || done > 0 && done <= last[unit] || unit == "rows" && total != n {
			t.Errorf("%d of %d %s after %d", done, total, unit, last[unit])
		}
		last[unit] = done
	})
	want := func(what string, units ...string) {
		t.Helper()
		for _, u := range units {
			if reports[u] == 0 || u == "rows" && reports[u]%(n/storage.ProgressEvery) != 0 {
				t.Errorf("%s reported %s %d times", what, u, reports[u])
			}
		}
		clear(reports)
	}
	if s, err = OpenExisting(ctx, o.Dir, nil); err != nil {
		t.Fatal(err)
	}
	want("opening", "bytes", "rows")
	var b bytes.Buffer
	for what, f := range map[string]func() error{
		"Check":  s.Check,
		"State":  func() error { _, err := s.State(); return err },
		"Sample": func() error { _, err := s.Sample(); return err },
		"Backup": func() error { b.Reset(); _, err := s.Backup(&b); return err },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
		want(what, "rows")
	}
	s.SetProgress(nil)
	if err := s.Check(); err != nil || len(reports) > 0 {
		t.Errorf("reported %v, %v", reports, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, fmt.Sprintf("%s/again", t.TempDir()), &b, nil); err != nil {
		t.Fatal(err)
	}
	want("restoring", "rows")
}
