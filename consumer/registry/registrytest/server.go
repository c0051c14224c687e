// Package registrytest is a schema registry in memory that answers as Confluent's does, for tests.
package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A Server is a registry. It is safe for concurrent use.
type Server struct {
	*httptest.Server

	// SignIn is user:password that requests must have, "" for none. It is set before the first of them.
	SignIn string

	mu       sync.Mutex
	schemas  []schema // the ID of each is one more than its index
	subjects map[string][]int
}

// schema is what a registry says of one, and what requests have of one to register.
type schema struct {
	Schema     string `json:"schema"`
	SchemaType string `json:"schemaType,omitempty"`
	ID         int    `json:"id,omitempty"`
	Version    int    `json:"version,omitempty"`
}

// New starts a registry that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{subjects: make(map[string][]int)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /schemas/ids/{id}", func(w http.ResponseWriter, r *http.Request) {
		for id := range s.all() {
			if fmt.Sprint(id+1) == r.PathValue("id") {
				answer(w, s.all()[id])
				return
			}
		}
		http.Error(w, `{"error_code":40403}`, http.StatusNotFound)
	})
	mux.HandleFunc("POST /subjects/{subject}/versions", func(w http.ResponseWriter, r *http.Request) {
		var in schema
		if json.NewDecoder(r.Body).Decode(&in) != nil || in.Schema == "" ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "application/vnd.schemaregistry.v1+json") {
			http.Error(w, `{"error_code":42201}`, http.StatusUnprocessableEntity)
			return
		}
		answer(w, schema{ID: s.Add(r.PathValue("subject"), in.SchemaType, in.Schema)})
	})
	mux.HandleFunc("GET /subjects/{subject}/versions/latest", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		ids := s.subjects[r.PathValue("subject")]
		s.mu.Unlock()
		if len(ids) == 0 {
			http.Error(w, `{"error_code":40401}`, http.StatusNotFound)
			return
		}
		out := s.all()[ids[len(ids)-1]-1]
		out.ID, out.Version = ids[len(ids)-1], len(ids)
		answer(w, out)
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); s.SignIn != "" && user+":"+password != s.SignIn {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, a schema) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	_ = json.NewEncoder(w).Encode(a)
}

func (s *Server) all() []schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schemas
}

// Add registers a schema under a subject and returns its ID, that of an equal one if there is one. kind is AVRO,
// PROTOBUF or JSON; "" is AVRO.
func (s *Server) Add(subject, kind, text string) (id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "AVRO" {
		kind = ""
	}
	for i, one := range s.schemas {
		if one.Schema == text && one.SchemaType == kind {
			id = i + 1
		}
	}
	if id == 0 {
		s.schemas = append(s.schemas, schema{Schema: text, SchemaType: kind})
		id = len(s.schemas)
	}
	ids := s.subjects[subject]
	if len(ids) == 0 || ids[len(ids)-1] != id {
		s.subjects[subject] = append(ids, id)
	}
	return id
}
