package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// records reads the whole log.
func records(t *testing.T, store *Store) []Record {
	t.Helper()
	var all []Record
	for r, err := range store.Log("m") {
		must(t, err)
		all = append(all, r)
	}
	return all
}

func TestLogTellsWhatHappened(t *testing.T) {
	store, _ := storeOf(t, 0)
	now := created
	store.Now, store.By = func() time.Time { return now }, "refitd@test"
	c := testContents(small)
	half := Number(0.5)
	c.Meta.Decision, c.Meta.Reason, c.Meta.Gate = "promoted", "first version", &Metrics{N: 9, Loss: &half}
	none := int64(0)
	first, err := store.Publish(t.Context(), "m", c, Move{Alias: Champion, From: &none})
	must(t, err)
	c.Meta.Decision, c.Meta.Reason = "kept", "worse"
	second, err := store.Publish(t.Context(), "m", c)
	must(t, err)
	if second.Previous != first.Digest || first.Previous != "" {
		t.Errorf("previous manifests %q and %q, want none and %q", first.Previous, second.Previous, first.Digest)
	}
	_, err = store.Publish(t.Context(), "m", c, Move{Alias: Champion, From: &none})
	if !errors.Is(err, ErrConflict) {
		t.Errorf("publish over another champion: %v, want ErrConflict", err)
	}
	now = now.Add(-24 * time.Hour) // E16: the clock goes back
	store.By = "ann@desk"
	_, err = store.MoveAlias(t.Context(), "m", Move{Alias: Champion, To: 2, Event: EventPromote, Why: "looks right"})
	must(t, err)
	_, err = store.MoveAlias(t.Context(), "m", Move{Alias: "canary", To: 1})
	must(t, err)
	_, err = store.MoveAlias(t.Context(), "m", Move{Alias: "canary"})
	must(t, err)
	third, err := store.Publish(t.Context(), "m", c)
	must(t, err)
	if third.Version != 3 {
		t.Errorf("version %d after the clock went back, want 3", third.Version)
	}

	early := now
	want := []Record{
		{
			Sequence:       1,
			Time:           created,
			Event:          EventPublish,
			Version:        1,
			Kind:           "refit",
			ManifestDigest: first.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves: []AliasMove{
				{Latest, 0, 1},
				{Champion, 0, 1},
			},
			Decision: "promoted",
			Reason:   "first version",
			Gate:     &Metrics{N: 9, Loss: &half},
			By:       "refitd@test",
		},
		{
			Sequence:       2,
			Time:           created,
			Event:          EventPublish,
			Version:        2,
			Kind:           "refit",
			ManifestDigest: second.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves: []AliasMove{
				{Latest, 1, 2},
			},
			Decision: "kept",
			Reason:   "worse",
			Gate:     &Metrics{N: 9, Loss: &half},
			By:       "refitd@test",
		},
		{
			Sequence:       3,
			Time:           early,
			Event:          EventPromote,
			Version:        2,
			Kind:           "refit",
			ManifestDigest: second.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves:          []AliasMove{{Champion, 1, 2}},
			Why:            "looks right",
			By:             "ann@desk",
		},
		{
			Sequence:       4,
			Time:           early,
			Event:          EventAlias,
			Version:        1,
			Kind:           "refit",
			ManifestDigest: first.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves:          []AliasMove{{"canary", 0, 1}},
			By:             "ann@desk",
		},
		{Sequence: 5, Time: early, Event: EventAlias, Moves: []AliasMove{{"canary", 1, 0}}, By: "ann@desk"},
	}
	got := records(t, store)
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("record %d\n got %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
	if p, err := store.Alias("m", Champion); err != nil || p.Sequence != 3 || p.Event != EventPromote ||
		!p.Moved.Equal(early) {
		t.Errorf("champion %+v, %v", p, err)
	}
	for _, test := range []struct {
		at   time.Time
		want map[string]int64 // sequence of the record behind each alias
	}{
		{created.Add(-48 * time.Hour), map[string]int64{}},
		{created.Add(-time.Hour), map[string]int64{Latest: 6, Champion: 3}},
		{created, map[string]int64{Latest: 6, Champion: 3}},
	} {
		live, err := store.LiveAt("m", test.at)
		must(t, err)
		got := map[string]int64{}
		for alias, r := range live {
			got[alias] = r.Sequence
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("live at %v: %v, want %v", test.at, got, test.want)
		}
	}
}

// A log cut off at any byte is read up to its last whole line, and continued from there; the numbers of moves never
// go back.
func TestTornLog(t *testing.T) {
	store, dir := storeOf(t, 2)
	path := filepath.Join(dir, "m", "log.jsonl")
	content, err := os.ReadFile(path)
	must(t, err)
	for n := len(content) - 1; n >= 0; n -= 1 + n/20 {
		must(t, os.WriteFile(path, content[:n], 0o644))
		whole := len(records(t, store))
		if whole > 1 {
			t.Errorf("cut off at %d of %d: %d records", n, len(content), whole)
		}
		before, err := store.Alias("m", Latest)
		must(t, err)
		must(t, setAlias(t, store, Latest, 1))
		got := records(t, store)
		if n == 0 {
			whole = 0
		}
		if len(got) != whole+2 || got[whole].Event != EventRecovered || got[whole].Sequence != before.Sequence ||
			got[whole+1].Sequence != before.Sequence+1 {
			t.Errorf("cut off at %d: %d whole lines, then %+v", n, whole, got)
		}
		must(t, setAlias(t, store, Latest, 2))
	}
}

func TestDamagedLog(t *testing.T) {
	store, dir := storeOf(t, 3)
	path := filepath.Join(dir, "m", "log.jsonl")
	content, err := os.ReadFile(path)
	must(t, err)
	content[0] = '#'
	must(t, os.WriteFile(path, content, 0o644))
	good, bad := 0, 0
	for _, err := range store.Log("m") {
		if err == nil {
			good++
		} else if bad++; !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d records and %d errors, want 2 and 1", good, bad)
	}
	if _, err := store.LiveAt("m", created); !errors.Is(err, ErrFormat) {
		t.Errorf("LiveAt: %v, want ErrFormat", err)
	}
	if m, err := store.Publish(t.Context(), "m", testContents(small)); err != nil || m.Version != 4 {
		t.Errorf("publish on: version %d, %v", m.Version, err)
	}
}

// The store of the first format has no log and numbers no moves: both begin with the next move.
func TestLogBeginsInAnOldStore(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/v1")))
	store := NewStore(dir)
	p, err := store.Alias("ratings", Champion)
	if err != nil || p.Sequence != 0 || p.Version != 1 {
		t.Fatalf("champion %+v, %v", p, err)
	}
	for range store.Log("ratings") {
		t.Error("a record in a store without a log")
	}
	record, err := store.MoveAlias(t.Context(), "ratings", Move{Alias: Champion, From: &p.Version, To: 1})
	if err != nil || record.Sequence != 1 {
		t.Errorf("first move: %+v, %v", record, err)
	}
}
