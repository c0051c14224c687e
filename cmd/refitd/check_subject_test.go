package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestCheckSubject: a producer learns from the newest schema of a subject which fields of a model it would lose.
func TestCheckSubject(t *testing.T) {
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		schema := map[string]string{
			"/subjects/whole/versions/latest":  `{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"user\",\"type\":\"string\"},{\"name\":\"y\",\"type\":\"int\"}]}`,
			"/subjects/broken/versions/latest": `{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"y\",\"type\":\"int\"}]}`,
			"/subjects/other/versions/latest":  `{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"user\",\"type\":\"double\"},{\"name\":\"y\",\"type\":\"string\"}]}`,
			"/subjects/both/versions/latest":   `{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"y\",\"type\":\"string\"}]}`,
			"/subjects/none/versions/latest":   `{`,
		}[r.URL.Path]
		if schema == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"version":4,"schema":"%s"}`, schema)
	}))
	defer registry.Close()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
  - name: m
    input: {topics: [t]}
    schema: {task: regression, label: y, categorical: [user]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]string{
		"whole":  "model m: version 4 of whole (avro) has every field\n",
		"broken": "model m: version 4 of broken (avro) has nothing for user\n",
		"other":  "model m: version 4 of other (avro) has another type for y, user\n",
		"both":   "model m: version 4 of both (avro) has nothing for user, and another type for y\n",
		"none":   "invalid",
		"absent": "status 404",
	} {
		var out bytes.Buffer
		loses, err := (&subjectFlags{Registry: registry.URL, Subject: subject}).
			check(conf, &app{out: report.NewEmitter(&out, false)})
		if loses != (subject == "broken" || subject == "other" || subject == "both") {
			t.Errorf("%s: %v", subject, loses)
		}
		if err != nil {
			out.WriteString(err.Error())
		}
		if got := out.String(); (err != nil) != (subject == "none" || subject == "absent") || err == nil && got != want ||
			err != nil && subject == "absent" && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
}
