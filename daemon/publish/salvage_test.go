package publish

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestSalvage: of signed versions, the newest before the damaged one that the gate let through and that can be read
// takes its place, else the newest after it, by a signed move. A version that was kept back does not, nor does a
// publisher that only watches move anything.
func TestSalvage(t *testing.T) {
	m, dir := signingModel(t), t.TempDir()
	p, err := New(m, dir, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, decision := range []string{Promoted, Promoted, Kept, Promoted, Promoted} {
		ch := champion(t, m)
		ch.Version.Decision = decision
		if err := p.Publish(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
	}
	empty := func(version int64, file string) {
		t.Helper()
		if err := os.Truncate(filepath.Join(dir, m.Name, fmt.Sprint(version), file), 0); err != nil {
			t.Fatal(err)
		}
	}
	promote := func(version int64) {
		t.Helper()
		if _, err := p.Store().MoveAlias(t.Context(), m.Name, publish.Move{Alias: Champion, To: version,
			Event: publish.EventRollback}); err != nil {
			t.Fatal(err)
		}
	}
	empty(4, "model.safetensors")
	promote(2)
	empty(2, "manifest.json") // of which nobody knows any more who signed it
	if p, err = New(m, dir, time.Now, nil); err != nil {
		t.Fatal(err)
	}
	if got := p.Champion().Version; got != 5 {
		t.Errorf("a manifest that is emptied: champion %d, want the newest, 5", got)
	}
	salvaged := func(want int64) {
		t.Helper()
		if p, err = New(m, dir, time.Now, nil); err != nil {
			t.Fatal(err)
		}
		_, damage := p.Open(Champion)
		if !IsDamage(damage) {
			t.Fatalf("champion %d: %v", p.Champion().Version, damage)
		}
		model, err := p.Salvage(damage)
		if err != nil || model.Manifest().Version != want || p.Champion().Version != want {
			t.Fatalf("champion %+v, %v: want version %d", p.Champion(), err, want)
		}
		if pointer, err := p.Store().Alias(m.Name, Champion); err != nil || pointer.Version != want ||
			pointer.Event != publish.EventRestored {
			t.Errorf("alias %+v, %v", pointer, err)
		}
		if now, err := p.Follow(); now != nil || err != nil || p.Lost() {
			t.Errorf("followed to %v, %v, lost %t", now, err, p.Lost())
		}
	}
	empty(5, "golden.jsonl")
	salvaged(1) // 4 and 2 are damaged, 3 was kept back
	ch := champion(t, m)
	if err := p.Publish(t.Context(), ch); err != nil || ch.Version.Version != 6 {
		t.Fatal(ch.Version.Version, err)
	}
	promote(1)
	empty(1, "vocabulary")
	salvaged(6)
	empty(6, "vocabulary")
	if damage := p.damageFound(t); !IsDamage(damage) || !p.Lost() {
		t.Errorf("under a running publisher: %v, lost %t", damage, p.Lost())
	}
	if _, err := p.Salvage(p.Damage()); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("no version can be read: %v", err)
	}
	m.Shard.Standby = config.Duration(time.Second)
	watching, err := New(m, dir, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watching.Follow(); err != nil || watching.Lost() {
		t.Errorf("one that watches: %v, lost %t", err, watching.Lost())
	}
	if _, err := watching.Salvage(watching.Damage()); !errors.Is(err, ErrReplaced) {
		t.Errorf("one that watches: %v", err)
	}
}

// damageFound has the publisher look, and returns the damage that it finds.
func (p *Publisher) damageFound(t *testing.T) error {
	t.Helper()
	if now, err := p.Follow(); now != nil || err != nil {
		t.Errorf("followed to %v, %v", now, err)
	}
	return p.Damage()
}
