package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// liveVersion is the name of the live model in place of a version's number.
const liveVersion = "live"

// answered names what answered and says how old it is. It is part of every answer that a model gives.
type answered struct {
	Model   string `json:"model"`
	Version int64  `json:"version"` // of the model; 0 is the live model
	// payload digest of the version: of everything that its scores depend on; empty of the live model
	Digest string `json:"digest"`
	// Delta is how many of the version's deltas are applied; 0 is the version as it was published.
	Delta int64 `json:"delta"`
	// of the last of them, which vouches for those before it; absent without any
	DeltaDigest string `json:"delta_digest,omitempty"`
	// since the version or its last delta was made, by the clock of who made it
	AgeSeconds report.Number `json:"age_seconds"`
	Watermark  *time.Time    `json:"event_time_watermark"` // newest event time that it knows; null where that is not known
	Live       *unpublished  `json:"live,omitempty"`       // of the live model; absent of versions
	// LiveHeldBack is why the champion answers in place of the live model: window, held_out or outputs. Absent where
	// what was asked for answers.
	LiveHeldBack string `json:"live_held_back,omitempty"`
}

// HeldBackError says that the guard of updates holds the live model back: consumers are better off with what they have.
type HeldBackError struct{ Reason string }

func (e *HeldBackError) Error() string { return "the live model is held back: " + e.Reason }

// unpublished says what nobody vouches for in a model that was never published.
type unpublished struct {
	Signed bool `json:"signed"` // false
	Gated  bool `json:"gated"`  // false: it was not compared with the champion
}

// answered returns what an answer that is given now says of the model.
func (s *scorer) answered() answered {
	at := s.model.Position()
	a := answered{Model: s.manifest.Model, Version: at.Version, Digest: s.manifest.PayloadDigest, Delta: at.Sequence,
		AgeSeconds: report.Number(max(time.Since(at.Created), 0).Seconds()), LiveHeldBack: s.inPlaceOfLive}
	if at.Sequence > 0 {
		a.DeltaDigest = at.Digest
	}
	if !at.Watermark.IsZero() {
		a.Watermark = &at.Watermark
	}
	if s.header == liveVersion {
		a.Version, a.Digest, a.Delta, a.DeltaDigest, a.Live = 0, "", 0, "", &unpublished{}
	}
	return a
}

// live returns the live model, if the configuration offers it and there is one, or the champion where the live model is
// held back.
func (s *modelCache) live() (*scorer, error) {
	var m *snapshot.Model
	var err error
	if s.Live != nil {
		m, err = s.Live()
	}
	var heldBack *HeldBackError
	switch {
	case errors.As(err, &heldBack):
		c, err := s.alias(pointer.Champion)
		if err != nil {
			return nil, err
		}
		in := *c
		in.inPlaceOfLive = heldBack.Reason
		return &in, nil
	case err != nil:
		return nil, err
	case m == nil:
		return nil, request.Refuse(http.StatusNotFound, "version live is not offered: set serve.live: true for this model")
	}
	v := s.lastLive.Load()
	if v == nil || v.model != m {
		v = newScorer(m, s.Derive)
		v.manifest.Model, v.header = s.Name, liveVersion
		s.lastLive.Store(v)
	}
	return v, nil
}
