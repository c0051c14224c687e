package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

const (
	maxPolls  = 128                    // long polls at a time; the others get 503
	maxWait   = 60 * time.Second       // of a long poll
	pollEvery = 200 * time.Millisecond // between two looks at an alias that somebody waits for
)

// identity names what answered. It is part of every answer about a version.
type identity struct {
	Model   string `json:"model"`
	Version int64  `json:"version"`
	Digest  string `json:"digest"` // payload digest: of everything that scores depend on
}

func identityOf(m *snapshot.Manifest) identity { return identity{m.Model, m.Version, m.PayloadDigest} }

// versionEntry is a version in a list, or one by itself with its manifest.
type versionEntry struct {
	identity
	ManifestDigest string             `json:"manifest_digest"`    // of the manifest itself, and the ETag
	Created        time.Time          `json:"created"`            // when it was made
	Decision       string             `json:"decision"`           // of the gate: promoted or kept
	Aliases        []string           `json:"aliases,omitempty"`  // in lists only: the entity of a version never changes
	Manifest       *snapshot.Manifest `json:"manifest,omitempty"` // of one version by itself
	Summary        *versionSummary    `json:"summary,omitempty"`  // in lists only
}

func entryOf(m *snapshot.Manifest, aliases map[string]int64) versionEntry {
	e := versionEntry{identity: identityOf(m), ManifestDigest: m.Digest, Created: m.Created, Decision: m.Decision}
	for name, version := range aliases {
		if version == m.Version {
			e.Aliases = append(e.Aliases, name)
		}
	}
	slices.Sort(e.Aliases)
	return e
}

// modelEntry is a model in the list of models: nothing but the name before its first version.
type modelEntry struct {
	Model   string           `json:"model"`
	Version *int64           `json:"version"` // the champion; null before the first version
	Digest  *string          `json:"digest"`  // payload digest of the champion; null before the first version
	Aliases map[string]int64 `json:"aliases"` // versions by the names of the aliases
	Delta   *int64           `json:"delta"`   // how many deltas of the champion are applied where this daemon scores; null before the first version
	// AgeSeconds is the time since the champion or its last delta was made, by the clock of who made it; null before the first version.
	AgeSeconds *report.Number `json:"age_seconds"`
	Watermark  *time.Time     `json:"event_time_watermark"` // newest event time that the champion knows; null where that is not known
}

func (s *Server) modelEntry(cache *modelCache) (modelEntry, error) {
	e := modelEntry{Model: cache.Name, Aliases: map[string]int64{}}
	aliases, err := cache.Store.Aliases(cache.Name)
	if errors.Is(err, snapshot.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Aliases = aliases
	champion, err := cache.alias(snapshot.Champion)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
	case err != nil: // the list of the others is of use still
		s.Log.Warn("champion cannot be loaded", "model", cache.Name, "error", err)
	default:
		a := champion.answered()
		e.Version, e.Digest, e.Delta, e.AgeSeconds, e.Watermark = &a.Version, &a.Digest, &a.Delta, &a.AgeSeconds, a.Watermark
	}
	return e, nil
}

// modelList is every model that is served.
type modelList struct {
	Models []modelEntry `json:"models"` // in the order of the configuration
}

// versionList is a model with its versions.
type versionList struct {
	modelEntry
	Versions []versionEntry `json:"versions"` // newest last; a damaged one is left out
}

// listModels lists every model of the configuration, those without a version included.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	list := modelList{[]modelEntry{}}
	for _, m := range s.Models {
		e, err := s.modelEntry(s.caches[m.Name])
		if err != nil {
			return err
		}
		list.Models = append(list.Models, e)
	}
	return answer(w, http.StatusOK, list)
}

// showModel answers with a model, its champion and its aliases.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	e, _, err := s.entry(w, r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, e)
}

// entry returns the model that the path names, and sets the version of the answer.
func (s *Server) entry(w http.ResponseWriter, r *http.Request) (e modelEntry, cache *modelCache, err error) {
	if cache, err = s.cached(r); err == nil {
		e, err = s.modelEntry(cache)
	}
	if err == nil && e.Version != nil {
		w.Header().Set(versionHeader, strconv.FormatInt(*e.Version, 10))
	}
	return e, cache, err
}

// listVersions lists every version that is there, newest last, or the newest ?limit of them. A damaged one is left out, and the log names it.
func (s *Server) listVersions(w http.ResponseWriter, r *http.Request) error {
	e, cache, err := s.entry(w, r)
	if err != nil {
		return err
	}
	list := versionList{e, []versionEntry{}}
	versions, err := cache.Store.Versions(cache.Name)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	limit, err := countOf(r, "limit")
	if err != nil {
		return err
	}
	if r.URL.Query().Has("limit") {
		versions = versions[max(0, len(versions)-int(min(limit, int64(len(versions))))):]
	}
	for _, v := range versions {
		m, err := cache.Store.Manifest(cache.Name, v)
		if err != nil {
			if !errors.Is(err, snapshot.ErrNotFound) { // else it was pruned meanwhile
				s.Log.Warn("version left out of the list", "model", cache.Name, "version", v, "error", err)
			}
			continue
		}
		entry := entryOf(&m, e.Aliases)
		entry.Summary = summaryOf(&m)
		list.Versions = append(list.Versions, entry)
	}
	return answer(w, http.StatusOK, list)
}

// showVersion answers with a version and its manifest. A version never changes, so its ETag is the digest of the manifest.
func (s *Server) showVersion(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	var version int64
	if err == nil {
		version, err = versionOf(r)
	}
	var m snapshot.Manifest
	if err == nil {
		m, err = cache.Store.Manifest(cache.Name, version)
	}
	if err != nil {
		return err
	}
	if known(w, r, m.Version, etagOf(m.Digest)) {
		return nil
	}
	e := entryOf(&m, nil)
	e.Manifest = &m
	return answer(w, http.StatusOK, e)
}

// known sets the headers of a version and answers 304 if the client has the entity already.
func known(w http.ResponseWriter, r *http.Request, version int64, etag string) bool {
	w.Header().Set(versionHeader, strconv.FormatInt(version, 10))
	w.Header().Set("ETag", etag)
	if matches(r, etag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	return false
}

// aliasEntry is what an alias names, as snapshot.HTTPSource reads it.
type aliasEntry struct {
	Model  string `json:"model"`
	Alias  string `json:"alias"`
	Digest string `json:"digest"` // payload digest of the version
	snapshot.Pointer
}

// showAlias answers with the version that an alias names. With ?after=N it waits until the alias names another version than N, has been moved
// since the answer that If-None-Match names, or has another renewal than ?renewed, for the time of ?wait (30s by default, 60s at most), and
// answers 304 if that does not happen. An alias that moves back ends the wait, too.
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
	return answer(w, http.StatusOK, aliasEntry{cache.Name, r.PathValue("alias"), m.PayloadDigest, p})
}

// isOld reports whether a client that knows the version after has no news: the alias names it, by the same move if the client says which
// one it knows. The version 0 is that of an alias that does not exist.
func isOld(r *http.Request, p snapshot.Pointer, err error, after int64) bool {
	if errors.Is(err, snapshot.ErrNotFound) {
		return after == 0
	}
	return err == nil && p.Version == after && (r.Header.Get("If-None-Match") == "" || matches(r, p.ETag())) && !isRenewed(r, p)
}

// isRenewed reports whether a client that says which renewal of the alias it knows does not know the newest.
func isRenewed(r *http.Request, p snapshot.Pointer) bool {
	q := r.URL.Query()
	return q.Has("renewed") && q.Get("renewed") != p.Renewal.Renewed.UTC().Format(time.RFC3339Nano)
}

// await looks at an alias until it is news, the time is up, or the client or the daemon goes away.
func (s *Server) await(w http.ResponseWriter, r *http.Request, cache *modelCache, after int64, wait time.Duration) (snapshot.Pointer, error) {
	select {
	case s.polls <- struct{}{}:
		defer func() { <-s.polls }()
	default:
		return snapshot.Pointer{}, busy("too many clients wait for an alias")
	}
	// The deadline of the answer begins when the wait ends. A writer without deadlines, as in tests, has nothing to move on.
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

// moveAlias lets an alias name a version, if that version can be loaded and scores its golden events; the store sees to that.
func (s *Server) moveAlias(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	var move aliasMove
	if err := readJSON(r, &move); err != nil {
		return err
	}
	switch {
	case move.Version < 1:
		err = badRequest(`"version" is the number of a published version, from 1`)
	case strings.TrimSpace(move.Why) == "" || len(move.Why) > maxWhyBytes:
		err = badRequest(`"why" says why, in 1 to %d bytes: it is kept in the publish log`, maxWhyBytes)
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
	store.By = whoOf(r)
	move := snapshot.Move{Alias: r.PathValue("alias"), To: version, Event: snapshot.EventAlias, Why: why}
	if move.Alias == snapshot.Champion {
		move.Event = snapshot.EventPromote
		if now, err := store.Alias(cache.Name, move.Alias); err == nil && now.Version > version {
			move.Event = snapshot.EventRollback
		}
	}
	if _, err := store.MoveAlias(r.Context(), cache.Name, move); err != nil {
		return err
	}
	s.Log.Info("alias moved", "model", cache.Name, "alias", move.Alias, "version", version, "who", store.By, "why", why)
	return nil
}

func whoOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return "http user " + user
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return "http certificate " + r.TLS.PeerCertificates[0].Subject.String()
	}
	return "http from " + hostOf(r.RemoteAddr)
}

// versionHeader tells on every answer about a version which one it is.
const versionHeader = "X-Model-Version"

// versionOf returns the version of the path.
func versionOf(r *http.Request) (int64, error) {
	text := r.PathValue("version")
	if text == liveVersion {
		return 0, &requestError{http.StatusNotFound, "the live model is never published: it has neither manifest nor files, and only scores"}
	}
	return parseVersion(text)
}

// parseVersion returns the number of a version.
func parseVersion(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 || strconv.FormatInt(v, 10) != text {
		return 0, badRequest("a version is a whole number from 1")
	}
	return v, nil
}

// pollOf returns the query of a long poll. Without after there is no wait.
func pollOf(r *http.Request) (after int64, wait time.Duration, err error) {
	q := r.URL.Query()
	if !q.Has("after") {
		if q.Has("wait") {
			return 0, 0, badRequest("wait needs after: the version that is known already, 0 for none")
		}
		return -1, 0, nil
	}
	if after, err = strconv.ParseInt(q.Get("after"), 10, 64); err != nil || after < 0 {
		return 0, 0, badRequest("after is a version, or 0 for none")
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
		return 0, badRequest("wait is a duration from 0s to %s", maxWait)
	}
	return wait, nil
}

func etagOf(digest string) string { return fmt.Sprintf("%q", strings.TrimPrefix(digest, "sha256:")) }

// matches reports whether the client has the entity already.
func matches(r *http.Request, etag string) bool {
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
