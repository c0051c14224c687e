package web

import (
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many scrapes are answered at a time; the others get 503.
const maxScrapes = 4

// route is one pattern of the surface.
type route struct {
	pattern string // method and path, as http.ServeMux takes it
	serve   http.HandlerFunc
}

// routes returns every route there is. Those that take a version have three forms: without one they mean the champion.
func (s *Server) routes() []route {
	routes := []route{
		{"GET /{$}", s.status},
		{"GET /static/style.css", style},
		{"GET /-/healthy", healthy},
		{"GET /-/ready", s.ready},
		{"POST /-/reload", s.reload},
		{"PUT /-/reload", s.reload},
		{"POST /-/refit", s.refit},
		{"PUT /-/refit", s.refit},
		{"GET /metrics", promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: writeTimeout / 2}).ServeHTTP},
		{"GET /v1/models", s.listModels},
		{"GET /v1/models/{model}", s.showModel},
		{"GET /v1/models/{model}/versions", s.listVersions},
		{"GET /v1/models/{model}/aliases", s.showModel},
		{"GET /v1/models/{model}/aliases/{alias}", s.showAlias},
		{"PUT /v1/models/{model}/aliases/{alias}", s.moveAlias},
		{"GET /v1/models/{model}/versions/{version}", s.showVersion},
		{"GET /v2", s.serverMetadata},
		{"GET /v2/health/live", s.live},
		{"GET /v2/health/ready", s.serverReady},
	}
	add := func(method, prefix string, selectors []string, last string, serve http.HandlerFunc) {
		for _, sel := range selectors {
			routes = append(routes, route{method + " " + prefix + sel + last, serve})
		}
	}
	v1, v2 := "/v1/models/{model}", "/v2/models/{model}"
	add("GET", v1, []string{"/aliases/{alias}", "/versions/{version}"}, "/files/{file}", s.file)
	add("POST", v1, []string{"", "/aliases/{alias}", "/versions/{version}"}, "/score", s.score)
	add("POST", v1, []string{"", "/aliases/{alias}", "/versions/{version}"}, "/topk", s.topk)
	add("POST", v1, []string{"", "/aliases/{alias}", "/versions/{version}"}, "/explain", s.explain)
	add("GET", v2, []string{"", "/versions/{version}"}, "", s.modelMetadata)
	add("GET", v2, []string{"", "/versions/{version}"}, "/ready", s.modelReady)
	add("POST", v2, []string{"", "/versions/{version}"}, "/infer", s.infer)
	return routes
}

// mux routes requests. What no route takes is answered as JSON, too.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, r.serve)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		none := noRoute{header: w.Header()}
		h.ServeHTTP(&none, r) // sets the status and, for a wrong method, Allow
		switch none.status {
		case http.StatusMethodNotAllowed:
			fail(w, none.status, r.Method+" is not served here, only "+w.Header().Get("Allow"))
		default:
			fail(w, http.StatusNotFound, "nothing is served at this path")
		}
	})
}

// noRoute takes the status of an answer whose body is written anew.
type noRoute struct {
	header http.Header
	status int
}

// Header returns the header of the answer.
func (n *noRoute) Header() http.Header { return n.header }

// WriteHeader takes the status.
func (n *noRoute) WriteHeader(status int) { n.status = status }

// Write drops the body.
func (n *noRoute) Write(b []byte) (int, error) { return io.Discard.Write(b) }

// shelf returns the model that the path names.
func (s *Server) shelf(r *http.Request) (*shelf, error) {
	if found := s.shelves[r.PathValue("model")]; found != nil {
		return found, nil
	}
	names := make([]string, len(s.Models))
	for i, m := range s.Models {
		names[i] = m.Name
	}
	return nil, &requestError{http.StatusNotFound, "there is no such model: there is " + strings.Join(names, ", ")}
}
