package web

import (
	"fmt"
	"net/http"
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready   bool             `json:"ready"`
	Reasons []string         `json:"reasons"`
	Models  []modelReadiness `json:"models"`
}

// modelReadiness says which version a model has, or why it has none. That does not make the daemon unready.
type modelReadiness struct {
	Model   string `json:"model"`
	Version *int64 `json:"version"`
	Reason  string `json:"reason,omitempty"`
}

// healthy answers that the process runs: neither Kafka, nor the disk, nor a model can make it ill.
func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "refitd is healthy.")
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	out := readiness{Reasons: s.Daemon.NotReady(), Models: []modelReadiness{}}
	for _, m := range s.Daemon.Status().Models {
		one := modelReadiness{Model: m.Name, Reason: m.Waiting}
		if m.Champion != nil {
			one.Version = &m.Champion.Version
		}
		out.Models = append(out.Models, one)
	}
	status := http.StatusServiceUnavailable
	if len(out.Reasons) == 0 {
		out.Ready, out.Reasons, status = true, []string{}, http.StatusOK
	}
	answer(w, status, out)
}

// lifecycle refuses what changes the daemon or a store unless it was switched on.
func (s *Server) lifecycle(w http.ResponseWriter) bool {
	if s.Lifecycle == nil {
		fail(w, http.StatusForbidden, "endpoints that change something are off: start refitd run with --web.enable-lifecycle")
		return false
	}
	return true
}

// done is the answer to a change that was made or will be.
type done struct {
	Done bool `json:"done"`
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	if !s.lifecycle(w) {
		return
	}
	if err := s.Lifecycle.Reload(r.Context()); err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, http.StatusOK, done{true})
}

// refit asks for a refit of the model that the query names, or of all.
func (s *Server) refit(w http.ResponseWriter, r *http.Request) {
	if !s.lifecycle(w) {
		return
	}
	named := r.URL.Query().Get("model")
	if _, ok := s.shelves[named]; named != "" && !ok {
		fail(w, http.StatusNotFound, "there is no such model")
		return
	}
	for _, m := range s.Models {
		if named != "" && named != m.Name {
			continue
		}
		if err := s.Lifecycle.Refit(m.Name); err != nil {
			s.failWith(w, r, err)
			return
		}
	}
	answer(w, http.StatusAccepted, done{true})
}
