package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// J18: with the champion damaged the newest version that can be read becomes champion, with which the first refit after
// a start is compared, and with all of them damaged with the baselines; the reason says so.
func TestUnreadableChampion(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "unreadable", "publish: {", "publish: {keep: 9, ")
	r.publish()
	r.publish()
	r.stop()
	damage := func(version int64) {
		t.Helper()
		path := filepath.Join(r.dir, fmt.Sprint(version), "model.safetensors")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reason := func(p snapshot.Pointer) string {
		t.Helper()
		m, err := r.store.Manifest("ratings", p.Version)
		if err != nil {
			t.Fatal(err)
		}
		return m.Reason
	}
	champion, err := r.store.Alias("ratings", pointer.Champion)
	if err != nil {
		t.Fatal(err)
	}
	damage(champion.Version)
	r.start()
	third := r.publish()
	if m, err := r.store.Manifest("ratings", third.Version); err != nil || m.Parent == nil ||
		*m.Parent != 3-champion.Version ||
		m.ChampionGate == nil {
		t.Errorf("with a damaged champion: parent %v, %s, error %v", m.Parent, m.Reason, err)
	}
	r.stop()
	for version := range third.Version {
		if version+1 != champion.Version {
			damage(version + 1)
		}
	}
	r.start()
	if fourth := r.publish(); !strings.Contains(reason(fourth), "mean") ||
		!strings.Contains(reason(fourth), "in place of the champion, which cannot be read,") {
		t.Errorf("with damaged versions: %s", reason(fourth))
	}
	r.stop()
}

// A daemon that was killed when the first version was there, and champion did not name it yet, promotes the next one as
// the first, however few rows there are to judge it on: no consumer has another.
func TestFirstPromotionCutShort(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "cutshort", "min_rows: 20}", "min_rows: 1000000}")
	r.publish()
	r.stop()
	for _, alias := range []string{pointer.Champion, publish.Refit} {
		if err := os.Remove(filepath.Join(r.dir, "aliases", alias)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(r.dir, "log.jsonl")
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(log), `"moves":[{"alias":"latest","from":0,"to":1}`)
	_, after, more := strings.Cut(after, "]")
	if !ok || !more {
		t.Fatalf("the log is %s", log)
	}
	if err := os.WriteFile(path, []byte(before+`"moves":[{"alias":"latest","from":0,"to":1}]`+after), 0o644); err != nil {
		t.Fatal(err)
	}
	r.start()
	defer r.stop()
	second := r.publish()
	champion, err := r.store.Alias("ratings", pointer.Champion)
	if err != nil || champion.Version != second.Version {
		t.Errorf("champion is version %d, %v, want %d", champion.Version, err, second.Version)
	}
}
