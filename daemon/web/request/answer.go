package request

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
)

// Failure is the answer to a request that cannot be met.
type Failure struct {
	Error string `json:"error"` // what is wrong and, where that is known, what to write instead

	// Of an event that is none:
	Reason   event.Reason `json:"reason,omitempty"`   // one of the reasons of rejections
	Field    string       `json:"field,omitempty"`    // of the schema that the reason is about
	Expected string       `json:"expected,omitempty"` // what may be there
	Got      string       `json:"got,omitempty"`      // the kind of what was there
}

// Fail answers with a status and a Failure.
func Fail(w http.ResponseWriter, status int, text string) {
	_ = Answer(w, status, Failure{Error: report.WithoutPackages(text)})
}

// Answer writes v as JSON and returns nil, for a handler to end with: a client that has gone needs no answer, so the
// error of the write says nothing.
func Answer(w http.ResponseWriter, status int, v any) error {
	status, b := Encoded(status, v)
	Send(w, status, b)
	return nil
}

// Send writes an answer that is JSON already. It may write to the memory behind b.
func Send(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// Encoded returns an answer as JSON, and its status, which is 500 if v cannot be encoded.
func Encoded(status int, v any) (int, []byte) {
	b, err := json.Marshal(v)
	if err != nil { // a type of this package cannot be encoded
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	return status, b
}

// Error is what is wrong with a request, with the status that says so.
type Error struct {
	Status int    // of HTTP
	Text   string // for the client
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Refuse returns an *Error.
func Refuse(status int, text string) error { return &Error{status, text} }

// BadRequest refuses a request that is wrong in itself, with 400.
func BadRequest(format string, args ...any) error {
	return Refuse(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// RejectedError says which event of a request is none, and why.
type RejectedError struct {
	where string
	*event.Rejection
}

// Error names the event and what is wrong with it.
func (e *RejectedError) Error() string { return e.where + ": " + e.String() }

// Rejected returns a *RejectedError. where names the event: its member of the request, and its place there.
func Rejected(where string, r *event.Rejection) error { return &RejectedError{where, r} }

// AnswerError answers with an *Error or a *RejectedError, and reports whether err is one.
func AnswerError(w http.ResponseWriter, r *http.Request, err error) bool {
	if bad, ok := errors.AsType[*Error](err); ok {
		if bad.Status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		if in, ok := r.Body.(*Inflight); ok && !in.whole {
			w.Header().Set("Connection", "close") // the rest is not waited for
		}
		Fail(w, bad.Status, bad.Text)
		return true
	}
	if e, ok := errors.AsType[*RejectedError](err); ok {
		_ = Answer(w, http.StatusBadRequest, Failure{e.Error(), e.Reason, e.Field, e.Expected, e.Got})
		return true
	}
	return false
}

// ReadJSON decodes a body strictly: one value, no unknown and no repeated names, UTF-8. What it becomes has been taken
// from the budget before. Its errors are an *Error.
func ReadJSON(r *http.Request, v any, options ...jsonv2.Options) error {
	in := InflightOf(r)
	body, err := in.ReadPlain()
	if err != nil {
		return err
	}
	return DecodeJSON(in, body, v, options...)
}

// DecodeJSON is ReadJSON for a body, or the part of one, that has been read.
func DecodeJSON(in *Inflight, body []byte, v any, options ...jsonv2.Options) error {
	if err := in.growFor(body); err != nil {
		return err
	}
	return Unmarshal("the body", body, v, append(options, jsonv2.RejectUnknownMembers(true))...)
}

// Unmarshal decodes a part of a request. Its errors are an *Error, which says of which part and where what is wrong.
func Unmarshal(part string, text []byte, v any, options ...jsonv2.Options) error {
	if !utf8.Valid(text) {
		return BadRequest("%s is not UTF-8", part)
	}
	err := jsonv2.Unmarshal(text, v, append(options, event.HalfPairs)...)
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*Error](err); ok {
		return bad
	}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		reason := "has another type than asked for"
		if errors.Is(err, jsonv2.ErrUnknownName) {
			reason = "is not known"
		}
		return BadRequest("%s: %s %s", part, cmpPointer(string(semantic.JSONPointer)), reason)
	}
	return BadRequest("%s is not one JSON value: %v", part, err)
}

// cmpPointer names the place of a value for people.
func cmpPointer(pointer string) string {
	if pointer == "" {
		return "the value"
	}
	return strconv.Quote(pointer)
}
