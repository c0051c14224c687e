package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
)

// platform names the kind of model in its metadata.
const platform = "refitd_interaction"

// modelMetadata is the answer about a model. The identity is an addition to the protocol.
type modelMetadata struct {
	Name     string                  `json:"name"`     // of the model
	Versions []string                `json:"versions"` // numbers, oldest first
	Platform string                  `json:"platform"` // refitd_interaction
	Inputs   []tensor.TensorMetadata `json:"inputs"`   // one for each field of the schema
	Outputs  []tensor.TensorMetadata `json:"outputs"`  // what an answer has
	answered
}

// serverMetadata names the program.
type serverMetadata struct {
	Name       string   `json:"name"`       // refitd
	Version    string   `json:"version"`    // of the program
	Extensions []string `json:"extensions"` // binary_tensor_data
}

// extensions are those of the protocol that are served whole. Of model_repository there is the index alone.
var extensions = []string{"binary_tensor_data"}

// serverMetadata answers with the name and version of the program.
func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	return request.Answer(w, http.StatusOK, serverMetadata{"refitd", s.Version, extensions})
}

// serverHealth is the answer to both health requests: the protocol's own page names the field of readiness "live", its
// servers "ready".
type serverHealth struct {
	Live  bool `json:"live"`  // true
	Ready bool `json:"ready"` // every model has a champion
}

// live answers that the server runs, and whether it could infer.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	return request.Answer(w, http.StatusOK, serverHealth{Live: true, Ready: s.allServed()})
}

// serverReady answers whether every model has a champion to infer with.
func (s *Server) serverReady(w http.ResponseWriter, _ *http.Request) error {
	h, status := serverHealth{Live: true, Ready: s.allServed()}, http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	return request.Answer(w, status, h)
}

// allServed reports whether every model has a champion to infer with.
func (s *Server) allServed() bool {
	for _, cache := range s.caches {
		if cache.champion() == nil {
			return false
		}
	}
	return true
}

// modelReadyAnswer says whether a version of a model can infer. The identity is an addition to the protocol.
type modelReadyAnswer struct {
	Name      string `json:"name"`  // of the model
	Ready     bool   `json:"ready"` // the version, or a champion, can be loaded
	*identity        // of a version that can; the live model has none
}

// modelReady answers whether the champion, or the version of the path, can infer.
func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	answer, status := modelReadyAnswer{Name: cache.Name}, http.StatusOK
	v, err := s.chosen(r)
	if _, bad := errors.AsType[*request.Error](err); bad { // no version has such a number
		return err
	} else if err != nil {
		status = http.StatusServiceUnavailable
	} else {
		w.Header().Set(versionHeader, v.header)
		answer.Ready = true
		if at := v.answered(); at.Live == nil {
			answer.identity = &identity{at.Model, at.Version, at.Digest}
		}
	}
	return request.Answer(w, status, answer)
}

// modelMetadata answers with the input and output tensors of the champion, or of the version of the path.
func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	versions, err := cache.Store.Versions(cache.Name)
	if err != nil {
		return err
	}
	m := modelMetadata{
		Name:     cache.Name,
		Versions: []string{},
		Platform: platform,
		Inputs:   tensor.Inputs(v.model.Schema()),
		Outputs:  tensor.Outputs(v.model),
		answered: v.answered(),
	}
	for _, n := range versions {
		m.Versions = append(m.Versions, strconv.FormatInt(n, 10))
	}
	w.Header().Set(versionHeader, v.header)
	return request.Answer(w, http.StatusOK, m)
}

// repositoryRequest asks which models there are. A request without a body is one, too.
type repositoryRequest struct {
	Ready bool `json:"ready,omitzero"` // only those that can infer
}

// modelIndex is a model of the index.
type modelIndex struct {
	Name    string `json:"name"`    // of the model
	Version string `json:"version"` // of its champion, empty without
	State   string `json:"state"`   // READY, or UNAVAILABLE without a champion
	Reason  string `json:"reason"`  // of UNAVAILABLE
}

// repositoryIndex answers with the models of the configuration and their champions. Models are loaded and unloaded by
// no request: the configuration says which there are, and PUT /v1/models/{model}/aliases/champion which version they
// infer with.
func (s *Server) repositoryIndex(w http.ResponseWriter, r *http.Request) error {
	var ask repositoryRequest
	if r.ContentLength != 0 {
		if err := request.ReadJSON(r, &ask); err != nil {
			return err
		}
	}
	return request.Answer(w, http.StatusOK, s.index(ask.Ready))
}

// index returns the models, those without a champion unless only ready ones are asked for.
func (s *Server) index(ready bool) []modelIndex {
	list := []modelIndex{}
	for _, m := range s.Models {
		one := modelIndex{Name: m.Name, State: "READY"}
		if v := s.caches[m.Name].champion(); v != nil {
			one.Version = v.header
		} else if one.State, one.Reason = "UNAVAILABLE", "no champion yet"; ready {
			continue
		}
		list = append(list, one)
	}
	return list
}
