package snapshot

import (
	"encoding/json"
	"fmt"
	"time"
)

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
	return fmt.Appendf(
		nil,
		"refitd alias\n%s\n%s\n%d\n%s\n%d\n%s\n%s\n%s\n",
		model,
		alias,
		p.Version,
		p.ManifestDigest,
		p.Sequence,
		p.Moved.UTC().Format(time.RFC3339Nano),
		p.Event,
		p.KeyID,
	)
}

// seal sets digest and signature.
func (p *Pointer) seal(model, alias string, signer *Signer) {
	if signer != nil {
		p.KeyID = signer.id
	}
	text := p.text(model, alias)
	p.Digest = "sha256:" + hexSum(text)
	if signer != nil {
		p.Signature = signer.sign(text)
	}
}

// Verify returns ErrFormat or ErrDigest unless p is what an alias of a model was set to, and ErrSignature unless it is
// signed by one of the keys. Keys nil asks for no signature; then the number of the move has to be one that counting
// can have come to, at most 16 for each version up to the one that p names and 2^24: a reader that took an invented one
// would refuse all that follow.
func (p *Pointer) Verify(model, alias string, keys Keys) error {
	if err := p.sound(model, alias); err != nil {
		return err
	}
	if keys == nil {
		return p.plausible()
	}
	return keys.verify("alias "+alias, p.KeyID, p.text(model, alias), p.Signature)
}

// sound is Verify without looking at who signed it.
func (p *Pointer) sound(model, alias string) error {
	if p.Version < 1 || p.Version > maxVersion || p.Sequence < 0 || p.ManifestDigest == "" {
		return fmt.Errorf(
			"alias %s: %w: version %d, sequence %d: set it again",
			alias,
			ErrFormat,
			p.Version,
			p.Sequence,
		)
	}
	first := p.Sequence == 0 && p.Moved.IsZero() && p.Event == "" && p.KeyID == "" && p.Signature == nil &&
		p.Digest == ""
	if text := p.text(model, alias); !first {
		if p.Digest != "sha256:"+hexSum(text) {
			return fmt.Errorf(
				"alias %s: %w: it is not the one that was written for model %s: set it again",
				alias,
				ErrDigest,
				model,
			)
		}
	}
	return nil
}

// same reports whether two pointers name the same version with the same manifest by the same move.
func (p *Pointer) same(o *Pointer) bool {
	return p.Version == o.Version && p.ManifestDigest == o.ManifestDigest && p.Sequence == o.Sequence
}

// unchanged reports whether two pointers are the same, with the same renewal.
func (p *Pointer) unchanged(o *Pointer) bool {
	return p.same(o) && p.Renewal.Renewed.Equal(o.Renewal.Renewed)
}

// maxAliasBytes is more than any alias file has.
const maxAliasBytes = 1024

func (p *Pointer) encode() ([]byte, error) {
	b, err := json.Marshal(p)
	return append(b, '\n'), err
}

// decodePointer reads an alias file, which has one form only.
func decodePointer(alias string, b []byte) (Pointer, error) {
	var p Pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return Pointer{}, fmt.Errorf("alias %s: %w: %v: set it again", alias, ErrFormat, err)
	}
	if again, err := p.encode(); !p.Renewal.Renewed.IsZero() || err != nil || string(again) != string(b) {
		return Pointer{}, fmt.Errorf("alias %s: %w: %q: set it again", alias, ErrFormat, b)
	}
	return p, nil
}
