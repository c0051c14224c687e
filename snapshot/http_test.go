package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
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
		store := NewStore(dir)
		for {
			p, aliasErr := store.Alias(r.PathValue("m"), r.PathValue("a"))
			if errors.Is(aliasErr, ErrNotFound) {
				http.Error(w, `{"error":"no such alias"}`, http.StatusNotFound)
				return
			}
			if err != nil || r.URL.Query().Get("after") != strconv.FormatInt(p.Version, 10) || p.ETag() != r.Header.Get("If-None-Match") {
				json.NewEncoder(w).Encode(struct {
					Model string `json:"model"`
					Pointer
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
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestHTTPSource(t *testing.T) {
	store, dir, keys := publishSigned(t, 1)
	var polls atomic.Int64
	server := serve(t, dir, &polls)
	source := HTTPSource{URL: server.URL, Header: http.Header{"Authorization": {"Bearer secret"}}, LongPoll: 20 * time.Millisecond}
	w := watchOf(t, source, WatchOptions{Trust: Trust{Keys: keys}})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 && s.SignedBy != "" })
	before := polls.Load()
	until(t, w, "a long poll without news", func(Status) bool { return polls.Load() > before+1 })
	_, err := store.Publish(t.Context(), "m", testContents(small))
	must(t, err)
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
	if _, err := source.Wait(t.Context(), "m", "none", Pointer{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such alias: %v, want ErrNotFound", err)
	}
	if _, err := source.File(t.Context(), "m", 9, manifestFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such version: %v, want fs.ErrNotExist", err)
	}
}

// A server that lies about sizes, cuts off or sends without end is given up on without taking memory.
func TestHTTPSourceBounds(t *testing.T) {
	_, dir := publish(t, 1)
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
		case *mode.Load() == "cut off" && strings.HasSuffix(path, tensorsFile):
			w.Header().Set("Content-Length", "600")
			w.Write(make([]byte, 100))
		case *mode.Load() == "endless file" && strings.HasSuffix(path, tensorsFile):
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
