package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// damage flips a bit of a version's parameters.
func damage(t *testing.T, dir, model string, version int64) {
	t.Helper()
	path := filepath.Join(dir, model, strconv.FormatInt(version, 10), "model.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFilesAreTheStores: every file of a version is there byte for byte under both forms of the path, with its digest,
// and nothing else is.
func TestFilesAreTheStores(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"manifest.json", "model.safetensors", "vocabulary", "golden.jsonl"} {
		want, err := os.ReadFile(filepath.Join(b.dir, "ratings", "1", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"versions/1", "aliases/champion"} {
			path := "/v1/models/ratings/" + form + "/files/" + name
			w := b.want(http.StatusOK, nil, "GET", path, nil)
			if !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get(versionHeader) != "1" {
				t.Errorf("%s: %d bytes, header %v", path, w.Body.Len(), w.Header())
			}
			sum := sha256.Sum256(want)
			if got := w.Header().Get("Repr-Digest"); name != snapshot.ManifestFile &&
				got != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
				t.Errorf("%s: digest %q", path, got)
			}
			etag := w.Header().Get("ETag")
			if again := b.want(http.StatusNotModified, nil, "GET", path, nil, "If-None-Match", etag); etag == "" ||
				again.Body.Len() > 0 {
				t.Errorf("%s: ETag %s, %d bytes again", path, etag, again.Body.Len())
			}
			if head := b.want(http.StatusOK, nil, "HEAD", path, nil); head.Header().
				Get("Content-Length") !=
				strconv.Itoa(len(want)) {
				t.Errorf("%s: HEAD %v", path, head.Header())
			}
			part := b.want(http.StatusPartialContent, nil, "GET", path, nil, "Range", "bytes=5-14", "If-Range", etag)
			if !bytes.Equal(part.Body.Bytes(), want[5:15]) ||
				part.Header().Get("Repr-Digest") != w.Header().Get("Repr-Digest") {
				t.Errorf("%s: range %q, digest %q", path, part.Body, part.Header().Get("Repr-Digest"))
			}
			b.want(http.StatusRequestedRangeNotSatisfiable, nil, "GET", path, nil, "Range", "bytes=99999999-")
			// An entity that changed is sent whole.
			b.want(http.StatusOK, nil, "GET", path, nil, "Range", "bytes=5-14", "If-Range", `"other"`)
		}
	}
}

// hostilePaths ask for what is no file of a version.
var hostilePaths = []string{
	"/v1/models/ratings/versions/1/files/secret", "/v1/models/ratings/versions/1/files/log.jsonl",
	"/v1/models/ratings/aliases/champion/files/secret",
	"/v1/models/..%2f..%2fetc/versions/1/files/passwd", "/v1/models/ratings/versions/1/files/..%2f..%2f..%2fsecret",
	"/v1/models/ratings/versions/1/files/../../../secret", "/v1/models/../../secret",
	"/v1/models/ratings/versions/1/files/%2e%2e%2f%2e%2e%2fsecret",
	"/v1/models/ratings/versions/1/files/%00", "/v1/models/ratings/versions/1/files/vocabulary%00",
	"/v1/models/ratings%00/versions",
	"/v1//models/ratings", "//v1/models", "/v1/models/ratings/versions/..%5c..%5csecret/files/vocabulary",
	`/v1/models/ratings/versions/1/files/..\..\secret`,
	"/v1/models/ratings/versions/1/files/%2fetc%2fpasswd", "/v1/models/ratings/versions/1/files//etc/passwd",
	"/v1/models/ratings/versions/1/files/.",
	"/v1/models/ratings/versions/%2e%2e/files/secret", "/v1/models/ratings/versions/aliases/files/champion",
	"/v1/models/ratings/aliases/..%2f1/files/vocabulary",
	"/v1/models/ratings/aliases/..%2f..%2fsecret", "/v1/models/ratings/versions/1/files/.lock",
	"/v1/models/RATINGS/versions",
	"/v1/models/ratings/versions/+1/files/vocabulary",
	"/v1/models/clicks/versions/1/files/vocabulary", "/v1/models/clicks/versions/7/files/outside",
	"/v1/models/clicks/versions/7/files/manifest.json",
	"/v1/models/" + strings.Repeat("a",
		300) + "/versions", "/static/..%2fstatus.html", "/static/status.html", "/static/",
}

// TestTraversal: F7. Whatever a path says, nothing but the files of a version is read.
func TestTraversal(t *testing.T) {
	b := newBench(t)
	secret := "the file outside the store"
	if err := os.WriteFile(filepath.Join(b.dir, "secret"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	// A file of a version replaced by a link out of the store, and a version by a link to another directory.
	if err := os.Remove(filepath.Join(b.dir, "clicks", "1", "vocabulary")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "clicks", "1", "vocabulary")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(b.dir, "clicks", "7")); err != nil {
		t.Fatal(err)
	}
	for _, path := range hostilePaths {
		for _, method := range []string{"GET", "HEAD"} {
			w := b.ask(method, path, nil)
			if w.Code < 400 || w.Code == http.StatusInternalServerError || strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
}

// big publishes a version of some MiB, so that the network's buffers do not hold it.
func (b *bench) big(t *testing.T) (path string, content []byte) {
	t.Helper()
	c := contents(format.Regression, 1)
	c.Schema = snapshot.Schema{Task: format.Regression, Label: "y", Categorical: []string{"id"}}
	c.NumFeatures, c.NumBasis = 40_000, 25
	c.Vocabulary = [][]string{make([]string, c.NumFeatures)}
	for i := range c.Vocabulary[0] {
		c.Vocabulary[0][i] = fmt.Sprintf("n%d", i)
	}
	c.Basis, c.Weights, c.Linear = make([]float64, c.NumFeatures*c.NumBasis), make([]float64,
		c.NumBasis), make([]float64, c.NumFeatures)
	for i := range c.Basis {
		c.Basis[i] = float64(i%97) / 97
	}
	c.Weights[0] = 1
	c.Golden = []format.Golden{{Input: snapshot.Input{Categorical: []string{"n1"}}}}
	version := b.publish(t, "prices", c)
	content, err := os.ReadFile(filepath.Join(b.dir, "prices", strconv.FormatInt(version, 10), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return manifestPath("prices", version, "model.safetensors"), content
}

// TestParallelDownloads: E13. A hundred clients get the same bytes, 64 at a time and the others when they come again;
// one that stops reading and one that is cut off do not hold anybody up, and a cut download is gone on with.
func TestParallelDownloads(t *testing.T) {
	b := newBench(t)
	path, content := b.big(t)
	addr, _ := b.listen(t)
	slow, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr) // and reads nothing
	within(t, patience, "the slow reader's place", func() bool { return len(b.downloads) == 1 })

	client := newClient(t)
	get := func(from int, limit int64) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		if from > 0 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		}
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, limit))
		if err != nil {
			t.Error(err)
		}
		return res.StatusCode, body
	}
	_, head := get(0, 1<<20) // cut off: closing the body closes the connection
	if code, tail := get(len(head), 1<<30); code != http.StatusPartialContent ||
		!bytes.Equal(append(head, tail...), content) {
		t.Errorf("gone on with: %d, %d bytes", code, len(head)+len(tail))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes, most := map[int]int{}, 0
	readers := tier.Size(20, 100)
	for range readers {
		wg.Go(func() {
			for {
				code, body := get(0, 1<<30)
				mu.Lock()
				codes[code]++
				most = max(most, len(b.downloads))
				mu.Unlock()
				if code == http.StatusOK {
					if !bytes.Equal(body, content) {
						t.Errorf("%d bytes that are not the file's", len(body))
					}
					return
				}
				if code != http.StatusServiceUnavailable {
					t.Errorf("status %d", code)
					return
				}
				<-time.After(50 * time.Millisecond) // as Retry-After says, but sooner
			}
		})
	}
	wg.Wait()
	if codes[http.StatusOK] != readers || most > maxDownloads {
		t.Errorf("answers %v, at most %d at a time", codes, most)
	}
	t.Logf("answers %v, at most %d at a time, the slow reader among them", codes, most)
}

// deadlines records the deadlines that a writer is given.
type deadlines struct {
	http.ResponseWriter
	set    []time.Time
	chunks []int
}

func (d *deadlines) Header() http.Header { return http.Header{} }
func (d *deadlines) WriteHeader(int)     {}
func (d *deadlines) Write(b []byte) (int, error) {
	d.chunks = append(d.chunks, len(b))
	return len(b), nil
}
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestDeadlineOfEachChunk: a download may take longer than the server's write time-out, a chunk may not.
func TestDeadlineOfEachChunk(t *testing.T) {
	d := &deadlines{}
	w := &chunkWriter{ResponseWriter: d, control: http.NewResponseController(d)}
	if n, err := w.Write(make([]byte, 2*chunkBytes+1)); n != 2*chunkBytes+1 || err != nil {
		t.Fatal(n, err)
	}
	if len(d.set) != 3 || len(d.chunks) != 3 || d.chunks[0] != chunkBytes || d.chunks[2] != 1 {
		t.Errorf("chunks %v, %d deadlines", d.chunks, len(d.set))
	}
	for _, at := range d.set {
		if left := time.Until(at); left <= 0 || left > chunkTimeout {
			t.Errorf("a deadline in %v", left)
		}
	}
	if _, ok := any(w).(io.ReaderFrom); ok {
		t.Error("the writer takes a file as a whole, under one deadline")
	}
	b, answered := newBench(t), &deadlines{}
	r := httptest.NewRequest("GET", manifestPath("ratings", 1, "model.safetensors"), nil)
	r.Host = "localhost"
	b.ServeHTTP(answered, r)
	if len(answered.chunks) == 0 || len(answered.set) != len(answered.chunks) {
		t.Errorf("a file in %d chunks has %d deadlines", len(answered.chunks), len(answered.set))
	}
}
