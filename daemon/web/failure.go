package web

import (
	"errors"
	"net/http"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// failWith answers with an error of the store or of a request. What went wrong on this machine goes to the log, not to
// the client.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error) {
	if request.AnswerError(w, r, err) {
		return
	}
	switch {
	case errors.Is(err, snapshot.ErrName):
		request.Fail(w, http.StatusBadRequest,
			"a name has 1 to 64 small letters, digits, '.', '_' or '-', beginning with a letter or digit")
	case errors.Is(err, snapshot.ErrNotFound):
		request.Fail(w, http.StatusNotFound, s.noVersion(r.PathValue("model")))
	case errors.Is(err, snapshot.ErrInput):
		request.Fail(w, http.StatusBadRequest, report.WithoutPackages(err.Error()))
	case errors.Is(err, snapshot.ErrConflict):
		request.Fail(w, http.StatusConflict, "the alias was moved by another request")
	case errors.Is(err, snapshot.ErrExpired):
		request.Fail(w, http.StatusGone, "the version has expired")
	case errors.Is(err, snapshot.ErrSignature):
		s.Log.Error("version refused", "path", r.URL.Path, "error", err)
		request.Fail(w, http.StatusBadGateway,
			"the version or alias is not signed by a key that this daemon trusts; the log of refitd says more")
	case errors.Is(err, snapshot.ErrDigest), errors.Is(err, snapshot.ErrFormat), errors.Is(err, snapshot.ErrGolden):
		s.Log.Error("version refused", "path", r.URL.Path, "error", err)
		request.Fail(w, http.StatusBadGateway, "the version is damaged or of another format; the log of refitd says more")
	case r.Context().Err() != nil: // the client went away, or the daemon ends: nobody reads an answer
	default:
		s.Log.Error("request failed", "path", r.URL.Path, "error", err)
		request.Fail(w, http.StatusInternalServerError, "the request failed; the log of refitd says more")
	}
}
