package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// records reads the whole log.
func records(t *testing.T, store *publish.Store) []publish.Record {
	t.Helper()
	var all []publish.Record
	for r, err := range store.Log("m") {
		snapshottest.Must(t, err)
		all = append(all, r)
	}
	return all
}

func TestLogTellsWhatHappened(t *testing.T) {
	store, _ := storeOf(t, 0)
	now := snapshottest.Created
	store.Now, store.By = func() time.Time { return now }, "refitd@test"
	c := snapshottest.TestContents(snapshottest.Small)
	half := format.Number(0.5)
	c.Meta.Decision, c.Meta.Reason, c.Meta.Gate = "promoted", "first version", &format.Metrics{N: 9, Loss: &half}
	none := int64(0)
	first, err := store.Publish(t.Context(), "m", c, publish.Move{Alias: pointer.Champion, From: &none})
	snapshottest.Must(t, err)
	c.Meta.Decision, c.Meta.Reason = "kept", "worse"
	second, err := store.Publish(t.Context(), "m", c)
	snapshottest.Must(t, err)
	if second.Previous != first.Digest || first.Previous != "" {
		t.Errorf("previous manifests %q and %q, want none and %q", first.Previous, second.Previous, first.Digest)
	}
	_, err = store.Publish(t.Context(), "m", c, publish.Move{Alias: pointer.Champion, From: &none})
	if !errors.Is(err, disk.ErrConflict) {
		t.Errorf("publish over another champion: %v, want ErrConflict", err)
	}
	now = now.Add(-24 * time.Hour) // E16: the clock goes back
	store.By = "ann@desk"
	_, err = store.MoveAlias(t.Context(), "m", publish.Move{Alias: pointer.Champion, To: 2, Event: publish.EventPromote,
		Why: "looks right"})
	snapshottest.Must(t, err)
	_, err = store.MoveAlias(t.Context(), "m", publish.Move{Alias: "canary", To: 1})
	snapshottest.Must(t, err)
	_, err = store.MoveAlias(t.Context(), "m", publish.Move{Alias: "canary"})
	snapshottest.Must(t, err)
	third, err := store.Publish(t.Context(), "m", c)
	snapshottest.Must(t, err)
	if third.Version != 3 {
		t.Errorf("version %d after the clock went back, want 3", third.Version)
	}

	early := now
	want := []publish.Record{
		{
			Sequence:       1,
			Time:           snapshottest.Created,
			Event:          publish.EventPublish,
			Version:        1,
			Kind:           "refit",
			ManifestDigest: first.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves: []publish.AliasMove{
				{Alias: pointer.Latest, From: 0, To: 1},
				{Alias: pointer.Champion, From: 0, To: 1},
			},
			Decision: "promoted",
			Reason:   "first version",
			Gate:     &format.Metrics{N: 9, Loss: &half},
			By:       "refitd@test",
		},
		{
			Sequence:       2,
			Time:           snapshottest.Created,
			Event:          publish.EventPublish,
			Version:        2,
			Kind:           "refit",
			ManifestDigest: second.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves: []publish.AliasMove{
				{Alias: pointer.Latest, From: 1, To: 2},
			},
			Decision: "kept",
			Reason:   "worse",
			Gate:     &format.Metrics{N: 9, Loss: &half},
			By:       "refitd@test",
		},
		{
			Sequence:       3,
			Time:           early,
			Event:          publish.EventPromote,
			Version:        2,
			Kind:           "refit",
			ManifestDigest: second.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves:          []publish.AliasMove{{Alias: pointer.Champion, From: 1, To: 2}},
			Why:            "looks right",
			By:             "ann@desk",
		},
		{
			Sequence:       4,
			Time:           early,
			Event:          publish.EventAlias,
			Version:        1,
			Kind:           "refit",
			ManifestDigest: first.Digest,
			PayloadDigest:  first.PayloadDigest,
			Moves:          []publish.AliasMove{{Alias: "canary", From: 0, To: 1}},
			By:             "ann@desk",
		},
		{Sequence: 5, Time: early, Event: publish.EventAlias, Moves: []publish.AliasMove{{Alias: "canary", From: 1, To: 0}},
			By: "ann@desk"},
	}
	got := records(t, store)
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("record %d\n got %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
	if p, err := store.Alias("m", pointer.Champion); err != nil || p.Sequence != 3 || p.Event != publish.EventPromote ||
		!p.Moved.Equal(early) {
		t.Errorf("champion %+v, %v", p, err)
	}
	for _, test := range []struct {
		at   time.Time
		want map[string]int64 // sequence of the record behind each alias
	}{
		{snapshottest.Created.Add(-48 * time.Hour), map[string]int64{}},
		{snapshottest.Created.Add(-time.Hour), map[string]int64{pointer.Latest: 6, pointer.Champion: 3}},
		{snapshottest.Created, map[string]int64{pointer.Latest: 6, pointer.Champion: 3}},
	} {
		live, err := store.LiveAt("m", test.at)
		snapshottest.Must(t, err)
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
	snapshottest.Must(t, err)
	for n := len(content) - 1; n >= 0; n -= 1 + n/20 {
		snapshottest.Must(t, os.WriteFile(path, content[:n], 0o644))
		whole := len(records(t, store))
		if whole > 1 {
			t.Errorf("cut off at %d of %d: %d records", n, len(content), whole)
		}
		before, err := store.Alias("m", pointer.Latest)
		snapshottest.Must(t, err)
		snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
		got := records(t, store)
		if n == 0 {
			whole = 0
		}
		if len(got) != whole+2 || got[whole].Event != publish.EventRecovered || got[whole].Sequence != before.Sequence ||
			got[whole+1].Sequence != before.Sequence+1 {
			t.Errorf("cut off at %d: %d whole lines, then %+v", n, whole, got)
		}
		snapshottest.Must(t, setAlias(t, store, pointer.Latest, 2))
	}
}

func TestDamagedLog(t *testing.T) {
	store, dir := storeOf(t, 3)
	path := filepath.Join(dir, "m", "log.jsonl")
	content, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	content[0] = '#'
	snapshottest.Must(t, os.WriteFile(path, content, 0o644))
	good, bad := 0, 0
	for _, err := range store.Log("m") {
		if err == nil {
			good++
		} else if bad++; !errors.Is(err, disk.ErrFormat) {
			t.Error(err)
		}
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d records and %d errors, want 2 and 1", good, bad)
	}
	if _, err := store.LiveAt("m", snapshottest.Created); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("LiveAt: %v, want ErrFormat", err)
	}
	if m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil ||
		m.Version != 4 {
		t.Errorf("publish on: version %d, %v", m.Version, err)
	}
}
