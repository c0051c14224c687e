package state

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// TestRefitOfAnEarlierCutWaits: a refit whose sample had no record of a partition yet is not published after a version
// that had, though the state has caught up since.
func TestRefitOfAnEarlierCutWaits(t *testing.T) {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "ratings", []string{"ratings"}
	m.Schema = config.Schema{Task: "regression", Label: "y", Categorical: []string{"user"}}
	m.Resolve()
	store, err := sketch.NewMemory(ingest.StoreOptions(&m))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for partition, next := range []int64{5, 23} {
		if err := store.Begin("ratings", int32(partition), next); err != nil {
			t.Fatal(err)
		}
	}
	published := []report.Cut{{Topic: "ratings", Partition: 0, Next: 5}, {Topic: "ratings", Partition: 1, Next: 23}}
	s := &State{Settings: &m, Store: store}
	for _, p := range published {
		s.Published = append(s.Published, format.Cut(p))
	}
	if reason := s.BehindPublished(nil, nil); reason != "" {
		t.Errorf("an update waits: %s", reason)
	}
	if reason := s.BehindPublished(published[:1], nil); reason == "" {
		t.Error("a refit without records of partition 1 is published")
	}
	if reason := s.BehindPublished(published, nil); reason != "" {
		t.Errorf("a refit that has caught up waits: %s", reason)
	}
}
