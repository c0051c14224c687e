package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// The publish log is bounded: full files are put aside, the oldest of many removed, and what was live is known all the
// same. A reader meets every record that is left once, in order.
func TestLogRotates(t *testing.T) {
	store, dir := storeOf(t, 0)
	store.LogBytes = 1500
	clock := snapshottest.Created
	store.Now = func() time.Time {
		clock = clock.Add(time.Second)
		return clock
	}
	var all []publish.Record
	live := func(until time.Time) map[string]int64 { // by the records themselves, all of them
		aliases := map[string]int64{}
		for _, r := range all {
			for _, m := range r.Moves {
				if !r.Time.After(until) {
					aliases[m.Alias] = m.To
				}
				if m.To == 0 {
					delete(aliases, m.Alias)
				}
			}
		}
		return aliases
	}
	aside := func() (sequences []int64) {
		names, err := filepath.Glob(filepath.Join(dir, "m", "log-*.jsonl"))
		snapshottest.Must(t, err)
		for _, name := range names {
			number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "log-"), ".jsonl")
			sequence, err := strconv.ParseInt(number, 10, 64)
			snapshottest.Must(t, err)
			sequences = append(sequences, sequence)
		}
		slices.Sort(sequences)
		return sequences
	}
	const maxLogs = 16 // see the package comment
	check := func() {
		t.Helper()
		var got []publish.Record
		for r, err := range store.Log("m") {
			snapshottest.Must(t, err)
			if len(got) > 0 && r.Sequence <= got[len(got)-1].Sequence {
				t.Fatalf("record %d after %d", r.Sequence, got[len(got)-1].Sequence)
			}
			got = append(got, r)
		}
		for i := range all[1:] {
			if len(aside()) == maxLogs {
				break
			}
			if got[i].Sequence != all[i].Sequence || got[i].Event != all[i].Event {
				t.Fatalf("record %d of %d is %+v, want %+v", i, len(got), got[i], all[i])
			}
		}
		if last := all[len(all)-1]; got[len(got)-1].Sequence != last.Sequence {
			t.Fatalf("the last record is %d, want %d", got[len(got)-1].Sequence, last.Sequence)
		}
		found, err := store.LiveAt("m", clock)
		snapshottest.Must(t, err)
		now := map[string]int64{}
		for alias, r := range found {
			i := slices.IndexFunc(r.Moves, func(m publish.AliasMove) bool { return m.Alias == alias })
			now[alias] = r.Moves[i].To
			if i := slices.IndexFunc(all, func(o publish.Record) bool { return o.Sequence == r.Sequence }); i < 0 ||
				!all[i].Time.Equal(r.Time) {
				t.Fatalf("%s was moved by %+v, which never was", alias, r)
			}
		}
		if want := live(clock); !maps.Equal(now, want) {
			t.Fatalf("live now %v, want %v", now, want)
		}
	}
	note := func() {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "m", "log.jsonl"))
		snapshottest.Must(t, err)
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		var last publish.Record
		snapshottest.Must(t, json.Unmarshal(lines[len(lines)-1], &last))
		all = append(all, last)
	}
	contents := snapshottest.TestContents(snapshottest.Small)
	for i := range 120 {
		_, err := store.Publish(t.Context(), "m", contents, publish.Move{Alias: pointer.Champion})
		snapshottest.Must(t, err)
		note()
		switch {
		case i == 3:
			_, err = store.MoveAlias(t.Context(), "m", publish.Move{Alias: "kept", To: 2})
			snapshottest.Must(t, err)
			note()
		case i%7 == 5:
			alias := fmt.Sprint("other", i%3)
			_, err = store.MoveAlias(t.Context(), "m", publish.Move{Alias: alias, To: int64(i)})
			snapshottest.Must(t, err)
			note()
		case i%20 == 19:
			_, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: "other2"})
			snapshottest.Must(t, err)
			note()
			removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 5})
			snapshottest.Must(t, err)
			if len(removed) > 0 {
				note()
			}
		}
		if i%5 == 0 {
			check()
		}
	}
	check()
	if n := len(aside()); n != maxLogs {
		t.Errorf("%d files put aside, want %d", n, maxLogs)
	}
	// What was live at any time that the files cover.
	var first time.Time
	for r := range store.Log("m") {
		if r.Sequence > aside()[0] {
			first = r.Time
			break
		}
	}
	for at := first; !at.After(clock); at = at.Add(3 * time.Second) {
		found, err := store.LiveAt("m", at)
		snapshottest.Must(t, err)
		want := map[string]int64{}
		for _, r := range all {
			for _, m := range r.Moves {
				switch {
				case r.Time.After(at):
				case m.To == 0:
					delete(want, m.Alias)
				default:
					want[m.Alias] = r.Sequence
				}
			}
		}
		got := map[string]int64{}
		for alias, r := range found {
			got[alias] = r.Sequence
		}
		if !maps.Equal(got, want) {
			t.Fatalf("at %v: moved by %v, want %v", at, got, want)
		}
	}
	// A reader that comes between the two renames of a writer. TestKilledAtEveryStep ends writers there.
	path := filepath.Join(dir, "m", "log.jsonl")
	snapshottest.Must(t, os.Rename(path, path+".away"))
	var got int64
	for r, err := range store.Log("m") {
		snapshottest.Must(t, err)
		got = r.Sequence
	}
	if last := aside()[maxLogs-1]; got != last {
		t.Errorf("between two files a reader meets %d last, want %d", got, last)
	}
}
