package web

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/snapshot"
)

// followEvery is the time between two looks at the champion alias: a promotion is served within it and the time of loading.
const followEvery = 200 * time.Millisecond

// maxVersions is how many versions of a model, beside the champion, stay loaded.
const maxVersions = 4

// shelf holds the loaded versions of one model. The champion is loaded beside the requests and swapped when it is ready, so that no
// request waits for a promotion and the one before serves on if the store cannot be read. Other versions are loaded on demand.
type shelf struct {
	Model
	store    *snapshot.Store
	log      *slog.Logger
	champion atomic.Pointer[scorer] // nil before the first one

	mu       sync.Mutex // guards versions; held while one is loaded, so that it is loaded once
	versions []*scorer  // least recently used first
}

func newShelf(m Model, log *slog.Logger) *shelf {
	return &shelf{Model: m, store: snapshot.NewStore(m.Store), log: log.With("model", m.Name)}
}

// follow keeps the champion loaded until ctx is done.
func (s *shelf) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	failed := int64(0) // version that could not be loaded: told once
	for {
		version, err := s.store.Alias(s.Name, snapshot.Champion)
		if now := s.champion.Load(); err == nil && (now == nil || now.manifest.Version != version) {
			var next *scorer
			if next, err = s.load(snapshot.Selector{Alias: snapshot.Champion}); err == nil {
				s.champion.Store(next)
				failed = 0
			} else if failed != version {
				s.log.Error("champion not served", "version", version, "error", err)
				failed = version
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *shelf) load(sel snapshot.Selector) (*scorer, error) {
	m, err := snapshot.Open(s.Store, s.Name, sel)
	if err != nil {
		return nil, err
	}
	return newScorer(m), nil
}

// version returns a version, loaded now if it is not at hand.
func (s *shelf) version(version int64) (*scorer, error) {
	if c := s.champion.Load(); c != nil && c.manifest.Version == version {
		return c, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, v := range s.versions {
		if v.manifest.Version == version {
			s.versions = append(append(s.versions[:i:i], s.versions[i+1:]...), v)
			return v, nil
		}
	}
	v, err := s.load(snapshot.Selector{Version: version})
	if err != nil {
		return nil, err
	}
	if s.versions = append(s.versions, v); len(s.versions) > maxVersions {
		s.versions = s.versions[1:]
	}
	return v, nil
}

// alias returns the version that an alias names.
func (s *shelf) alias(alias string) (*scorer, error) {
	if c := s.champion.Load(); c != nil && alias == snapshot.Champion {
		return c, nil
	}
	version, err := s.store.Alias(s.Name, alias)
	if err != nil {
		return nil, err
	}
	return s.version(version)
}
