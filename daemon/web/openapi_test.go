package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/refitd/refitd/configs"
)

// contract is configs/openapi.json with the schemas that were needed so far.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	mux      *http.ServeMux
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema
}

var openContract = sync.OnceValue(func() *contract {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(configs.OpenAPI))
	if err != nil {
		panic(err)
	}
	c := &contract{
		doc:      doc.(map[string]any),
		compiler: jsonschema.NewCompiler(),
		mux:      http.NewServeMux(),
		schemas:  map[string]*jsonschema.Schema{},
	}
	if err := c.compiler.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	for _, pattern := range allPatterns() {
		c.mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return c
})

// at returns the value at a path of keys, nil if the path leads nowhere.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// check returns what an answer has that the document does not say.
func (c *contract) check(r *http.Request, w *httptest.ResponseRecorder) string {
	_, pattern := c.mux.Handler(r)
	method, path, _ := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
	if pattern == "" { // the guard, or no route
		return c.matches(w, "", "components", "schemas", "Error")
	}
	keys := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(w.Code)}
	response := at(c.doc, keys...)
	if ref, ok := at(response, "$ref").(string); ok {
		keys = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		response = at(c.doc, keys...)
	}
	if response == nil {
		return pattern + " has no status " + strconv.Itoa(w.Code)
	}
	if w.Code < 300 {
		for _, h := range []string{versionHeader, "ETag", "X-Payload-Digest", "Repr-Digest"} {
			if w.Header().Get(h) != "" && at(response, "headers", h) == nil {
				return pattern + " has no header " + h
			}
		}
	}
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content := at(response, "content")
	if content == nil {
		if w.Body.Len() > 0 {
			return pattern + " has no body with this status"
		}
		return ""
	}
	if at(content, media) == nil && media != "multipart/byteranges" {
		return pattern + " has no body of type " + media
	}
	if media != "application/json" || r.Method == http.MethodHead {
		return ""
	}
	return c.matches(w, pattern+": ", append(slices.Clone(keys), "content", media, "schema")...)
}

// matches checks a body against the schema at a path of keys.
func (c *contract) matches(w *httptest.ResponseRecorder, what string, keys ...string) string {
	pointer := "openapi.json#"
	for _, key := range keys {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "%", "%25").Replace(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	schema := c.schemas[pointer]
	if schema == nil {
		var err error
		if schema, err = c.compiler.Compile(pointer); err != nil {
			return err.Error()
		}
		c.schemas[pointer] = schema
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err == nil {
		err = schema.Validate(body)
	}
	if err != nil {
		return what + err.Error()
	}
	return ""
}

// documented fails the test unless an answer is as the document says. It looks at every answer that a test here asks
// for.
func documented(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Body.Len() > 1<<20 || r.Method == http.MethodHead && w.Code >= 300 {
		return
	}
	if wrong := openContract().check(r, w); wrong != "" {
		t.Errorf("%s %s: %d %.200s: %s", r.Method, r.URL, w.Code, w.Body, wrong)
	}
}

// TestOpenAPI: what is served is documented and the reverse, and the document is served. configs/openapi_test.go makes
// it.
func TestOpenAPI(t *testing.T) {
	served := map[string]bool{}
	for _, pattern := range allPatterns() {
		served[strings.TrimSuffix(pattern, "{$}")] = true
	}
	for path, item := range openContract().doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if pattern := strings.ToUpper(method) + " " + path; !served[pattern] {
				t.Errorf("%s is documented, and not served", pattern)
			} else {
				delete(served, pattern)
			}
		}
	}
	for pattern := range served {
		t.Errorf("%s is served, and not documented: go test ./configs -update", pattern)
	}
	if w := newBench(t).ask("GET", "/openapi.json", nil); w.Body.String() != configs.OpenAPI {
		t.Errorf("served: %d %.100s", w.Code, w.Body)
	}
}
