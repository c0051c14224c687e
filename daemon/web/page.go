package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// statusFor is how long a status is kept for the next request: looking at it costs the models a walk over their
// windows.
const statusFor = time.Second

// recent returns a status that is less than statusFor old.
func (s *Server) recent() *statuspage.Status {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.seen == nil || time.Since(s.looked) >= statusFor {
		state := s.Daemon.Status()
		s.seen, s.looked = &state, time.Now()
	}
	return s.seen
}

// view returns a status with what this surface knows in addition.
func (s *Server) view(state *statuspage.Status) *statuspage.View {
	v := &statuspage.View{Status: state, Version: s.Version, Lifecycle: s.Lifecycle != nil,
		Sources: make(map[string]statuspage.Source)}
	for name, cache := range s.caches {
		v.Sources[name] = statuspage.Source{Serving: cache.status, Curves: cache.Curves, Calibration: cache.Calibration}
	}
	return v
}

// status is a page that shows what an operator wants to know. Names, topics and errors come from outside; the template
// escapes all of them.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) error {
	state := s.Daemon.Status()
	page, err := s.view(&state).Page()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // a client that has gone needs no answer
	return nil
}

// serveAsset answers with a file of the status page.
func serveAsset(w http.ResponseWriter, r *http.Request, a *statuspage.Asset) error {
	w.Header().Set("Content-Type", a.Media)
	w.Header().Set("Cache-Control", "no-cache") // kept, and asked for again each time
	w.Header().Set("ETag", a.ETag)
	if matches(r, a.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	_, _ = w.Write(a.Content) // a client that has gone needs no answer
	return nil
}

// style serves the style sheet of the status page.
func (*Server) style(w http.ResponseWriter, r *http.Request) error {
	return serveAsset(w, r, statuspage.StyleSheet)
}

// script serves the program of the status page, which draws what it reads at /v1/stream.
func (*Server) script(w http.ResponseWriter, r *http.Request) error {
	return serveAsset(w, r, statuspage.Script)
}

// icon serves the icon of the status page.
func (*Server) icon(w http.ResponseWriter, r *http.Request) error {
	return serveAsset(w, r, statuspage.Icon)
}

// showStatus answers with what the status page shows: the daemon, what is wrong with it, and a line for each model. It
// is at most a second old.
func (s *Server) showStatus(w http.ResponseWriter, _ *http.Request) error {
	return request.Answer(w, http.StatusOK, s.view(s.recent()).Overview())
}

// showState answers with what the status page shows of one model. It is at most a second old.
func (s *Server) showState(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	state := s.view(s.recent()).ModelState(cache.Name)
	if state == nil {
		return s.noModel()
	}
	return request.Answer(w, http.StatusOK, state)
}

// showCurves answers with how a model has done over time: window losses, lag, versions, drift. Points stand the closer
// the newer they are. With ?after=T those from after T, in milliseconds since 1970.
func (s *Server) showCurves(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	after, err := countOf(r, "after")
	if err != nil {
		return err
	}
	return request.Answer(w, http.StatusOK, cache.past().Since(after))
}

// runbook serves what an alert means, what to look at and what to do, from the runbook of this build.
func (*Server) runbook(w http.ResponseWriter, r *http.Request) error {
	_, rest, ok := strings.Cut(configs.Runbook, "\n## "+r.PathValue("alert")+"\n")
	if !ok {
		return request.Refuse(http.StatusNotFound, "the runbook has no alert of that name")
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(strings.TrimSpace(text) + "\n")) // a client that has gone needs no answer
	return nil
}
