package web

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// followEvery is the mean time between two looks at the champion alias: a promotion is served within it and the time of
// loading.
const followEvery = 200 * time.Millisecond

// maxVersions is how many versions of a model stay loaded in addition to the champion.
const maxVersions = 4

// modelCache holds the loaded versions of one model. The champion is loaded in the background and swapped when it is
// ready, so that no request waits for a promotion and the one before serves on if the store cannot be read. Other
// versions are loaded on demand.
type modelCache struct {
	Model
	log     *slog.Logger                     // whose lines name the model themselves
	watcher atomic.Pointer[snapshot.Watcher] // nil unless it is followed
	last    atomic.Pointer[scorer]           // of the watcher's model
	good    atomic.Pointer[scorer]           // the champion that was last found, before the watcher had one

	lastLive atomic.Pointer[scorer] // of the live model that was last asked for

	mu       sync.Mutex // guards versions; held while one is loaded, so that it is loaded once
	versions []*scorer  // least recently used first
}

func newModelCache(m Model, log *slog.Logger) *modelCache {
	return &modelCache{Model: m, log: log}
}

// follow keeps the champion loaded until stop is called.
func (s *modelCache) follow() (stop func(), err error) {
	w, err := snapshot.Watch(
		snapshot.DirSource{Dir: s.Dir, Every: followEvery},
		snapshot.WatchOptions{Model: s.Name, Log: s.log,
			Trust: snapshot.Trust{Keys: s.Store.Keys}},
	)
	if err != nil {
		return nil, err
	}
	s.watcher.Store(w)
	return w.Close, nil
}

// status returns how the champion is followed.
func (s *modelCache) status() snapshot.Status {
	if w := s.watcher.Load(); w != nil {
		return w.Status()
	}
	return snapshot.Status{}
}

// champion returns the followed champion with its deltas, nil before the first one.
func (s *modelCache) champion() *scorer {
	w := s.watcher.Load()
	if w == nil {
		return nil
	}
	m := w.Model()
	if m == nil {
		return nil
	}
	c := s.last.Load()
	switch {
	case c == nil || c.manifest.Digest != m.Manifest().Digest:
		c = newScorer(m, s.Derive)
	case c.model != m:
		c = c.after(m)
	default:
		return c
	}
	s.last.Store(c)
	return c
}

// version returns a version as it was published, loaded now if it is not at hand.
func (s *modelCache) version(version int64) (*scorer, error) {
	if c := s.champion(); c != nil && c.manifest.Version == version && c.model.Position().Sequence == 0 {
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
	m, err := snapshot.Trust{Keys: s.Store.Keys}.Open(s.Dir, s.Name, snapshot.Selector{Version: version})
	if err != nil {
		return nil, err
	}
	v := newScorer(m, s.Derive)
	if s.versions = append(s.versions, v); len(s.versions) > maxVersions {
		s.versions = s.versions[1:]
	}
	return v, nil
}

// alias returns the version that an alias names.
func (s *modelCache) alias(alias string) (*scorer, error) {
	if alias == pointer.Champion {
		if c := s.champion(); c != nil {
			return c, nil
		}
	}
	p, err := s.Store.Alias(s.Name, alias)
	if alias == pointer.Champion && errors.Is(err, snapshot.ErrSignature) {
		if c := s.good.Load(); c != nil {
			return c, nil // as the watcher does: the last good one serves until the alias is moved back
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := s.version(p.Version)
	if err == nil && alias == pointer.Champion {
		s.good.Store(c)
	}
	return c, err
}

// past returns the curves of a model, empty ones where it has none.
func (s *modelCache) past() *curves.Ring {
	if s == nil {
		return new(curves.Ring)
	}
	return cmp.Or(s.Curves, new(curves.Ring))
}
