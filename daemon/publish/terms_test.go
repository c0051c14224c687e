package publish

import (
	"errors"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestTerms: of two publishers of one store the one of an earlier epoch publishes nothing once there is a version of
// the later one: no version, promoted or kept, no alias, and no number that is missing afterwards. Neither does one
// whose term is over by its own clock, also where that is noticed between the version and its aliases; nor does one
// that only watches move back what no key signed.
func TestTerms(t *testing.T) {
	m, dir := signingModel(t), t.TempDir()
	m.Shard.Standby = config.Duration(time.Second)
	leads := [2]*atomic.Bool{new(atomic.Bool), new(atomic.Bool)}
	var pub [2]*Publisher
	for i := range pub {
		var err error
		if pub[i], err = New(m, dir, time.Now, nil); err != nil {
			t.Fatal(err)
		}
		epoch := int64(i + 1)
		pub[i].Fence(func() (int64, bool) { return epoch, leads[i].Load() })
	}
	early, late := pub[1], pub[0] // late is of the earlier epoch
	store := early.Store()
	state := func() (versions []int64, aliases map[string]int64) {
		versions, err := store.Versions(m.Name)
		if err == nil {
			aliases, err = store.Aliases(m.Name)
		}
		if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
			t.Fatal(err)
		}
		return versions, aliases
	}
	if err := late.Publish(t.Context(), champion(t, m)); !errors.Is(err, ErrReplaced) {
		t.Errorf("before its term: %v", err)
	}
	leads[0].Store(true)
	late.Lead(1)
	if err := late.Publish(t.Context(), champion(t, m)); err != nil {
		t.Fatal(err)
	}
	leads[1].Store(true)
	early.Lead(2)
	if _, err := early.Follow(); err != nil {
		t.Fatal(err)
	}
	publication := late.Begin() // and it is paused there
	if err := early.Publish(t.Context(), champion(t, m)); err != nil {
		t.Fatal(err)
	}
	for _, decision := range []string{Promoted, Kept} {
		ch := champion(t, m)
		ch.Version.Decision = decision
		if err := publication.Write(t.Context(), ch); !errors.Is(err, ErrReplaced) &&
			!errors.Is(err, snapshot.ErrConflict) {
			t.Errorf("a late version that is %s: %v", decision, err)
		}
		if versions, aliases := state(); len(versions) != 2 || aliases[Champion] != 2 ||
			aliases[snapshot.Latest] != 2 ||
			aliases[Refit] != 2 {
			t.Errorf("versions %d, aliases %v after a late version that is %s", versions, aliases, decision)
		}
	}
	// Its term ends while it writes, after the number and after the files.
	for asked := 2; asked <= 3; asked++ {
		n := 0
		early.store.Fence = func() error {
			if n++; n >= asked {
				return ErrReplaced
			}
			return nil
		}
		if err := early.Publish(t.Context(), champion(t, m)); !errors.Is(err, ErrReplaced) {
			t.Errorf("a term that ends before question %d: %v", asked, err)
		}
		if _, aliases := state(); aliases[Champion] != 2 || aliases[snapshot.Latest] != 2 {
			t.Errorf("a term that ends before question %d: aliases %v", asked, aliases)
		}
	}
	early.Fence(func() (int64, bool) { return math.MaxInt64, true })
	if err := early.Publish(t.Context(), champion(t, m)); err != nil {
		t.Fatal(err)
	}
	versions, aliases := state()
	if want := versions[len(versions)-1]; aliases[Champion] != want || want != int64(len(versions)) {
		t.Errorf("versions %d, aliases %v in the end", versions, aliases)
	}
	// A champion that no key signed is moved back by the one that publishes alone.
	unsigned := *m
	unsigned.Publish.SigningKeyFile = ""
	forger, err := New(&unsigned, dir, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forger.Store().MoveAlias(t.Context(), m.Name, publish.Move{Alias: Champion, To: 1}); err != nil {
		t.Fatal(err)
	}
	path := dir + "/" + m.Name + "/aliases/" + Champion
	forged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	late.Watch()
	if _, err := late.Follow(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(forged) || len(late.Refusals()) != 1 {
		t.Errorf("a publisher that watches has moved the alias, %v", err)
	}
	if _, err := early.Follow(); err != nil {
		t.Fatal(err)
	}
	if _, aliases := state(); aliases[Champion] != versions[len(versions)-1] {
		t.Errorf("aliases %v after the one that publishes has looked", aliases)
	}
}
