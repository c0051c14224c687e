package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"github.com/refitd/refitd/daemon/web/tensor"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// send posts a body with a Content-Encoding, without one where that is empty.
func (b *bench) send(path, body, coding string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Host = "localhost"
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// TestGzipBodies: a compressed body is read as what it was, by its header or without one, under /v1 and /v2.
func TestGzipBodies(t *testing.T) {
	b := newBench(t)
	infer, err := json.Marshal(rowsBody())
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/v1/models/ratings/score": `{"events":[{"user":"u1","item":"i1","age":30,"tags":["a"]}]}`,
		"/v1/models/ratings/topk":  `{"event":{"user":"u1","age":30,"tags":["a"]},"over":"item"}`,
		"/v2/models/ratings/infer": string(infer),
	} {
		want := b.send(path, body, "identity")
		for _, coding := range []string{"gzip", "GZIP", "x-gzip", ""} {
			got := b.send(path, gzipped(t, body), coding)
			if got.Code != http.StatusOK || !reflect.DeepEqual(withoutAge(t, got), withoutAge(t, want)) {
				t.Errorf("%s, %q: %d %s, want %s", path, coding, got.Code, got.Body, want.Body)
			}
		}
		for coding, status := range map[string]int{"br": http.StatusUnsupportedMediaType,
			"gzip, gzip": http.StatusUnsupportedMediaType,
			"gzip":       http.StatusBadRequest} {
			if got := b.send(path, body, coding); got.Code != status { // which is not compressed
				t.Errorf("%s, %q: %d %s, want %d", path, coding, got.Code, got.Body, status)
			}
		}
		cut := gzipped(t, body)
		if got := b.send(path, cut[:len(cut)-4], "gzip"); got.Code != http.StatusBadRequest ||
			!strings.Contains(got.Body.String(), "gzip") {
			t.Errorf("%s, cut off: %d %s", path, got.Code, got.Body)
		}
	}
	object, tail := binaryBody()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	got := b.send("/v2/models/ratings/infer", gzipped(t, string(text)+string(tail)), "gzip", tensor.LengthHeader,
		strconv.Itoa(len(text)))
	if got.Code != http.StatusOK {
		t.Errorf("binary tensors: %d %s", got.Code, got.Body)
	}
	if held := b.budget.InUse(); held != 0 {
		t.Errorf("%d bytes are held after all requests", held)
	}
}

// TestGzipBombs: what a body is decompressed to is bounded as a body is, before it is there, and given back.
func TestGzipBombs(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxInflightBytes = 1 << 20 })
	bomb := gzipped(t, `{"events":[`+strings.Repeat(" ", 64<<20)+`]}`)
	if got := b.send("/v1/models/ratings/score", bomb, "gzip"); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if held := b.budget.InUse(); held != 0 {
		t.Errorf("%d bytes are held after the request", held)
	}
}

// withoutAge returns an answer but for how old the version is now.
func withoutAge(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	delete(answer, "age_seconds")
	return answer
}
