package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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

// entry is a version in a list, or one by itself with its manifest.
type entry struct {
	identity
	ManifestDigest string             `json:"manifest_digest"`
	Created        time.Time          `json:"created"`
	Decision       string             `json:"decision"`
	Aliases        []string           `json:"aliases,omitempty"` // in lists only: the entity of a version never changes
	Manifest       *snapshot.Manifest `json:"manifest,omitempty"`
}

func entryOf(m *snapshot.Manifest, aliases map[string]int64) entry {
	e := entry{identity: identityOf(m), ManifestDigest: m.Digest, Created: m.Created, Decision: m.Decision}
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
	Version *int64           `json:"version"` // the champion
	Digest  *string          `json:"digest"`
	Aliases map[string]int64 `json:"aliases"`
}

func (s *Server) modelEntry(shelf *shelf) (modelEntry, error) {
	e := modelEntry{Model: shelf.Name, Aliases: map[string]int64{}}
	aliases, err := shelf.store.Aliases(shelf.Name)
	if errors.Is(err, snapshot.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Aliases = aliases
	if champion := shelf.champion.Load(); champion != nil {
		e.Version, e.Digest = &champion.manifest.Version, &champion.manifest.PayloadDigest
	}
	return e, nil
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	list := struct {
		Models []modelEntry `json:"models"`
	}{[]modelEntry{}}
	for _, m := range s.Models {
		e, err := s.modelEntry(s.shelves[m.Name])
		if err != nil {
			s.failWith(w, r, err)
			return
		}
		list.Models = append(list.Models, e)
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) {
	shelf, err := s.shelf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	e, err := s.modelEntry(shelf)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if e.Version != nil {
		w.Header().Set(versionHeader, strconv.FormatInt(*e.Version, 10))
	}
	answer(w, http.StatusOK, e)
}

// listVersions lists every version that is there, newest last. A damaged one is left out, and told in the log.
func (s *Server) listVersions(w http.ResponseWriter, r *http.Request) {
	shelf, err := s.shelf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	list := struct {
		Model    string  `json:"model"`
		Versions []entry `json:"versions"`
	}{shelf.Name, []entry{}}
	versions, err := shelf.store.Versions(shelf.Name)
	var aliases map[string]int64
	if err == nil {
		aliases, err = shelf.store.Aliases(shelf.Name)
	}
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		s.failWith(w, r, err)
		return
	}
	for _, v := range versions {
		m, err := shelf.store.Manifest(shelf.Name, v)
		if err != nil {
			if !errors.Is(err, snapshot.ErrNotFound) { // else it was pruned meanwhile
				s.Log.Warn("version left out of the list", "model", shelf.Name, "version", v, "error", err)
			}
			continue
		}
		list.Versions = append(list.Versions, entryOf(&m, aliases))
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) listAliases(w http.ResponseWriter, r *http.Request) {
	shelf, err := s.shelf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	e, err := s.modelEntry(shelf)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	answer(w, http.StatusOK, struct {
		Model   string           `json:"model"`
		Aliases map[string]int64 `json:"aliases"`
	}{e.Model, e.Aliases})
}

// showVersion answers with a version and its manifest. A version never changes, so its ETag is the digest of the manifest.
func (s *Server) showVersion(w http.ResponseWriter, r *http.Request) {
	shelf, err := s.shelf(r)
	var version int64
	if err == nil {
		version, err = versionOf(r)
	}
	if err == nil {
		err = s.showManifest(w, r, shelf, version)
	}
	if err != nil {
		s.failWith(w, r, err)
	}
}

func (s *Server) showManifest(w http.ResponseWriter, r *http.Request, shelf *shelf, version int64) error {
	m, err := shelf.store.Manifest(shelf.Name, version)
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, strconv.FormatInt(m.Version, 10))
	w.Header().Set("ETag", etagOf(m.Digest))
	if matches(r, etagOf(m.Digest)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	e := entryOf(&m, nil)
	e.Manifest = &m
	answer(w, http.StatusOK, e)
	return nil
}

// showAlias answers with the version that an alias names. With ?after=N it waits until the alias names another version than N, for the
// time of ?wait (30s by default, 60s at most), and answers 304 if it does not. An alias that moves back ends the wait, too.
func (s *Server) showAlias(w http.ResponseWriter, r *http.Request) {
	shelf, err := s.shelf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	after, wait, err := pollOf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	version, err := shelf.store.Alias(shelf.Name, r.PathValue("alias"))
	if wait > 0 && (err == nil && version == after || errors.Is(err, snapshot.ErrNotFound) && after == 0) {
		version, err = s.await(w, r, shelf, after, wait)
	}
	if err == nil && version == after {
		w.Header().Set(versionHeader, strconv.FormatInt(version, 10))
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if err == nil {
		err = s.showManifest(w, r, shelf, version)
	}
	if err != nil {
		s.failWith(w, r, err)
	}
}

// await looks at an alias until it names another version than after, the time is up, or the client or the daemon goes away.
func (s *Server) await(w http.ResponseWriter, r *http.Request, shelf *shelf, after int64, wait time.Duration) (int64, error) {
	select {
	case s.polls <- struct{}{}:
		defer func() { <-s.polls }()
	default:
		return 0, s.busy(w, "too many clients wait for an alias")
	}
	// The deadline of the answer begins when the wait ends. A writer without deadlines, as in tests, has nothing to move on.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		version, err := shelf.store.Alias(shelf.Name, r.PathValue("alias"))
		waiting := err == nil && version == after || errors.Is(err, snapshot.ErrNotFound) && after == 0
		if !waiting {
			return version, err
		}
		select {
		case <-ctx.Done():
			return version, err
		case <-tick.C:
		}
	}
}

// busy is the error of a request that has to come again later.
func (s *Server) busy(w http.ResponseWriter, text string) error {
	w.Header().Set("Retry-After", "1")
	return &requestError{http.StatusServiceUnavailable, text + ": try again later"}
}

// moveAlias lets an alias name a version, if that version can be loaded and scores its golden events.
func (s *Server) moveAlias(w http.ResponseWriter, r *http.Request) {
	if !s.lifecycle(w) {
		return
	}
	shelf, err := s.shelf(r)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	var move struct {
		Version int64  `json:"version"`
		Why     string `json:"why"`
	}
	if err := readJSON(r, &move); err != nil {
		s.failWith(w, r, err)
		return
	}
	switch {
	case move.Version < 1:
		err = badRequest(`"version" is the number of a published version, from 1`)
	case strings.TrimSpace(move.Why) == "" || len(move.Why) > maxWhyBytes:
		err = badRequest(`"why" says why, in 1 to %d bytes: it is kept in the publish log`, maxWhyBytes)
	default:
		if _, err = shelf.version(move.Version); err == nil {
			err = s.move(r, shelf, move.Version, move.Why)
		}
	}
	if err == nil {
		err = s.showManifest(w, r, shelf, move.Version)
	}
	if err != nil {
		s.failWith(w, r, err)
	}
}

// maxWhyBytes bounds the reason of a change in the publish log.
const maxWhyBytes = 1024

// move moves the alias of the path and records who did it: the user that signed in, or the address.
func (s *Server) move(r *http.Request, shelf *shelf, version int64, why string) error {
	alias := r.PathValue("alias")
	if err := shelf.store.SetAlias(r.Context(), shelf.Name, alias, version); err != nil {
		return err
	}
	s.Log.Info("alias moved", "model", shelf.Name, "alias", alias, "version", version, "who", whoOf(r), "why", why)
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
	wait = maxWait / 2
	if q.Has("wait") {
		if wait, err = time.ParseDuration(q.Get("wait")); err != nil || wait < 0 || wait > maxWait {
			return 0, 0, badRequest("wait is a duration from 0s to %s", maxWait)
		}
	}
	return after, wait, nil
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
