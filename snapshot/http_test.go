package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// serve answers the requests of an HTTPSource from a store, as a daemon does.
func serve(t *testing.T, dir string, polls *atomic.Int64) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models/{m}/aliases/{a}", func(w http.ResponseWriter, r *http.Request) {
		polls.Add(1)
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, `{"error":"who are you?"}`, http.StatusUnauthorized)
			return
		}
		wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		store := publish.NewStore(dir)
		for {
			p, aliasErr := store.Alias(r.PathValue("m"), r.PathValue("a"))
			if errors.Is(aliasErr, disk.ErrNotFound) {
				http.Error(w, `{"error":"no such alias"}`, http.StatusNotFound)
				return
			}
			if err != nil || r.URL.Query().Get("after") != strconv.FormatInt(p.Version, 10) ||
				p.ETag() != r.Header.Get("If-None-Match") {
				json.NewEncoder(w).Encode(struct {
					Model string `json:"model"`
					pointer.Pointer
				}{"m", p})
				return
			}
			if backoff.Sleep(ctx, time.Millisecond) != nil {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
	})
	mux.HandleFunc("GET /v1/models/{m}/versions/{v}/files/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(dir, r.PathValue("m"), r.PathValue("v"), r.PathValue("name")))
	})
	mux.HandleFunc("GET /v1/models/{m}/deltas", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		wait, err1 := time.ParseDuration(query.Get("wait"))
		base, err2 := strconv.ParseInt(query.Get("base"), 10, 64)
		after, err3 := strconv.ParseInt(query.Get("after"), 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		stream, err := DirSource{dir, often}.Deltas(ctx, r.PathValue("m"), base, after)
		switch {
		case errors.Is(err, disk.ErrNotFound):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, disk.ErrChain):
			http.Error(w, err.Error(), http.StatusConflict)
		case err == nil:
			defer stream.Close()
			io.Copy(w, stream)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// Deltas come over HTTP as they do from a directory: a long poll without news is empty, and what is not there says so.
func TestHTTPSourceDeltas(t *testing.T) {
	t.Parallel()
	store, dir, keys := publishSigned(t, 1)
	var polls atomic.Int64
	server := serve(t, dir, &polls)
	source := HTTPSource{
		URL:      server.URL,
		Header:   http.Header{"Authorization": {"Bearer secret"}},
		LongPoll: 20 * time.Millisecond,
	}
	stream, err := source.Deltas(t.Context(), "m", 1, 0)
	snapshottest.Must(t, err)
	if b, err := io.ReadAll(stream); err != nil || len(b) != 0 {
		t.Errorf("no news: %d bytes, %v", len(b), err)
	}
	snapshottest.Must(t, stream.Close())
	c, m := openChain(t, store, dir, 1)
	m = grow(t, c, m, 3, 0)
	w := watchOf(t, source, WatchOptions{Trust: verify.Trust{Keys: keys}})
	atDelta(t, w, 1, 3)
	m = grow(t, c, m, 3, 0)
	atDelta(t, w, 1, 6)
	sameState(t, w.Model(), m)
	if _, err := source.Deltas(t.Context(), "m", 9, 0); !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("of a version that is not there: %v, want ErrNotFound", err)
	}
	if _, err := source.Deltas(t.Context(), "m", 1, 9); !errors.Is(err, disk.ErrChain) {
		t.Errorf("after a delta that is not there: %v, want ErrChain", err)
	}
}

// An answer that ends within a delta is asked for again from that delta on, and refuses nothing.
func TestHTTPSourceDeltasCutOff(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 5, 0)
	whole, err := os.ReadFile(segmentPath(dir, 1, 1))
	snapshottest.Must(t, err)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
			w.Write(whole[:len(whole)/2])
			return
		}
		stream, err := DirSource{
			dir,
			often,
		}.Deltas(r.Context(), "m", 1, map[bool]int64{true: 2, false: 5}[r.URL.Query().Get("after") == "2"])
		if err == nil {
			defer stream.Close()
			io.Copy(w, stream)
		}
	}))
	t.Cleanup(server.Close)
	source := oddSource{DirSource{dir, often}, func(ctx context.Context, after int64) (io.ReadCloser, error) {
		return HTTPSource{URL: server.URL}.Deltas(ctx, "m", 1, after)
	}}
	w := watchOf(t, source, WatchOptions{})
	s := until(t, w, "delta 5", func(s Status) bool { return s.Position.Sequence == 5 })
	sameState(t, w.Model(), m)
	if s.DeltasRefused != 0 || s.DeltasApplied != 5 {
		t.Errorf("status %+v", s)
	}
}

func TestHTTPSource(t *testing.T) {
	store, dir, keys := publishSigned(t, 1)
	var polls atomic.Int64
	server := serve(t, dir, &polls)
	source := HTTPSource{
		URL:      server.URL,
		Header:   http.Header{"Authorization": {"Bearer secret"}},
		LongPoll: 20 * time.Millisecond,
	}
	w := watchOf(t, source, WatchOptions{Trust: verify.Trust{Keys: keys}})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 && s.SignedBy != "" })
	before := polls.Load()
	until(t, w, "a long poll without news", func(Status) bool { return polls.Load() > before+1 })
	_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	s := until(t, w, "version 2", func(s Status) bool { return s.Version == 2 })
	if s.Loads != 2 || s.Refused != 0 || s.Err != nil {
		t.Errorf("status %+v", s)
	}
	w.Close()

	wrong := watchOf(t, HTTPSource{URL: server.URL}, WatchOptions{})
	s = until(t, wrong, "a refusal", func(s Status) bool { return s.Err != nil })
	if !strings.Contains(s.Err.Error(), "401") || !strings.Contains(s.Err.Error(), "who are you?") {
		t.Errorf("without credentials: %v", s.Err)
	}
	if _, err := source.Wait(t.Context(), "m", "none", pointer.Pointer{}); !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("no such alias: %v, want ErrNotFound", err)
	}
	if _, err := source.File(t.Context(), "m", 9, disk.ManifestFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such version: %v, want fs.ErrNotExist", err)
	}
}

// A server that lies about sizes, cuts off or sends without end is given up on without taking memory.
func TestHTTPSourceBounds(t *testing.T) {
	_, dir := storeOf(t, 1)
	files := http.FileServer(http.Dir(dir))
	var mode atomic.Pointer[string]
	set := func(s string) { mode.Store(&s) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/v1/models/m/"); {
		case strings.HasPrefix(path, "aliases/") && *mode.Load() == "endless":
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		case strings.HasPrefix(path, "aliases/"):
			r.URL.Path = "/m/" + path
			files.ServeHTTP(w, r)
		case *mode.Load() == "cut off" && strings.HasSuffix(path, disk.TensorsFile):
			w.Header().Set("Content-Length", "600")
			w.Write(make([]byte, 100))
		case *mode.Load() == "endless file" && strings.HasSuffix(path, disk.TensorsFile):
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		default:
			r.URL.Path = "/m/" + strings.Replace(strings.TrimPrefix(path, "versions/"), "/files", "", 1)
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for _, bad := range []string{"endless", "cut off", "endless file", ""} {
		set(bad)
		w := watchOf(t, HTTPSource{URL: server.URL, LongPoll: time.Second}, WatchOptions{})
		if bad == "" {
			until(t, w, "the version", func(s Status) bool { return s.Version == 1 })
			continue
		}
		s := until(t, w, bad, func(s Status) bool { return s.Err != nil })
		if s.Version != 0 {
			t.Errorf("%s: version %d is served", bad, s.Version)
		}
		w.Close()
	}
}
