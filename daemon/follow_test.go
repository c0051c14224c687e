package daemon_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// A daemon leaves the version that an operator rolled back to in place, publishes no updates over it, and compares
// the next challenger with it; so does one that was stopped at that time.
func TestOperatorsChoiceStays(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	path := b.Configure("f", "every_events: 0", "every_events: 1500", "update_every: 0s", "update_every: 50ms")
	store := publish.NewStore(filepath.Join(b.Dir, "store-f"))
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var log locked.Buffer
	d, err := daemon.New(t.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(&locked.Buffer{}, true),
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	defer stop()

	champion := func() snapshot.Pointer {
		p, err := store.Alias("ratings", pointer.Champion)
		if err != nil {
			return snapshot.Pointer{}
		}
		return p
	}
	b.ProduceRatings(1, 1600)
	daemontest.Within(t, daemontest.Patience, "a champion that is an update",
		func() bool { return champion().Version > 1 })
	// The first version is a refit: go back to it.
	if _, err := store.MoveAlias(t.Context(), "ratings", publish.Move{Alias: pointer.Champion, To: 1,
		Event: publish.EventRollback,
		Why:   "a test"}); err != nil {
		t.Fatal(err)
	}
	latest, err := store.Alias("ratings", snapshot.Latest)
	if err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(2, 300)
	daemontest.Within(t, daemontest.Patience, "an update held back", func() bool {
		return log.Has("update skipped") && log.Has("champion moved by somebody else")
	})
	if p := champion(); p.Version != 1 || p.Event != publish.EventRollback {
		t.Errorf("champion %+v, want version 1 as the operator chose it", p)
	}
	b.ProduceRatings(3, 2000)
	challenger := func() (found *snapshot.Manifest) {
		versions, err := store.Versions("ratings")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			if m, err := store.Manifest("ratings", v); err == nil && v > latest.Version && m.Kind == "refit" &&
				found == nil {
				found = &m
			}
		}
		return found
	}
	daemontest.Within(t, daemontest.Patience, "a challenger", func() bool { return challenger() != nil })
	if m := challenger(); m.ChampionGate == nil || m.Parent == nil || *m.Parent != 1 {
		t.Errorf("the challenger was judged against parent %v with %+v: %s; want version 1", m.Parent, m.ChampionGate,
			m.Reason)
	}
	stop()

	// Stopped, rolled back, started again: the last refit is compared with the operator's choice.
	if _, err := store.MoveAlias(t.Context(), "ratings", publish.Move{Alias: pointer.Champion, To: 1,
		Event: publish.EventRollback, Why: "again"}); err != nil {
		t.Fatal(err)
	}
	again := b.Run(path)
	if again.Err != nil {
		t.Fatal(again.Err)
	}
	for _, line := range again.Lines {
		if line["type"] == "version" {
			if line["parent"] != 1.0 || line["champion_gate"] == nil || line["kind"] != "refit" {
				t.Errorf("after the restart: %v %v with parent %v: %v", line["kind"], line["decision"], line["parent"],
					line["reason"])
			}
			break
		}
	}
}

// Two daemons on one store: the alias is moved by compare and swap, and the slower one takes up the faster one's
// champion.
func TestTwoPublishers(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	one := b.Configure("g", "every_events: 0", "every_events: 1000", "update_every: 0s", "update_every: 50ms")
	two := b.Configure("h", "every_events: 0", "every_events: 1000", "update_every: 0s", "update_every: 50ms",
		"store-h", "store-g")
	store := publish.NewStore(filepath.Join(b.Dir, "store-g"))
	_, stopOne := b.Start(one)
	_, stopTwo := b.Start(two)
	last := int64(0)
	for seed := range uint64(6) {
		b.ProduceRatings(10+seed, 1100)
		daemontest.Within(t, daemontest.Patience, "another version", func() bool {
			p, err := store.Alias("ratings", snapshot.Latest)
			if err != nil || p.Version == last {
				return false
			}
			last = p.Version
			return true
		})
	}
	stopOne()
	stopTwo()
	sequence, champion := int64(0), int64(0)
	for r, err := range store.Log("ratings") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Sequence != sequence+1 || r.Event == publish.EventRecovered {
			t.Errorf("record %d after %d: %s", r.Sequence, sequence, r.Event)
		}
		sequence = r.Sequence
		for _, m := range r.Moves {
			if m.Alias == pointer.Champion {
				if m.From != champion || m.To <= champion {
					t.Errorf("record %d moves champion from %d to %d, it named %d", r.Sequence, m.From, m.To, champion)
				}
				if v, err := store.Manifest("ratings", m.To); err == nil && (v.Parent == nil) != (m.From == 0) ||
					err == nil && v.Parent != nil && *v.Parent != m.From {
					t.Errorf("version %d was judged against %v and replaced %d", m.To, v.Parent, m.From)
				}
				champion = m.To
			}
		}
	}
}
