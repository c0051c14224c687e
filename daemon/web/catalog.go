package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// identity names what answered. It is part of every answer about a version.
type identity struct {
	Model   string `json:"model"`
	Version int64  `json:"version"`
	Digest  string `json:"digest"` // payload digest: of everything that scores depend on
}

func identityOf(m *snapshot.Manifest) identity { return identity{m.Model, m.Version, m.PayloadDigest} }

// versionEntry is a version in a list, or a single one with its manifest.
type versionEntry struct {
	identity
	ManifestDigest string             `json:"manifest_digest"`    // of the manifest itself, and the ETag
	Created        time.Time          `json:"created"`            // when it was made
	Decision       string             `json:"decision"`           // of the gate: promoted or kept
	Aliases        []string           `json:"aliases,omitempty"`  // in lists only: the entity of a version never changes
	Manifest       *snapshot.Manifest `json:"manifest,omitempty"` // of a single version only
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
	// how many deltas of the champion are applied where this daemon scores; null before the first version
	Delta *int64 `json:"delta"`
	// AgeSeconds is the time since the champion or its last delta was made, by the clock of who made it; null before
	// the first version.
	AgeSeconds *report.Number `json:"age_seconds"`
	// newest event time that the champion knows; null where that is not known
	Watermark *time.Time `json:"event_time_watermark"`
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
	champion, err := cache.alias(pointer.Champion)
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
	return request.Answer(w, http.StatusOK, list)
}

// showModel answers with a model, its champion and its aliases.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	e, _, err := s.entry(w, r)
	if err != nil {
		return err
	}
	return request.Answer(w, http.StatusOK, e)
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

// listVersions lists every version that is there, newest last, or the newest ?limit of them. A damaged one is left out,
// and the log names it.
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
			if !errors.Is(err, snapshot.ErrNotFound) { // else it was pruned after it was listed
				s.Log.Warn("version left out of the list", "model", cache.Name, "version", v, "error", err)
			}
			continue
		}
		entry := entryOf(&m, e.Aliases)
		entry.Summary = summaryOf(&m)
		list.Versions = append(list.Versions, entry)
	}
	return request.Answer(w, http.StatusOK, list)
}

// mostNamed is how many versions an error names.
const mostNamed = 10

// noVersion says which versions and aliases a model has: the error of a request for one that it has not.
func (s *Server) noVersion(model string) string {
	cache := s.caches[model]
	if cache == nil {
		return "there is no such version, or none has been published yet"
	}
	versions, err := cache.Store.Versions(model)
	if err != nil || len(versions) == 0 {
		return "there is no such version: none of " + model + " has been published yet"
	}
	var list []string
	for _, v := range versions[max(0, len(versions)-mostNamed):] {
		list = append(list, strconv.FormatInt(v, 10))
	}
	text := "there is no such version: " + model + " has " + strings.Join(list, ", ")
	if len(versions) > mostNamed {
		text = fmt.Sprintf("there is no such version: %s has %d, the newest are %s", model, len(versions),
			strings.Join(list, ", "))
	}
	if aliases, err := cache.Store.Aliases(model); err == nil && len(aliases) > 0 {
		text += "; its aliases are " + strings.Join(slices.Sorted(maps.Keys(aliases)), ", ")
	}
	return text
}

// showVersion answers with a version and its manifest. A version never changes, so its ETag is the digest of the
// manifest.
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
	return request.Answer(w, http.StatusOK, e)
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

// versionHeader names the version on every answer about one.
const versionHeader = "X-Model-Version"

// versionOf returns the version of the path.
func versionOf(r *http.Request) (int64, error) {
	text := r.PathValue("version")
	if text == liveVersion {
		return 0, request.Refuse(http.StatusNotFound,
			"the live model is never published: it has neither manifest nor files, and only scores")
	}
	return parseVersion(text)
}

// parseVersion returns the number of a version.
func parseVersion(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 || strconv.FormatInt(v, 10) != text {
		return 0, request.BadRequest("a version is a whole number from 1")
	}
	return v, nil
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
