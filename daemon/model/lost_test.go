package model

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// TestSiblingBeginsLate: models with a topic in common show their offsets in one group. What one shows in its first run
// is no reason to take the state of the other, which begins after it, for lost; that both have lost theirs is one, for
// whichever begins.
func TestSiblingBeginsLate(t *testing.T) {
	p := newPair(t, io.Discard)
	untilEnd := func() []*Model {
		p.a.reader.options.UntilEnd, p.b.reader.options.UntilEnd = true, true
		return []*Model{p.a, p.b}
	}
	for _, m := range untilEnd() {
		if err := m.Run(t.Context()); err != nil {
			t.Fatalf("first run of model %s: %v", m.name, err)
		}
	}
	for _, m := range []*Model{p.a, p.b} {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.state.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.reader.options.Settings.Publish.Store); err != nil { // whose versions would show the loss
			t.Fatal(err)
		}
	}
	p.open(t)
	for _, m := range untilEnd() {
		err := m.Run(t.Context())
		if report.CodeOf(err) != report.ExitState ||
			!strings.Contains(err.Error(), "state is empty but group g has offsets") {
			t.Errorf("model %s, whose state is lost: %v", m.name, err)
		}
	}
}

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
	s := &State{settings: &m, store: store}
	for _, p := range published {
		s.published = append(s.published, format.Cut(p))
	}
	if reason := s.behindPublished(nil, nil); reason != "" {
		t.Errorf("an update waits: %s", reason)
	}
	if reason := s.behindPublished(published[:1], nil); reason == "" {
		t.Error("a refit without records of partition 1 is published")
	}
	if reason := s.behindPublished(published, nil); reason != "" {
		t.Errorf("a refit that has caught up waits: %s", reason)
	}
}
