package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// failure is the answer to a request that cannot be met.
type failure struct {
	Error string `json:"error"` // what is wrong and, where that is known, what to write instead

	// Of an event that is none:
	Reason   event.Reason `json:"reason,omitempty"`   // one of the reasons of rejections
	Field    string       `json:"field,omitempty"`    // of the schema that the reason is about
	Expected string       `json:"expected,omitempty"` // what may be there
	Got      string       `json:"got,omitempty"`      // the kind of what was there
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, text string) {
	_ = answer(w, status, failure{Error: report.WithoutPackages(text)})
}

// answer writes v as JSON and returns nil, for a handler to end with: a client that has gone needs no answer, so the
// error of the write says nothing.
func answer(w http.ResponseWriter, status int, v any) error {
	status, b := encoded(status, v)
	send(w, status, b)
	return nil
}

// send writes an answer that is JSON.
func send(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// sendWithTail writes an answer that is JSON and what follows it.
func sendWithTail(w http.ResponseWriter, text, tail []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(inferenceHeader, strconv.Itoa(len(text)))
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+len(tail)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(text, tail...))
}

// encoded returns an answer as JSON.
func encoded(status int, v any) (int, []byte) {
	b, err := json.Marshal(v)
	if err != nil { // a type of this package cannot be encoded
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	return status, b
}

// requestError is what is wrong with a request, with the status that says so.
type requestError struct {
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// A rejectedError says which event of a request is none, and why.
type rejectedError struct {
	where string
	*event.Rejection
}

func (e *rejectedError) Error() string { return e.where + ": " + e.String() }

// failWith answers with an error of the store or of a request. What went wrong on this machine goes to the log, not to
// the client.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error) {
	if bad, ok := errors.AsType[*requestError](err); ok {
		if bad.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		if in, ok := r.Body.(*inflight); ok && !in.whole {
			w.Header().Set("Connection", "close") // the rest is not waited for
		}
		fail(w, bad.status, bad.text)
		return
	}
	if e, ok := errors.AsType[*rejectedError](err); ok {
		_ = answer(w, http.StatusBadRequest, failure{e.Error(), e.Reason, e.Field, e.Expected, e.Got})
		return
	}
	switch {
	case errors.Is(err, snapshot.ErrName):
		fail(w, http.StatusBadRequest,
			"a name has 1 to 64 small letters, digits, '.', '_' or '-', beginning with a letter or digit")
	case errors.Is(err, snapshot.ErrNotFound):
		fail(w, http.StatusNotFound, s.noVersion(r.PathValue("model")))
	case errors.Is(err, snapshot.ErrInput):
		fail(w, http.StatusBadRequest, "an event has a number too large to be scored")
	case errors.Is(err, snapshot.ErrConflict):
		fail(w, http.StatusConflict, "the alias was moved by another request")
	case errors.Is(err, snapshot.ErrExpired):
		fail(w, http.StatusGone, "the version has expired")
	case errors.Is(err, snapshot.ErrSignature):
		s.Log.Error("version refused", "path", r.URL.Path, "error", err)
		fail(w, http.StatusBadGateway,
			"the version or alias is not signed by a key that this daemon trusts; the log of refitd says more")
	case errors.Is(err, snapshot.ErrDigest), errors.Is(err, snapshot.ErrFormat), errors.Is(err, snapshot.ErrGolden):
		s.Log.Error("version refused", "path", r.URL.Path, "error", err)
		fail(w, http.StatusBadGateway, "the version is damaged or of another format; the log of refitd says more")
	case r.Context().Err() != nil: // the client went away, or the daemon ends: nobody reads an answer
	default:
		s.Log.Error("request failed", "path", r.URL.Path, "error", err)
		fail(w, http.StatusInternalServerError, "the request failed; the log of refitd says more")
	}
}

// readJSON decodes a body strictly: one value, no unknown and no repeated names, UTF-8. What it becomes has been taken
// from the budget before.
func readJSON(r *http.Request, v any, options ...jsonv2.Options) error {
	in := inflightOf(r)
	body, err := in.readPlain()
	if err != nil {
		return err
	}
	return decodeJSON(in, body, v, options...)
}

// decodeJSON is readJSON for a body, or the part of one, that has been read.
func decodeJSON(in *inflight, body []byte, v any, options ...jsonv2.Options) error {
	if err := in.growFor(body); err != nil {
		return err
	}
	return unmarshal("the body", body, v, append(options, jsonv2.RejectUnknownMembers(true))...)
}

// unmarshal decodes a part of a request, and says of which part and where what is wrong.
func unmarshal(part string, text []byte, v any, options ...jsonv2.Options) error {
	if !utf8.Valid(text) {
		return badRequest("%s is not UTF-8", part)
	}
	err := jsonv2.Unmarshal(text, v, append(options, event.HalfPairs)...)
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*requestError](err); ok {
		return bad
	}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		reason := "has another type than asked for"
		if errors.Is(err, jsonv2.ErrUnknownName) {
			reason = "is not known"
		}
		return badRequest("%s: %s %s", part, cmpPointer(string(semantic.JSONPointer)), reason)
	}
	return badRequest("%s is not one JSON value: %v", part, err)
}

// cmpPointer names the place of a value for people.
func cmpPointer(pointer string) string {
	if pointer == "" {
		return "the value"
	}
	return strconv.Quote(pointer)
}
