package publish

import (
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

// TestExpiryFollowsTheConfiguration: once publish.expires_after is reloaded, the next version and the next renewal
// carry the new time, and Expires says the same.
func TestExpiryFollowsTheConfiguration(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	m, dir := signingModel(t), t.TempDir()
	p, err := New(m, dir, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	ch := champion(t, m)
	for _, life := range []time.Duration{0, time.Hour, 30 * time.Minute, 0} {
		reloaded := *m
		reloaded.Publish.ExpiresAfter = config.Duration(life)
		p.Configure(&reloaded)
		want := time.Time{}
		if life > 0 {
			want = now.Add(life)
		}
		if got := p.Expires(now); !got.Equal(want) {
			t.Errorf("a life of %v: expires %v, want %v", life, got, want)
		}
		if err := p.Publish(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
		trust := p.trust()
		trust.Now = func() time.Time { return now }
		model, err := trust.Open(dir, m.Name, snapshot.Selector{Alias: Champion})
		if err != nil {
			t.Fatal(err)
		}
		if got := model.Manifest().Expires; !got.Equal(want) {
			t.Errorf("a life of %v: the version expires %v, want %v", life, got, want)
		}
		if pointer, _, err := p.Renew(t.Context()); err != nil || !pointer.Renewal.Expires.Equal(want) {
			t.Errorf("a life of %v: renewed until %v, %v, want %v", life, pointer.Renewal.Expires, err, want)
		}
	}
}
