package web

import (
	"fmt"
	"net/http"
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready   bool             `json:"ready"`   // there is no reason against it
	Reasons []string         `json:"reasons"` // why the daemon is not ready, empty if it is
	Models  []modelReadiness `json:"models"`  // in the order of the configuration
}

// modelReadiness says which version a model has, or why it has none. That does not make the daemon unready.
type modelReadiness struct {
	Model   string `json:"model"`
	Version *int64 `json:"version"`          // the champion; null before the first version
	Reason  string `json:"reason,omitempty"` // why there is no version
}

// healthy answers that the process runs: neither Kafka, nor the disk, nor a model can make it ill.
func (*Server) healthy(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "refitd is healthy.")
	return nil
}

// ready answers whether the daemon does its work, which a model without a version does not decide.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
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
	return answer(w, status, out)
}

// done is the answer to a change that was made or will be.
type done struct {
	Done bool `json:"done"` // true
}

// reload takes up the configuration file as SIGHUP does: all of it or, with 422 and the reason, nothing.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	if err := s.Lifecycle.Reload(r.Context()); err != nil {
		return &requestError{http.StatusUnprocessableEntity, err.Error()}
	}
	return answer(w, http.StatusOK, done{true})
}

// refit asks for a refit of the model that the query names, or of all.
func (s *Server) refit(w http.ResponseWriter, r *http.Request) error {
	named, some := r.URL.Query().Get("model"), r.URL.Query().Has("model")
	if _, ok := s.caches[named]; some && !ok {
		return &requestError{http.StatusNotFound, "there is no such model"}
	}
	for _, m := range s.Models {
		if some && named != m.Name {
			continue
		}
		if err := s.Lifecycle.Refit(m.Name); err != nil {
			return err
		}
	}
	return answer(w, http.StatusAccepted, done{true})
}
