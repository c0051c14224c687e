// Package session is what the WebAssembly module of refitd does: it opens versions whose files the host hands over, and
// answers questions about them in JSON.
//
// It neither fetches files nor waits for new versions: the host does, as it knows its network and its clock. It trusts
// neither: whatever comes is verified as package verify does. A Session belongs to one goroutine at a time.
//
//	session.go   Session, Call: the table of operations; errors by name
//	versions.go  aliases, files, versions, deltas
//	ask.go       predictions, top lists, explanations, histories
package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// predictor is a version, or a version with a history.
type predictor interface {
	Predict(in *format.Input) (answer.Prediction, error)
	Explain(in *format.Input) (scorer.Explanation, error)
	TopK(dst []format.Item, q *format.Query, s *scorer.Scratch) ([]format.Item, error)
}

// opened is a version that the host has a handle of.
type opened struct {
	model     *scorer.Model
	predictor predictor
	scratch   scorer.Scratch
}

// Session has the versions that are open. The zero value is not ready: use New.
type Session struct {
	open map[int64]*opened
	last int64 // handle that was given out
}

// New returns a session without versions.
func New() *Session { return &Session{open: make(map[int64]*opened)} }

// operation answers one kind of request. parts are the binary parts that follow it.
type operation func(s *Session, ask []byte, parts [][]byte) (any, error)

// operations are all that there are, by name.
var operations = map[string]operation{
	"alias":   on((*Session).alias),
	"files":   on((*Session).files),
	"load":    on((*Session).load),
	"apply":   on((*Session).apply),
	"predict": on((*Session).predict),
	"topk":    on((*Session).topK),
	"explain": on((*Session).explain),
	"fold":    on((*Session).fold),
	"digest":  on((*Session).digest),
	"close":   on((*Session).close),
}

// on reads the request of an operation.
func on[T any](do func(s *Session, ask *T, parts [][]byte) (any, error)) operation {
	return func(s *Session, text []byte, parts [][]byte) (any, error) {
		var ask T
		if err := decode(text, &ask); err != nil {
			return nil, fmt.Errorf("%w: request: %v", disk.ErrInput, err)
		}
		return do(s, &ask, parts)
	}
}

// decode keeps whole numbers of any size, which may be names.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// Request is what the host writes before the binary parts.
type Request struct {
	Operation string          `json:"op"`
	Ask       json.RawMessage `json:"ask"`
	Parts     []int           `json:"parts"` // bytes of each
}

// Refusal says why there is no answer.
type Refusal struct {
	Name string `json:"name"` // of the error, the same as in Python
	Text string `json:"text"`
}

// response is what the host reads: one of the two.
type response struct {
	Answer any      `json:"answer,omitempty"`
	Error  *Refusal `json:"error,omitempty"`
}

// Call answers a request in JSON. Models may keep parts, so that the host must not write to them afterwards.
func (s *Session) Call(header, parts []byte) []byte {
	answer, err := s.call(header, parts)
	out := response{Answer: answer}
	if err != nil {
		out = response{Error: &Refusal{nameOf(err), err.Error()}}
	}
	b, err := json.Marshal(out)
	if err != nil { // of an answer that JSON cannot say
		b, _ = json.Marshal(response{Error: &Refusal{nameOf(err), err.Error()}}) // two texts
	}
	return b
}

func (s *Session) call(header, rest []byte) (any, error) {
	var r Request
	if err := json.Unmarshal(header, &r); err != nil {
		return nil, fmt.Errorf("%w: request: %v", disk.ErrInput, err)
	}
	do := operations[r.Operation]
	if do == nil {
		return nil, fmt.Errorf("%w: no operation %q", disk.ErrInput, r.Operation)
	}
	parts := make([][]byte, len(r.Parts))
	for i, n := range r.Parts {
		if n < 0 || n > len(rest) {
			return nil, fmt.Errorf("%w: part %d of %d bytes, there are %d", disk.ErrInput, i, n, len(rest))
		}
		parts[i], rest = rest[:n:n], rest[n:]
	}
	return do(s, r.Ask, parts)
}

// put gives out a handle of a version.
func (s *Session) put(m *scorer.Model, p predictor) int64 {
	s.last++
	s.open[s.last] = &opened{model: m, predictor: p}
	return s.last
}

// of returns the version of a handle.
func (s *Session) of(handle int64) (*opened, error) {
	if o := s.open[handle]; o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("%w: model %d is closed", disk.ErrInput, handle)
}

// names of errors, the first that fits.
var names = []struct {
	cause error
	name  string
}{
	{disk.ErrSignature, "SignatureError"},
	{disk.ErrExpired, "ExpiredError"},
	{disk.ErrOlder, "OlderError"},
	{disk.ErrGolden, "GoldenError"},
	{disk.ErrChain, "ChainError"},
	{disk.ErrContents, "ContentsError"},
	{disk.ErrDigest, "DigestError"},
	{disk.ErrFormat, "FormatError"},
	{disk.ErrNotFound, "NotFoundError"},
	{disk.ErrKey, "BadKeyError"},
	{disk.ErrName, "BadNameError"},
	{disk.ErrInput, "InputError"},
	{scorer.ErrNoFoldIn, "NoFoldInError"},
}

func nameOf(err error) string {
	for _, n := range names {
		if errors.Is(err, n.cause) {
			return n.name
		}
	}
	return "SnapshotError"
}
