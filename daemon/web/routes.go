package web

import (
	"io"
	"net/http"
	"strings"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/daemon/web/tensor"
)

// maxScrapes is how many scrapes are answered at a time; the others get 503.
const maxScrapes = 4

// Media is, in place of a type, the media type of a body that is not made from one.
type Media string

// Route is a line of Routes: one thing that is served, in one or more forms of its path. The doc comment of Serve is
// its description.
type Route struct {
	Methods   string // separated by spaces; GET answers HEAD, too
	Paths     string // separated by spaces, as http.ServeMux takes them
	Serve     func(*Server, http.ResponseWriter, *http.Request) error
	Summary   string
	Takes     any      // a value of the type of the body, nil without one
	Gives     any      // a value of the type of the answer, or its Media
	With      []int    // statuses that Gives comes with, nil for 200 alone
	Refuses   []int    // further statuses, without what any request can meet
	Params    []string // query parameters and headers that count
	Headers   []string // of the answer
	Lifecycle bool     // refused unless Options.Lifecycle is there
}

// The refusals of what reads the list of versions, and of what reads a version.
var (
	ofStore   = []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusBadGateway}
	ofVersion = append(ofStore[:3:3], http.StatusGone)
)

// The headers of an answer about a version, and of one that a client may keep.
var says, changes = []string{versionHeader}, []string{versionHeader, "ETag"}

const v1, v2, byAlias, byVersion = "/v1/models/{model}", "/v2/models/{model}", "/aliases/{alias}", "/versions/{version}"

// forms returns a path that takes a version, which without one means the champion.
func forms(last string) string {
	return v1 + last + " " + v1 + byAlias + last + " " + v1 + byVersion + last
}

// Routes is everything that is served. The server routes by it, and configs/openapi.json and docs/http.md are made
// from it.
var Routes = []Route{
	{Methods: "GET", Paths: "/{$}", Serve: (*Server).status, Summary: "Status page for people",
		Gives: Media("text/html"), Refuses: []int{500}},
	{Methods: "GET", Paths: "/static/style.css", Serve: (*Server).style, Summary: "Style sheet of the status page",
		Gives: Media("text/css"), Refuses: []int{304}, Params: []string{"If-None-Match"}, Headers: []string{"ETag"}},
	{Methods: "GET", Paths: "/static/page.js", Serve: (*Server).script, Summary: "Program of the status page",
		Gives: Media("text/javascript"), Refuses: []int{304}, Params: []string{"If-None-Match"},
		Headers: []string{"ETag"}},
	{Methods: "GET", Paths: "/static/icon.svg", Serve: (*Server).icon, Summary: "Icon of the status page",
		Gives: Media("image/svg+xml"), Refuses: []int{304}, Params: []string{"If-None-Match"}, Headers: []string{"ETag"}},
	{Methods: "GET", Paths: "/runbook/{alert}", Serve: (*Server).runbook, Summary: "What to do about an alert",
		Gives: Media("text/plain"), Refuses: []int{404}},
	{Methods: "GET", Paths: "/openapi.json", Serve: (*Server).openAPI, Summary: "This document",
		Gives: Media("application/json")},
	{Methods: "GET", Paths: "/-/healthy", Serve: (*Server).healthy, Summary: "Does the process run?",
		Gives: Media("text/plain")},
	{Methods: "GET", Paths: "/-/ready", Serve: (*Server).ready, Summary: "Does the daemon do its work?",
		Gives: readiness{}, With: []int{200, 503}, Refuses: []int{404}, Params: []string{"model"}},
	{Methods: "POST PUT", Paths: "/-/reload", Serve: (*Server).reload,
		Summary: "Take up the configuration file", Gives: done{}, Refuses: []int{422}, Lifecycle: true},
	{Methods: "POST PUT", Paths: "/-/refit", Serve: (*Server).refit, Summary: "Ask for a refit",
		Gives: done{}, With: []int{202}, Refuses: []int{404, 409}, Params: []string{"model"}, Lifecycle: true},
	{Methods: "GET", Paths: "/metrics", Serve: (*Server).scrape, Summary: "Metrics for Prometheus",
		Gives: Media("text/plain"), Refuses: []int{500, 503}},

	{Methods: "GET", Paths: "/v1/status", Serve: (*Server).showStatus,
		Summary: "The daemon and its models, as the status page shows them", Gives: statuspage.Overview{}},
	{Methods: "GET", Paths: "/v1/stream", Serve: (*Server).stream, Summary: "The same as it changes",
		Gives: Media("text/event-stream"), Refuses: []int{404, 503}, Params: []string{"model", "after", "rounds"}},
	{Methods: "GET", Paths: "/v1/models", Serve: (*Server).listModels, Summary: "Models", Gives: modelList{},
		Refuses: ofStore[1:]},
	{Methods: "GET", Paths: v1 + " " + v1 + "/aliases", Serve: (*Server).showModel,
		Summary: "A model, its champion and its aliases", Gives: modelEntry{}, Refuses: ofStore, Headers: says},
	{Methods: "GET", Paths: v1 + "/state", Serve: (*Server).showState, Summary: "How a model does",
		Gives: statuspage.ModelState{}, Refuses: ofStore[:1]},
	{Methods: "GET", Paths: v1 + "/curves", Serve: (*Server).showCurves, Summary: "How a model has done over time",
		Gives: curves.Curves{}, Refuses: ofStore[:1], Params: []string{"after"}},
	{Methods: "GET", Paths: v1 + "/rejected", Serve: (*Server).listRejected,
		Summary: "Records that are no events, with the reasons", Gives: rejectedList{}, Refuses: ofStore[:1]},
	{Methods: "GET", Paths: v1 + "/versions", Serve: (*Server).listVersions, Summary: "Versions of a model",
		Gives: versionList{}, Refuses: ofStore, Params: []string{"limit"}, Headers: says},
	{Methods: "GET", Paths: v1 + byVersion + "/diff", Serve: (*Server).showDiff,
		Summary: "How a version differs from another", Gives: report.DiffSummary{}, Refuses: append(ofVersion[:4:4], 409),
		Params: []string{"with"}, Headers: says},
	{Methods: "GET", Paths: forms("/belief"), Serve: (*Server).showBelief, Summary: "What a version has learned",
		Gives: belief{}, Refuses: ofVersion, Headers: says},
	{Methods: "GET", Paths: forms("/entity"), Serve: (*Server).showEntity, Summary: "What a version knows of a name",
		Gives: entity{}, Refuses: ofVersion, Params: []string{"field", "name"}, Headers: says},
	{Methods: "GET", Paths: forms("/names"), Serve: (*Server).showNames, Summary: "Names that a version knows",
		Gives: nameList{}, Refuses: ofVersion, Params: []string{"field", "prefix", "limit"}, Headers: says},
	{Methods: "GET", Paths: v1 + byVersion, Serve: (*Server).showVersion, Summary: "A version and its manifest",
		Gives: versionEntry{}, Refuses: append(ofStore[:3:3], 304), Params: []string{"If-None-Match"}, Headers: changes},
	{Methods: "GET", Paths: v1 + byAlias, Serve: (*Server).showAlias, Summary: "What an alias names, by long poll",
		Gives: aliasEntry{}, Refuses: append(ofStore[:3:3], 304, 503),
		Params: []string{"after", "wait", "renewed", "If-None-Match"}, Headers: changes},
	{Methods: "PUT", Paths: v1 + byAlias, Serve: (*Server).moveAlias, Summary: "Let an alias name a version",
		Takes: aliasMove{}, Gives: aliasEntry{}, Refuses: append(ofVersion[:4:4], 409), Headers: says,
		Lifecycle: true},
	{Methods: "GET", Paths: v1 + byAlias + "/files/{file} " + v1 + byVersion + "/files/{file}", Serve: (*Server).file,
		Summary: "A file of a version, or a range of it", Gives: Media("application/octet-stream"), With: []int{200, 206},
		Refuses: append(ofStore[:3:3], 304, 412, 416, 503),
		Params:  []string{"Range", "If-Range", "If-None-Match", "If-Match"},
		Headers: append(changes[:2:2], "X-Payload-Digest", "Repr-Digest")},
	{Methods: "GET", Paths: v1 + "/deltas", Serve: (*Server).deltas,
		Summary: "What changed in a version since it was published, by long poll", Gives: Media("application/octet-stream"),
		Refuses: append(ofStore[:3:3], 409, 503), Params: []string{"base", "after", "wait"}, Headers: says},
	{Methods: "POST", Paths: forms("/score"), Serve: (*Server).score, Summary: "Predict events",
		Takes: scoreRequest{}, Gives: scoreAnswer{}, Refuses: ofVersion, Headers: says},
	{Methods: "POST", Paths: forms("/topk"), Serve: (*Server).topk, Summary: "The best names of a field",
		Takes: topRequest{}, Gives: topAnswer{}, Refuses: ofVersion, Headers: says},
	{Methods: "POST", Paths: forms("/explain"), Serve: (*Server).explain, Summary: "What a prediction is made of",
		Takes: explainRequest{}, Gives: explainAnswer{}, Refuses: ofVersion, Headers: says},

	{Methods: "GET", Paths: "/v2", Serve: (*Server).serverMetadata, Summary: "The server, by the protocol",
		Gives: serverMetadata{}},
	{Methods: "GET", Paths: "/v2/health/live", Serve: (*Server).live, Summary: "Does the server run?",
		Gives: serverHealth{}},
	{Methods: "GET", Paths: "/v2/health/ready", Serve: (*Server).serverReady, Summary: "Has every model a champion?",
		Gives: serverHealth{}, With: []int{200, 503}},
	{Methods: "GET", Paths: v2 + " " + v2 + byVersion, Serve: (*Server).modelMetadata,
		Summary: "The tensors of a model", Gives: modelMetadata{}, Refuses: ofVersion, Headers: says},
	{Methods: "GET", Paths: v2 + "/ready " + v2 + byVersion + "/ready", Serve: (*Server).modelReady,
		Summary: "Can a model infer?", Gives: modelReadyAnswer{}, With: []int{200, 503}, Refuses: ofStore[:1],
		Headers: says},
	{Methods: "POST", Paths: v2 + "/infer " + v2 + byVersion + "/infer", Serve: (*Server).infer,
		Summary: "Predict tensors", Takes: tensor.InferRequest{}, Gives: inferResponse{}, Refuses: ofVersion,
		Params: []string{tensor.LengthHeader}, Headers: []string{versionHeader, tensor.LengthHeader}},
	{Methods: "POST", Paths: "/v2/repository/index", Serve: (*Server).repositoryIndex,
		Summary: "The models that there are, and whether they can infer", Takes: repositoryRequest{},
		Gives: []modelIndex{}},
}

// errLifecycle refuses what changes the daemon or a store unless it was switched on.
var errLifecycle error = request.Refuse(http.StatusForbidden,
	"endpoints that change something are off: start refitd run with --web.enable-lifecycle")

// patterns returns method and path of each form, as http.ServeMux takes them.
func (r *Route) patterns() (list []string) {
	for method := range strings.FieldsSeq(r.Methods) {
		for path := range strings.FieldsSeq(r.Paths) {
			list = append(list, method+" "+path)
		}
	}
	return list
}

// mux routes requests. What no route takes is answered as JSON, too.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for i := range Routes {
		route := &Routes[i]
		for _, pattern := range route.patterns() {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				err := errLifecycle
				if !route.Lifecycle || s.Lifecycle != nil {
					err = route.Serve(s, w, r)
				}
				if err != nil {
					s.failWith(w, r, err)
				}
			})
		}
	}
	if s.Profiling {
		addProfiles(mux)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isGRPC(r) {
			s.serveGRPC(w, r)
			return
		}
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		none := noRoute{header: w.Header()}
		h.ServeHTTP(&none, r) // sets the status and, for a wrong method, Allow
		switch none.status {
		case http.StatusMethodNotAllowed:
			request.Fail(w, none.status, r.Method+" is not served here, only "+w.Header().Get("Allow"))
		default:
			request.Fail(w, http.StatusNotFound, "nothing is served at this path: "+nearPaths(r.URL.Path))
		}
	})
}

// nearPaths says what is served below the first part of a path, or everything where nothing is.
func nearPaths(path string) string {
	var all, near []string
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	for _, route := range Routes {
		for _, p := range strings.Fields(route.Paths) {
			all = append(all, p)
			if first != "" && strings.HasPrefix(p, "/"+first+"/") {
				near = append(near, p)
			}
		}
	}
	if len(near) == 0 {
		near = all
	}
	return "there is " + strings.Join(near, ", ") + "; /openapi.json says what each of them is"
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

// openAPI serves configs/openapi.json, which describes the surface for programs.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, configs.OpenAPI)
	return nil
}

// cached returns the model that the path names.
func (s *Server) cached(r *http.Request) (*modelCache, error) {
	if found := s.caches[r.PathValue("model")]; found != nil {
		return found, nil
	}
	return nil, s.noModel()
}

// noModel is the error of a request for a model that there is not.
func (s *Server) noModel() error {
	names := make([]string, len(s.Models))
	for i, m := range s.Models {
		names[i] = m.Name
	}
	return request.Refuse(http.StatusNotFound, "there is no such model: there is "+strings.Join(names, ", "))
}
