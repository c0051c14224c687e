package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

const (
	maxPolls  = 128                    // long polls at a time; the others get 503
	maxWait   = 60 * time.Second       // of a long poll
	pollEvery = 200 * time.Millisecond // between two looks at an alias that somebody waits for
)

// aliasEntry is what an alias names, as snapshot.HTTPSource reads it.
type aliasEntry struct {
	Model  string `json:"model"`
	Alias  string `json:"alias"`
	Digest string `json:"digest"` // payload digest of the version
	snapshot.Pointer
}

// showAlias answers with the version that an alias names. With ?after=N it waits until the alias names another version
// than N, has been moved since the answer that If-None-Match names, or has another renewal than ?renewed, for the time
// of ?wait (30s by default, 60s at most), and answers 304 if that does not happen. An alias that moves back ends the
// wait, too.
func (s *Server) showAlias(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	after, wait, err := pollOf(r)
	if err != nil {
		return err
	}
	p, err := cache.Store.Alias(cache.Name, r.PathValue("alias"))
	if wait > 0 && isOld(r, p, err, after) {
		p, err = s.await(w, r, cache, after, wait)
	}
	if err != nil {
		return err
	}
	if isOld(r, p, nil, after) {
		w.Header().Set(versionHeader, strconv.FormatInt(p.Version, 10))
		w.Header().Set("ETag", p.ETag())
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return s.answerAlias(w, r, cache, p)
}

func (s *Server) answerAlias(w http.ResponseWriter, r *http.Request, cache *modelCache, p snapshot.Pointer) error {
	m, err := cache.Store.Manifest(cache.Name, p.Version)
	if err != nil {
		return err
	}
	if r.Method != http.MethodPut && !isRenewed(r, p) && known(w, r, p.Version, p.ETag()) {
		return nil
	}
	return request.Answer(w, http.StatusOK, aliasEntry{cache.Name, r.PathValue("alias"), m.PayloadDigest, p})
}

// isOld reports whether a client that knows the version after has no news: the alias names it, by the same move if the
// client says which one it knows. The version 0 is that of an alias that does not exist.
func isOld(r *http.Request, p snapshot.Pointer, err error, after int64) bool {
	if errors.Is(err, snapshot.ErrNotFound) {
		return after == 0
	}
	return err == nil && p.Version == after && (r.Header.Get("If-None-Match") == "" || matches(r, p.ETag())) &&
		!isRenewed(r, p)
}

// isRenewed reports whether a client that says which renewal of the alias it knows does not know the newest.
func isRenewed(r *http.Request, p snapshot.Pointer) bool {
	q := r.URL.Query()
	return q.Has("renewed") && q.Get("renewed") != p.Renewal.Renewed.UTC().Format(time.RFC3339Nano)
}

// await looks at an alias until it is news, the time is up, or the client or the daemon goes away.
func (s *Server) await(w http.ResponseWriter, r *http.Request, cache *modelCache, after int64,
	wait time.Duration) (snapshot.Pointer, error) {
	select {
	case s.polls <- struct{}{}:
		defer func() { <-s.polls }()
	default:
		return snapshot.Pointer{}, request.Busy("too many clients wait for an alias")
	}
	// The deadline of the answer begins when the wait ends. A writer without deadlines, as in tests, has nothing to
	// move on.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := cache.Store.Alias(cache.Name, r.PathValue("alias"))
		if !isOld(r, p, err, after) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, err
		case <-tick.C:
		}
	}
}

// aliasMove asks for a move of an alias.
type aliasMove struct {
	Version int64  `json:"version"` // that the alias shall name
	Why     string `json:"why"`     // kept in the publish log
}

// moveAlias lets an alias name a version, if that version can be loaded and scores its golden events; the store sees to
// that.
func (s *Server) moveAlias(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	var move aliasMove
	if err := request.ReadJSON(r, &move); err != nil {
		return err
	}
	switch {
	case move.Version < 1:
		err = request.BadRequest(`"version" is the number of a published version, from 1`)
	case strings.TrimSpace(move.Why) == "" || len(move.Why) > maxWhyBytes:
		err = request.BadRequest(`"why" says why, in 1 to %d bytes: it is kept in the publish log`, maxWhyBytes)
	default:
		err = s.move(r, cache, move.Version, move.Why)
	}
	var p snapshot.Pointer
	if err == nil {
		p, err = cache.Store.Alias(cache.Name, r.PathValue("alias"))
	}
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, strconv.FormatInt(p.Version, 10))
	return s.answerAlias(w, r, cache, p)
}

// maxWhyBytes bounds the reason of a change in the publish log.
const maxWhyBytes = 1024

// move moves the alias of the path. The publish log keeps who did it: the user that signed in, or the address.
func (s *Server) move(r *http.Request, cache *modelCache, version int64, why string) error {
	store := *cache.Store
	store.By = s.whoOf(r)
	move := publish.Move{Alias: r.PathValue("alias"), To: version, Event: publish.EventAlias, Why: why}
	if move.Alias == pointer.Champion {
		move.Event = publish.EventPromote
		if now, err := store.Alias(cache.Name, move.Alias); err == nil && now.Version > version {
			move.Event = publish.EventRollback
		}
	}
	if _, err := store.MoveAlias(r.Context(), cache.Name, move); err != nil {
		return err
	}
	s.Log.Info("alias moved", "model", cache.Name, "alias", move.Alias, "version", version, "who", store.By, "why", why)
	return nil
}

// whoOf names who sent a request: by what was checked of it, so not by a password where none is asked for.
func (s *Server) whoOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok && s.asksForPasswords() {
		return "http user " + user
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return "http certificate " + r.TLS.PeerCertificates[0].Subject.String()
	}
	return "http from " + hostOf(r.RemoteAddr)
}

// pollOf returns the query of a long poll. Without after there is no wait.
func pollOf(r *http.Request) (after int64, wait time.Duration, err error) {
	q := r.URL.Query()
	if !q.Has("after") {
		if q.Has("wait") {
			return 0, 0, request.BadRequest("wait needs after: the version that is known already, 0 for none")
		}
		return -1, 0, nil
	}
	if after, err = strconv.ParseInt(q.Get("after"), 10, 64); err != nil || after < 0 {
		return 0, 0, request.BadRequest("after is a version, or 0 for none")
	}
	wait, err = waitOf(q)
	return after, wait, err
}

// waitOf returns for how long a long poll may wait.
func waitOf(q url.Values) (time.Duration, error) {
	if !q.Has("wait") {
		return maxWait / 2, nil
	}
	wait, err := time.ParseDuration(q.Get("wait"))
	if err != nil || wait < 0 || wait > maxWait {
		return 0, request.BadRequest("wait is a duration from 0s to %s", maxWait)
	}
	return wait, nil
}
