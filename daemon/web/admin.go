package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready bool `json:"ready"` // every model is ready, or the one that was asked for
	// those of all models, each with the name of its model; empty if they are ready
	Reasons []string         `json:"reasons"`
	Models  []modelReadiness `json:"models"` // in the order of the configuration
}

// modelReadiness says whether a model does its work, and which version it has, or why it has none. Not to have one yet
// does not make it unready.
type modelReadiness struct {
	Model   string   `json:"model"`
	Ready   bool     `json:"ready"`             // there is no reason against it
	Reasons []string `json:"reasons"`           // why it is not ready, empty if it is
	Version *int64   `json:"version"`           // the champion; null before the first version
	Reason  string   `json:"reason,omitempty"`  // why there is no version
	Standby string   `json:"standby,omitempty"` // who trains in place of this process; absent if it does
	// how far a model is that is behind its log and learns live from a share of the events; absent if it is not
	CatchingUp string `json:"catching_up,omitempty"`
	// partitions that wait, as for a schema, and are read on without an operator; absent without any
	Paused []report.Paused `json:"paused,omitempty"`
}

// healthy answers that the process runs: neither Kafka, nor the disk, nor a model can make it ill.
func (*Server) healthy(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "refitd is healthy.")
	return nil
}

// ready answers whether each model, or the one that the query names, does its work: it is fed, and consumers get what
// it learns. It is not ready while its brokers cannot be reached or all of its partitions have halted, while its disk
// is full, when the version that consumers have has expired, when the store of versions is lost or did not take the
// last one, and when its refits end without a first version. A model that is too young to have one is ready.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	named, some := r.URL.Query().Get("model"), r.URL.Query().Has("model")
	if _, ok := s.caches[named]; some && !ok {
		return s.noModel()
	}
	state := s.Daemon.Status()
	if some {
		state.Models = slices.DeleteFunc(state.Models, func(m statuspage.ModelStatus) bool { return m.Name != named })
	}
	out := readiness{Reasons: append([]string{}, state.NotReady()...), Models: []modelReadiness{}}
	for _, m := range state.Models {
		one := modelReadiness{
			Model:   m.Name,
			Ready:   len(m.NotReady) == 0,
			Reasons: []string{},
			Reason:  m.Waiting,
			Standby: m.Standby, CatchingUp: m.CatchingUp,
		}
		for _, reason := range m.NotReady {
			one.Reasons = append(one.Reasons, reason.Text)
		}
		for _, p := range m.Partitions {
			if p.Paused != "" {
				one.Paused = append(one.Paused, report.Paused{Topic: p.Topic, Partition: p.Partition, Reason: p.Paused})
			}
		}
		if m.Champion != nil {
			one.Version = &m.Champion.Version
		}
		out.Models = append(out.Models, one)
	}
	status := http.StatusServiceUnavailable
	if out.Ready = len(out.Reasons) == 0; out.Ready {
		status = http.StatusOK
	}
	return request.Answer(w, status, out)
}

// readyStatus answers a probe with the status of ready. Probes have no password, so the answer has neither reasons nor
// names of models.
func (s *Server) readyStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(s.Daemon.Status().NotReady()) == 0 {
		fmt.Fprintln(w, "refitd is ready.")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, "refitd is not ready: GET /-/ready of web.listen_address says why.")
}

// done is the answer to a change that was made or will be.
type done struct {
	Done bool `json:"done"` // true
}

// reload takes up the configuration file as SIGHUP does: all of it or, with 422 and the reason, nothing.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	if err := s.Lifecycle.Reload(r.Context()); err != nil {
		return request.Refuse(http.StatusUnprocessableEntity, err.Error())
	}
	return request.Answer(w, http.StatusOK, done{true})
}

// refit asks for a refit of the model that the query names, or of all, with 409 where another process does that.
func (s *Server) refit(w http.ResponseWriter, r *http.Request) error {
	named, some := r.URL.Query().Get("model"), r.URL.Query().Has("model")
	if _, ok := s.caches[named]; some && !ok {
		return s.noModel()
	}
	for _, m := range s.Models {
		if some && named != m.Name {
			continue
		}
		if err := s.Lifecycle.Refit(m.Name); err != nil {
			return request.Refuse(http.StatusConflict, err.Error())
		}
	}
	return request.Answer(w, http.StatusAccepted, done{true})
}
