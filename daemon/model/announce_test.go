package model

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestShardsDoNotAnnounce: with the same configuration and store as the trainer, a shard announces neither champions
// nor deltas.
func TestShardsDoNotAnnounce(t *testing.T) {
	for _, role := range []string{config.RoleAll, config.RoleShard} {
		m := modeltest.Ratings()
		m.Publish.Topic, m.Publish.Deltas.Topic, m.Shard.Role = "champions", "deltas", role
		o := &part.Options{Config: config.Default(), Settings: m, Metrics: metrics.New(prometheus.NewRegistry()),
			Log: slog.New(slog.DiscardHandler)}
		champions, deltas, err := newAnnouncers(o, publish.NewStore(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		if want := role == config.RoleAll; (champions != nil) != want || (deltas != nil) != want {
			t.Errorf("role %s: announces %t and %t, want %t", role, champions != nil, deltas != nil, want)
		}
	}
}
