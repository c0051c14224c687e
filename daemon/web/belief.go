package web

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/diff"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// belief is what a version has learned.
type belief struct {
	answered
	Belief *report.Belief `json:"belief"` // interactions, basis, sizes
	// of the fields, by how much they move predictions of the golden events; largest first
	Relevance []report.FieldRelevance `json:"relevance"`
}

// entity is what a version knows of a name.
type entity struct {
	answered
	report.Entity
}

// look does what costs the processor up to seconds, for one request at a time.
func (s *Server) look(r *http.Request, f func() error) error {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
		return f()
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// showBelief answers with what a version has learned: the largest interactions by name, the use of its basis, how much
// each field counts.
func (s *Server) showBelief(w http.ResponseWriter, r *http.Request) error {
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, v.header)
	return s.look(r, func() error {
		b := v.learned.Load()
		if b == nil {
			b = &belief{Belief: diff.Believes(v.model), Relevance: diff.Relevance(v.model)}
			v.learned.Store(b)
		}
		return request.Answer(w, http.StatusOK, belief{v.answered(), b.Belief, b.Relevance})
	})
}

// showEntity answers with what a version knows of the name of an entity: what it adds alone, and with whom it
// interacts. Of one that it does not know it has names that begin alike.
func (s *Server) showEntity(w http.ResponseWriter, r *http.Request) error {
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, v.header)
	return s.look(r, func() error {
		q := r.URL.Query()
		e, err := diff.Entity(v.model, q.Get("field"), q.Get("name"))
		if errors.Is(err, diff.ErrNoField) {
			return request.BadRequest("field is none of the categorical and list fields of the version")
		}
		if err != nil {
			return err
		}
		return request.Answer(w, http.StatusOK, entity{v.answered(), *e})
	})
}

// nameList is names that a version knows.
type nameList struct {
	answered
	Field string   `json:"field"` // whose names they are
	Names []string `json:"names"` // in the order of the vocabulary
}

// maxNames is how many names are listed at most. Chosen by hand: more than a person looks through.
const maxNames = 100

// showNames answers with names of a field that a version knows and that begin with ?prefix: 20 of them, or ?limit, at
// most 100.
func (s *Server) showNames(w http.ResponseWriter, r *http.Request) error {
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	limit, err := countOf(r, "limit")
	if err != nil {
		return err
	}
	if limit > maxNames {
		return request.BadRequest("limit is a whole number up to %d", maxNames)
	}
	w.Header().Set(versionHeader, v.header)
	q := r.URL.Query()
	names, err := diff.Names(v.model, q.Get("field"), q.Get("prefix"), int(cmp.Or(limit, 20)))
	if err != nil {
		return request.BadRequest("field is none of the categorical and list fields of the version")
	}
	return request.Answer(w, http.StatusOK, nameList{v.answered(), q.Get("field"), names})
}

// showDiff answers with how a version differs from another of its model, ?with, or from the one that it started from.
func (s *Server) showDiff(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	version, err := versionOf(r)
	if err != nil {
		return err
	}
	with, err := countOf(r, "with")
	if err != nil {
		return err
	}
	b, err := cache.version(version)
	if err != nil {
		return err
	}
	if with == 0 {
		if b.manifest.Parent == nil {
			return request.BadRequest("the version started from none: name the one to compare it with as with")
		}
		with = *b.manifest.Parent
	}
	a, err := cache.version(with)
	if err != nil {
		return err
	}
	w.Header().Set(versionHeader, b.header)
	return s.look(r, func() error {
		d, err := diff.Between(a.model, b.model, fitted.VersionOf)
		if errors.Is(err, diff.ErrIncomparable) {
			return request.Refuse(http.StatusConflict,
				"the versions predict different things or of other fields: they cannot be compared")
		}
		if err != nil {
			return err
		}
		return request.Answer(w, http.StatusOK, d)
	})
}

// versionSummary is what a list says of a version in addition to its identity.
type versionSummary struct {
	Kind         string             `json:"kind"`                  // refit or update
	Parent       *int64             `json:"parent"`                // version that it started from; null for the first
	Reason       string             `json:"reason"`                // of the decision
	K            int                `json:"k"`                     // basis vectors
	Features     int                `json:"features"`              // columns
	Rows         int64              `json:"rows"`                  // trained on
	Bytes        int64              `json:"bytes"`                 // of its files
	Gate         *format.Metrics    `json:"gate"`                  // on the rows that judge; null without any
	ChampionGate *format.Metrics    `json:"champion_gate"`         // of the champion on the same rows; null without one
	GateSlices   []format.GateSlice `json:"gate_slices,omitempty"` // by whether the entity is known; absent without any
}

func summaryOf(m *snapshot.Manifest) *versionSummary {
	return &versionSummary{
		Kind:         m.Kind,
		Parent:       m.Parent,
		Reason:       m.Reason,
		K:            m.NumBasis,
		Features:     m.NumFeatures,
		Rows:         m.Rows,
		Bytes:        m.Size(),
		Gate:         m.Gate,
		ChampionGate: m.ChampionGate,
		GateSlices:   m.GateSlices,
	}
}
