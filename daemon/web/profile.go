package web

import (
	"github.com/refitd/refitd/daemon/web/request"
	"net/http"
	"net/http/pprof"
	"strings"
)

// addProfiles routes to what net/http/pprof has: an index, profiles by name, and those that take as many seconds as
// ?seconds says, less than writeTimeout. They describe the program, not its data: the command line and the look-up of
// symbols, which no tool of today asks for, are left out.
func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{profile...}", func(w http.ResponseWriter, r *http.Request) {
		switch name := r.PathValue("profile"); {
		case name == "profile":
			pprof.Profile(w, r)
		case name == "trace":
			pprof.Trace(w, r)
		case name == "cmdline" || name == "symbol" || strings.Contains(name, "/"):
			request.Fail(w, http.StatusNotFound, "nothing is served at this path")
		default:
			pprof.Index(w, r) // an unknown name is not found
		}
	})
}
