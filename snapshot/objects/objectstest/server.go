// Package objectstest has a small object store for tests: the requests that package objects makes of S3, of Google and
// of Azure, with conditions, in memory. It looks at no signature and at no token.
package objectstest

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
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
	// Answer, if not nil, may answer a request in place of the store, or change what it says.
	Answer func(w http.ResponseWriter, r *http.Request, method, key string) (done bool)
	// Ignores, if not empty, is a condition of a PUT that the store does not look at.
	Ignores string
	// Cloud is "s3", "gs" or "azure".
	Cloud string

	mu      sync.Mutex
	objects map[string][]byte // by bucket and key
	counts  map[string]int    // requests by kind: GET, GET304, PUT, LIST, DELETE
}

// Clouds are the stores that there are.
var Clouds = []string{"s3", "gs", "azure"}

// AccountKey is the key of the account in Azure.
const AccountKey = "Y2FuYXJ5LXNlY3JldA=="

// New starts a store of S3 that ends with the test.
func New(t *testing.T) *Server { return For(t, "s3") }

// For starts a store of a cloud that ends with the test.
func For(t *testing.T, cloud string) *Server {
	t.Helper()
	s := &Server{Cloud: cloud, objects: make(map[string][]byte), counts: make(map[string]int)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	switch cloud {
	case "s3":
		t.Setenv("AWS_ACCESS_KEY_ID", "canary-access")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	case "gs":
		t.Setenv("STORAGE_EMULATOR_HOST", s.Server.URL)
	case "azure":
		t.Setenv("AZURE_STORAGE_KEY", AccountKey)
	}
	t.Cleanup(s.Close)
	return s
}

// URL returns the URL of a bucket with a prefix, as objects.Open takes it.
func (s *Server) URL(prefix string) string {
	switch s.Cloud {
	case "gs":
		return "gs://models/" + prefix
	case "azure":
		return "azure://account/models/" + prefix + "?endpoint=" + s.Server.URL + "/account"
	}
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

// tagOf returns the tag of a content: Google's are numbers.
func (s *Server) tagOf(content []byte) string {
	sum := md5.Sum(content)
	if s.Cloud == "gs" {
		return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>1|2, 10)
	}
	return `"` + hex.EncodeToString(sum[:]) + `-1"` // no ETag is a digest that may be relied on
}

// fail answers as each cloud does: an error in XML, and for Azure in a header.
func (s *Server) fail(w http.ResponseWriter, status int, code string) {
	if s.Cloud == "azure" && status == http.StatusNotFound {
		code = "BlobNotFound"
	}
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

// a question is a request in the words of S3.
type question struct {
	method, key   string
	match, none   string // conditions
	list          bool
	bucket, begin string // of a list
}

// read returns a request in the words of S3. Google's conditions on writes are its own alone.
func (s *Server) read(r *http.Request) *question {
	query := r.URL.Query()
	q := &question{method: r.Method, key: strings.TrimPrefix(r.URL.Path, "/"), match: r.Header.Get("If-Match"),
		none: r.Header.Get("If-None-Match"), list: query.Has("list-type"), begin: query.Get("prefix")}
	switch s.Cloud {
	case "gs":
		bucket, object, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/upload"),
			"/storage/v1/b/"), "/o")
		name, _ := url.PathUnescape(strings.TrimPrefix(object, "/"))
		q.match, q.none, q.list = query.Get("ifGenerationMatch"), query.Get("ifGenerationNotMatch"), false
		switch {
		case r.Method == http.MethodPost:
			q.method, name = http.MethodPut, query.Get("name")
			if q.match == "0" {
				q.match, q.none = "", "*"
			}
		case name == "":
			q.list = true
		}
		q.key, q.bucket = bucket+"/"+name, bucket
	case "azure":
		q.key = strings.TrimPrefix(q.key, "account/")
		q.list = query.Get("comp") == "list"
	}
	if q.list {
		q.bucket = strings.TrimSuffix(q.key, "/")
	}
	return q
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	q := s.read(r)
	if s.Before != nil {
		if status := s.Before(q.method, q.key); status != 0 {
			s.fail(w, status, map[int]string{http.StatusForbidden: "AccessDenied", http.StatusServiceUnavailable: "SlowDown",
				http.StatusTooManyRequests: "SlowDown"}[status])
			return
		}
	}
	if s.Answer != nil && s.Answer(w, r, q.method, q.key) {
		return
	}
	body, err := payload(r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.list {
		s.counts["LIST"]++
		s.list(w, q.bucket, q.begin, r.URL.Query().Get("pageToken")+r.URL.Query().Get("marker"))
		return
	}
	content, there := s.objects[q.key]
	switch q.method {
	case http.MethodGet:
		s.get(w, q, content, there)
	case http.MethodPut:
		s.counts["PUT"]++
		s.put(w, q, content, there, body)
	case http.MethodDelete:
		s.counts["DELETE"]++
		delete(s.objects, q.key)
		if s.Cloud == "azure" {
			w.WriteHeader(http.StatusAccepted)
		} else {
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		s.fail(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) put(w http.ResponseWriter, q *question, content []byte, there bool, body []byte) {
	match, none := q.match, q.none
	switch s.Ignores {
	case "If-Match":
		match = ""
	case "If-None-Match":
		none = ""
	}
	switch {
	case none == "*" && there && s.Cloud == "azure":
		s.fail(w, http.StatusConflict, "BlobAlreadyExists")
	case none == "*" && there, match != "" && there && match != s.tagOf(content):
		s.fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case match != "" && !there && s.Cloud == "s3":
		s.fail(w, http.StatusNotFound, "NoSuchKey")
	case match != "" && !there:
		s.fail(w, http.StatusPreconditionFailed, "ConditionNotMet")
	default:
		s.objects[q.key] = body
		w.Header().Set("ETag", s.tagOf(body))
		if s.Cloud == "azure" {
			w.WriteHeader(http.StatusCreated)
		}
		if s.Cloud == "gs" {
			fmt.Fprintf(w, `{"name": "x", "generation": %q}`, s.tagOf(body))
		}
	}
}

func (s *Server) get(w http.ResponseWriter, q *question, content []byte, there bool) {
	if !there {
		s.counts["GET"]++
		s.fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	tag := s.tagOf(content)
	w.Header().Set("ETag", tag)
	if s.Cloud == "gs" {
		w.Header().Set("X-Goog-Generation", tag)
	}
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	if q.none == tag {
		s.counts["GET304"]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.counts["GET"]++
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the client says what it missed
}

// list answers with two keys a page of Google's and Azure's, so that there are several.
func (s *Server) list(w http.ResponseWriter, bucket, prefix, after string) {
	var names []string
	for key := range s.objects {
		name, ok := strings.CutPrefix(key, bucket+"/")
		if ok && strings.HasPrefix(name, prefix) && (s.Cloud == "s3" || name > after) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	next := ""
	if s.Cloud != "s3" && len(names) > 2 {
		names, next = names[:2], names[1]
	}
	switch s.Cloud {
	case "s3":
		type entry struct{ Key string }
		var answer struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []entry
		}
		for _, name := range names {
			answer.Contents = append(answer.Contents, entry{name})
		}
		w.Header().Set("Content-Type", "application/xml")
		_ = xml.NewEncoder(w).Encode(answer) // the client says what it missed
	case "gs":
		type item struct {
			Name string `json:"name"`
		}
		answer := struct {
			Items []item `json:"items,omitempty"`
			Next  string `json:"nextPageToken,omitempty"`
		}{Next: next}
		for _, name := range names {
			answer.Items = append(answer.Items, item{name})
		}
		_ = json.NewEncoder(w).Encode(answer)
	case "azure":
		type blob struct {
			Name string
			Type string `xml:"Properties>ResourceType,omitempty"`
		}
		var answer struct {
			XMLName    xml.Name `xml:"EnumerationResults"`
			Blobs      []blob   `xml:"Blobs>Blob"`
			NextMarker string
		}
		for _, name := range names { // as an account with a hierarchical namespace does, which has directories
			answer.Blobs = append(answer.Blobs, blob{path.Dir(name), "directory"}, blob{Name: name})
		}
		answer.NextMarker = next
		_ = xml.NewEncoder(w).Encode(answer)
	}
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
