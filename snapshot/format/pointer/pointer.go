package pointer

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// The aliases that refitd itself moves. Any other valid name can be set too.
const (
	Latest   = "latest"   // newest published version, promoted or not; moved by Publish
	Champion = "champion" // what consumers should use
)

// ETag returns the entity tag of a pointer, as HTTP quotes it, empty for the zero Pointer.
func (p *Pointer) ETag() string {
	if p.Version == 0 {
		return ""
	}
	return fmt.Sprintf(`"%d-%d-%s"`, p.Sequence, p.Version, strings.TrimPrefix(p.ManifestDigest, "sha256:"))
}

// Event is what a record of the publish log is about.
type Event string

// Pointer is what an alias says: a version, the digest of its manifest, and the number of the move that set it. It is
// the content of an alias file, and what HTTP and Kafka pass on. Nothing in it is secret.
type Pointer struct {
	Version        int64  `json:"version"`
	ManifestDigest string `json:"manifest_digest"`
	// of the publish log, growing with every move; 0 in the first format
	Sequence  int64     `json:"sequence,omitempty"`
	Moved     time.Time `json:"moved,omitzero"`           // UTC, milliseconds
	Event     Event     `json:"event,omitempty"`          // of the move
	KeyID     string    `json:"key_id,omitempty"`         // of the key that signed it
	Signature []byte    `json:"signature,omitempty"`      // Ed25519 over the text below
	Digest    string    `json:"pointer_digest,omitempty"` // SHA-256 of the text below
	Renewal   Renewal   `json:"renewal,omitzero"`         // the newest one of this move; no part of the alias file
}

// text is what is digested and signed: the fields with model and alias, each on a separate line.
func (p *Pointer) text(model, alias string) []byte {
	return fmt.Appendf(nil, "refitd alias\n%s\n%s\n%d\n%s\n%d\n%s\n%s\n%s\n", model, alias, p.Version, p.ManifestDigest,
		p.Sequence, p.Moved.UTC().Format(time.RFC3339Nano), p.Event, p.KeyID)
}

// Seal sets digest and signature.
func (p *Pointer) Seal(model, alias string, signer *format.Signer) {
	if signer != nil {
		p.KeyID = signer.ID()
	}
	text := p.text(model, alias)
	p.Digest = "sha256:" + disk.HexSum(text)
	if signer != nil {
		p.Signature = signer.Sign(text)
	}
}

// Verify returns ErrFormat or ErrDigest unless p is what an alias of a model was set to, and ErrSignature unless it is
// signed by one of the keys. Keys nil asks for no signature; then the number of the move has to be one that counting
// can have come to, at most 16 for each version up to the one that p names and 2^24: a reader that took an invented one
// would refuse all that follow.
func (p *Pointer) Verify(model, alias string, keys format.Keys) error {
	if err := p.Sound(model, alias); err != nil {
		return err
	}
	if keys == nil {
		return p.Plausible()
	}
	return keys.Verify("alias "+alias, p.KeyID, p.text(model, alias), p.Signature)
}

// Sound is Verify without looking at who signed it.
func (p *Pointer) Sound(model, alias string) error {
	if p.Version < 1 || p.Version > disk.MaxVersion || p.Sequence < 0 || p.ManifestDigest == "" {
		return fmt.Errorf("alias %s: %w: version %d, sequence %d: set it again", alias, disk.ErrFormat, p.Version,
			p.Sequence)
	}
	first := p.Sequence == 0 && p.Moved.IsZero() && p.Event == "" && p.KeyID == "" && p.Signature == nil &&
		p.Digest == ""
	if text := p.text(model, alias); !first {
		if p.Digest != "sha256:"+disk.HexSum(text) {
			return fmt.Errorf("alias %s: %w: it is not the one that was written for model %s: set it again", alias,
				disk.ErrDigest, model)
		}
	}
	return nil
}

// Same reports whether two pointers name the same version with the same manifest by the same move.
func (p *Pointer) Same(o *Pointer) bool {
	return p.Version == o.Version && p.ManifestDigest == o.ManifestDigest && p.Sequence == o.Sequence
}

// Unchanged reports whether two pointers are the same, with the same renewal.
func (p *Pointer) Unchanged(o *Pointer) bool {
	return p.Same(o) && p.Renewal.Renewed.Equal(o.Renewal.Renewed)
}

// Follow returns ErrOlder unless p is the pointer that was accepted last, or a later one.
func (p *Pointer) Follow(last *Pointer) error {
	switch {
	case p.Same(last), p.Sequence > last.Sequence:
		return nil
	case p.Sequence == 0 && last.Sequence == 0 && p.Version > last.Version: // the first format does not number moves
		return nil
	}
	return fmt.Errorf("%w: version %d by move %d of the alias, accepted was version %d by move %d: an old copy is being "+
		"offered; to use it nevertheless, pin the version or delete the state file", disk.ErrOlder, p.Version, p.Sequence,
		last.Version, last.Sequence)
}

// MaxAliasBytes is more than any alias file has.
const MaxAliasBytes = 1024

func (p *Pointer) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	return append(b, '\n'), err
}

// DecodePointer reads an alias file, which has one form only.
func DecodePointer(alias string, b []byte) (Pointer, error) {
	p, err := DecodeObject(alias, b)
	if err == nil && !p.Renewal.Renewed.IsZero() {
		return Pointer{}, fmt.Errorf("alias %s: %w: %q: set it again", alias, disk.ErrFormat, b)
	}
	return p, err
}

// DecodeObject reads an alias of a bucket: an alias file with the newest renewal in it.
func DecodeObject(alias string, b []byte) (Pointer, error) {
	var p Pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return Pointer{}, fmt.Errorf("alias %s: %w: %v: set it again", alias, disk.ErrFormat, err)
	}
	if again, err := p.Encode(); err != nil || string(again) != string(b) {
		return Pointer{}, fmt.Errorf("alias %s: %w: %q: set it again", alias, disk.ErrFormat, b)
	}
	return p, nil
}

// A version number or the number of a move that is larger than counting can have made it is somebody's invention.
// MaxPlausible bounds the first: a version every millisecond comes to it in 35 years. A version is published by one
// move; prunes, moves by operators, and newer versions than the one that an alias was rolled back to are what else
// there is: movesPerVersion and movesExtra are far above that, a move by an operator every minute for 32 years.
const (
	MaxPlausible    = 1 << 40
	movesPerVersion = 16
	movesExtra      = 1 << 24
)

// Plausible returns ErrFormat if the number of the move is larger than the version that p names allows.
func (p *Pointer) Plausible() error {
	if p.Version > MaxPlausible || p.Sequence > movesPerVersion*p.Version+movesExtra {
		return fmt.Errorf(
			"%w: move %d of an alias that names version %d: more than %d moves a version and %d cannot be",
			disk.ErrFormat, p.Sequence, p.Version, movesPerVersion, movesExtra)
	}
	return nil
}

// MostMoves is the largest number of a move in the log that a writer continues from, given the newest version. It is
// half of what readers without keys accept. For version numbers, too, a writer accepts half of what readers do. So an
// invented number in a log, an alias or the name of a directory cannot make a writer count to where readers stop.
func MostMoves(newest int64) int64 { return (movesPerVersion*newest + movesExtra) / 2 }
