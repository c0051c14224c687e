package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// FuzzPaths: F7. Whatever a path says, in whatever encoding, the answer is a refusal, something that the surface makes,
// or a file of a version: nothing outside the store, no temporary file and no alias is ever read, and nothing fails
// inside.
func FuzzPaths(f *testing.F) {
	for _, path := range hostilePaths {
		f.Add(path)
	}
	for _, row := range matrix {
		f.Add(row.path)
	}
	b := newBench(f)
	secret := []byte("the file outside the store")
	for _, name := range []string{"secret", "ratings/secret", "ratings/1/secret", "ratings/.staging-2/vocabulary"} {
		path := filepath.Join(b.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, secret, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	published := map[string]bool{}
	for name := range tasks {
		for _, file := range []string{"manifest.json", "model.safetensors", "vocabulary", "golden.jsonl"} {
			content, err := os.ReadFile(filepath.Join(b.dir, name, "1", file))
			if err != nil {
				f.Fatal(err)
			}
			published[string(content)] = true
		}
	}
	f.Fuzz(func(t *testing.T, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || target.Query().Has("wait") { // not sent by any client; a long poll is none of this
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := &http.Request{
				Method:     method,
				URL:        target,
				Host:       "localhost",
				Header:     http.Header{},
				Body:       http.NoBody,
				RemoteAddr: "127.0.0.1:1",
			}
			w := httptest.NewRecorder()
			b.ServeHTTP(w, r.WithContext(t.Context()))
			if w.Code >= 500 && w.Code != http.StatusServiceUnavailable || bytes.Contains(w.Body.Bytes(), secret) {
				t.Errorf("%s %q: %d %.200s", method, path, w.Code, w.Body)
			}
			if w.Code == http.StatusOK && w.Header().Get("Content-Type") == "application/octet-stream" &&
				method == http.MethodGet &&
				!published[w.Body.String()] {
				t.Errorf("%s %q is no file of a version: %.200q", method, path, w.Body)
			}
		}
	})
}
