// Package objectstest has a small object store for tests: S3's requests that package objects makes, with conditions, in
// memory, without looking at signatures.
package objectstest

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is the store. It is safe for concurrent use.
type Server struct {
	*httptest.Server
	// Before, if not nil, is called before each request and may answer it with a status; 0 lets it through.
	Before func(method, key string) int
	// Ignores, if not empty, is a condition of a PUT that the store does not look at.
	Ignores string

	mu      sync.Mutex
	objects map[string][]byte // by bucket and key
	counts  map[string]int    // requests by kind: GET, GET304, PUT, LIST, DELETE
}

// New starts a store that ends with the test.
func New(t *testing.T) *Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "canary-access")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	s := &Server{objects: make(map[string][]byte), counts: make(map[string]int)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// URL returns the URL of a bucket with a prefix, as objects.Open takes it.
func (s *Server) URL(prefix string) string {
	return "s3://models/" + prefix + "?path_style=true&endpoint=" + s.Server.URL
}

// Counts returns how many requests of each kind came since the last call.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = make(map[string]int)
	return counts
}

// Objects returns the keys, sorted, and lets change rewrite what there is. change may be nil.
func (s *Server) Objects(change func(objects map[string][]byte)) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change != nil {
		change(s.objects)
	}
	for key := range s.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func tagOf(content []byte) string {
	sum := md5.Sum(content)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	if s.Before != nil {
		if status := s.Before(r.Method, key); status != 0 {
			fail(w, status, "InternalError")
			return
		}
	}
	body, err := payload(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Has("list-type") {
		s.counts["LIST"]++
		s.list(w, strings.TrimSuffix(key, "/"), r.URL.Query().Get("prefix"))
		return
	}
	content, there := s.objects[key]
	switch r.Method {
	case http.MethodGet:
		s.get(w, r, content, there)
	case http.MethodPut:
		s.counts["PUT"]++
		if s.Ignores != "" {
			r.Header.Del(s.Ignores)
		}
		match := r.Header.Get("If-Match")
		if r.Header.Get("If-None-Match") == "*" && there || match != "" && there && match != tagOf(content) {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		if match != "" && !there {
			fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		s.objects[key] = body
		w.Header().Set("ETag", tagOf(body))
	case http.MethodDelete:
		s.counts["DELETE"]++
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, content []byte, there bool) {
	if !there {
		s.counts["GET"]++
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", tagOf(content))
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	if r.Header.Get("If-None-Match") == tagOf(content) {
		s.counts["GET304"]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.counts["GET"]++
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the client says what it missed
}

func (s *Server) list(w http.ResponseWriter, bucket, prefix string) {
	type entry struct{ Key string }
	var answer struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	for key := range s.objects {
		if name, ok := strings.CutPrefix(key, bucket+"/"); ok && strings.HasPrefix(name, prefix) {
			answer.Contents = append(answer.Contents, entry{name})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer) // the client says what it missed
}

// payload returns a body, without the frames of chunks that are signed one by one.
func payload(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var out bytes.Buffer
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 {
			return out.Bytes(), err
		}
		if _, err := io.CopyN(&out, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(2); err != nil {
			return nil, err
		}
	}
}
