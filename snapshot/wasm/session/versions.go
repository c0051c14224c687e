package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// trust is what the host's program asks of versions and aliases.
type trust struct {
	Model        string   `json:"model"`
	Keys         []string `json:"keys"` // public keys in PEM; null accepts what is not signed
	AllowExpired bool     `json:"allow_expired"`
	// Now is the time that expiries are compared with; zero asks the clock of the host.
	Now time.Time `json:"now"`
}

func (t *trust) keys() (format.Keys, error) {
	if !disk.ValidName.MatchString(t.Model) {
		return nil, fmt.Errorf("%w: model %q is not of the form %s", disk.ErrName, t.Model, disk.ValidName)
	}
	if t.Keys == nil {
		return nil, nil
	}
	keys := format.Keys{}
	for i, text := range t.Keys {
		if err := keys.AddPEM(fmt.Sprintf("key %d", i+1), []byte(text)); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// aliasAsk asks whether an alias may be followed. The parts are its file, or the answer of a daemon, and its renewal,
// which may be missing.
type aliasAsk struct {
	trust
	Alias    string          `json:"alias"`
	FromFile bool            `json:"from_file"` // which has one form only, and the renewal in a file of itself
	Last     pointer.Pointer `json:"last"`      // that was accepted
}

// aliasAnswer is an alias that is verified.
type aliasAnswer struct {
	Pointer pointer.Pointer `json:"pointer"`
	Same    bool            `json:"same"`    // as the last, but for its renewal
	Version int64           `json:"version"` // that it names
}

// alias verifies what an alias names, its renewal, and that it is not older than what was accepted last.
func (s *Session) alias(ask *aliasAsk, parts [][]byte) (any, error) {
	keys, err := ask.keys()
	if err != nil {
		return nil, err
	}
	if !disk.ValidName.MatchString(ask.Alias) {
		return nil, fmt.Errorf("%w: alias %q is not of the form %s", disk.ErrName, ask.Alias, disk.ValidName)
	}
	p, err := pointerOf(ask, parts)
	if err != nil {
		return nil, err
	}
	if err := p.Verify(ask.Model, ask.Alias, keys); err != nil {
		return nil, err
	}
	if err := p.Follow(&ask.Last); err != nil {
		return nil, err
	}
	same := p.Same(&ask.Last)
	if p.Renewal = p.VerifyRenewal(ask.Model, ask.Alias, keys); same && ask.Last.Renewal.Renewed.After(p.Renewal.Renewed) {
		p.Renewal = ask.Last.Renewal // a copy may bring back an old one
	}
	return aliasAnswer{p, same, p.Version}, nil
}

func pointerOf(ask *aliasAsk, parts [][]byte) (p pointer.Pointer, err error) {
	if len(parts) == 0 {
		return p, fmt.Errorf("%w: no alias %s of model %s: promote a version, or choose one by its number",
			disk.ErrNotFound, ask.Alias, ask.Model)
	}
	if !ask.FromFile {
		if err := json.Unmarshal(parts[0], &p); err != nil {
			return p, fmt.Errorf("alias %s: %w: %v", ask.Alias, disk.ErrFormat, err)
		}
		return p, nil
	}
	if p, err = pointer.DecodePointer(ask.Alias, parts[0]); err != nil {
		return p, err
	}
	if len(parts) > 1 && json.Unmarshal(parts[1], &p.Renewal) != nil {
		p.Renewal = pointer.Renewal{} // what is no renewal takes nothing from the alias
	}
	return p, nil
}

// filesAsk has the manifest as its part, and its signature where there is one.
type filesAsk struct{ trust }

// files lists what a reader of a version has to fetch. Of the rest load verifies what it verifies itself.
func (s *Session) files(ask *filesAsk, parts [][]byte) (any, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("manifest.json: %w: the version was pruned or never published", disk.ErrNotFound)
	}
	keys, err := ask.keys()
	if err != nil {
		return nil, err
	}
	if keys != nil {
		if _, err := keys.VerifyManifest(parts[0], bytes.Join(parts[1:], nil)); err != nil {
			return nil, err
		}
	}
	m, err := format.DecodeManifest(parts[0])
	if err != nil {
		return nil, err
	}
	return m.ReadFiles(), nil
}

// loadAsk has the files of a version as its parts, in the order of Names.
type loadAsk struct {
	trust
	Pointer pointer.Pointer `json:"pointer"` // verified, or the number of a version alone
	Names   []string        `json:"names"`
}

// description is what the host's program learns of a version.
type description struct {
	Handle       int64           `json:"handle"`
	Position     position        `json:"position"`
	Manifest     format.Manifest `json:"manifest"`
	SignedBy     string          `json:"signed_by"` // id of the key; empty without keys
	Expires      time.Time       `json:"expires"`   // zero is never
	HistoryField string          `json:"history_field"`
}

// position says where a model is in the chain of its version.
type position struct {
	Version   int64     `json:"version"`
	Sequence  int64     `json:"sequence"` // of the last delta, 0 is none
	Digest    string    `json:"digest"`   // of the last delta, or of the manifest
	Created   time.Time `json:"created"`
	Watermark time.Time `json:"watermark"` // newest event that it knows
}

func (s *Session) describe(m *scorer.Model, p predictor) description {
	at := m.Position()
	return description{s.put(m, p), position{at.Version, at.Sequence, at.Digest, at.Created, at.Watermark}, m.Manifest(),
		m.SignedBy(), m.Expires(), m.HistoryField()}
}

// load verifies, parses and tests a version.
func (s *Session) load(ask *loadAsk, parts [][]byte) (any, error) {
	keys, err := ask.keys()
	if err != nil {
		return nil, err
	}
	if len(ask.Names) != len(parts) {
		return nil, fmt.Errorf("%w: %d names of files, %d files", disk.ErrInput, len(ask.Names), len(parts))
	}
	files := make(map[string][]byte)
	for i, name := range ask.Names {
		files[name] = parts[i]
	}
	t := verify.Trust{Keys: keys, AllowExpired: ask.AllowExpired}
	if !ask.Now.IsZero() {
		t.Now = func() time.Time { return ask.Now }
	}
	m, err := t.Load(ask.Model, ask.Pointer, func(name string, limit int64) ([]byte, error) {
		b, ok := files[name]
		switch {
		case !ok:
			return nil, fs.ErrNotExist
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, disk.ErrDigest, len(b), limit)
		}
		return b, nil
	})
	if err != nil {
		return nil, err
	}
	return s.describe(m, m), nil
}

// applyAsk has whole frames of deltas as its part, the first of which has number First.
type applyAsk struct {
	trust
	Handle int64 `json:"handle"` // stays as it is
	First  int64 `json:"first"`  // those up to the position of the version are passed over
}

// applied is a version after deltas.
type applied struct {
	description
	Refused *Refusal `json:"refused,omitempty"` // why it is not further
	Whole   int64    `json:"whole"`             // bytes of the whole frames that were read
	Next    int64    `json:"next"`              // number of the delta that follows them
}

// apply returns the version after the deltas that follow it, up to one that is refused, or cut off.
func (s *Session) apply(ask *applyAsk, parts [][]byte) (any, error) {
	keys, err := ask.keys()
	if err != nil {
		return nil, err
	}
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	out, m := applied{Next: ask.First}, o.model
	stream := bytes.NewReader(bytes.Join(parts, nil))
	size := stream.Size()
	for {
		frame, err := format.ReadFrame(stream)
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			break // of one that is being written there is a part
		}
		next := m
		if err == nil && out.Next > m.Position().Sequence {
			var d *format.Delta
			if d, err = format.DecodeDelta(frame, m.Shape(), keys); err == nil {
				next, err = m.Apply(d)
			}
		}
		if err != nil {
			out.Refused = &Refusal{nameOf(err), err.Error()}
			break
		}
		m, out.Next, out.Whole = next, out.Next+1, size-int64(stream.Len())
	}
	if m != o.model {
		out.description = s.describe(m, m)
	}
	return out, nil
}

// handleAsk names a version.
type handleAsk struct {
	Handle int64 `json:"handle"`
}

// digest returns the digest of all that the version says, after its deltas: two machines that agree have the same.
func (s *Session) digest(ask *handleAsk, _ [][]byte) (any, error) {
	o, err := s.of(ask.Handle)
	if err != nil {
		return nil, err
	}
	return format.PayloadDigest(o.model.Contents())
}

// close forgets a version.
func (s *Session) close(ask *handleAsk, _ [][]byte) (any, error) {
	delete(s.open, ask.Handle)
	return len(s.open), nil
}
