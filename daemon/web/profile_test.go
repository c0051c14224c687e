package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProfiles: with Profiling the index and the profiles are there, in the format of pprof, and neither the command
// line nor what is no profile.
// Without it nothing of them is (TestNoOtherRoutes).
func TestProfiles(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Profiling = true })
	get := func(method, path string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		r.Host = "localhost"
		b.ServeHTTP(w, r)
		return w
	}
	if w := get("GET", "/debug/pprof/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("index: %d %.200s", w.Code, w.Body)
	}
	for _, path := range []string{"heap", "goroutine", "allocs", "mutex", "block", "profile?seconds=1"} {
		w := get("GET", "/debug/pprof/"+path)
		r, err := gzip.NewReader(w.Body)
		if w.Code != http.StatusOK || err != nil {
			t.Errorf("%s: %d, %v", path, w.Code, err)
			continue
		}
		if text, err := io.ReadAll(r); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/heap/1",
		"/debug/pprof/none"} {
		if w := get("GET", path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get("POST", "/debug/pprof/heap"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
