package pointer

import (
	"fmt"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Renewal is a publisher's statement that an alias, as it was set by one move, is still valid. The publisher repeats
// it for as long as it runs, so that a reader can distinguish a quiet publisher from one that it cannot reach any
// more. It does not move the alias.
type Renewal struct {
	Renewed time.Time `json:"renewed"` // UTC, milliseconds
	// the version may be used until then, if its manifest lets it expire before
	Expires   time.Time `json:"expires,omitzero"`
	KeyID     string    `json:"key_id,omitempty"`    // of the key that signed it
	Signature []byte    `json:"signature,omitempty"` // Ed25519 over the text below
	Digest    string    `json:"renewal_digest"`      // SHA-256 of the text below
}

// Text is what is digested and signed: the move that is renewed, and the fields, each on a separate line.
func (r *Renewal) Text(model, alias string, p *Pointer) []byte {
	return fmt.Appendf(nil, "refitd renewal\n%s\n%s\n%d\n%s\n%d\n%s\n%s\n%s\n", model, alias, p.Version,
		p.ManifestDigest, p.Sequence, r.Renewed.UTC().Format(time.RFC3339Nano),
		r.Expires.UTC().Format(time.RFC3339Nano), r.KeyID)
}

// VerifyRenewal returns the renewal of a pointer, or the zero Renewal if it is of another move, damaged, or not signed
// by one of the keys; keys nil asks for no signature. What is no renewal takes nothing from the pointer, which Verify
// is for.
func (p *Pointer) VerifyRenewal(model, alias string, keys format.Keys) Renewal {
	r := p.Renewal
	text := r.Text(model, alias, p)
	if r.Renewed.IsZero() || r.Digest != "sha256:"+disk.HexSum(text) ||
		keys != nil && keys.Verify("renewal", r.KeyID, text, r.Signature) != nil {
		return Renewal{}
	}
	return r
}

// Renewed returns when the publisher last confirmed the alias: by its renewal, or by the move itself. Zero is not
// known. It is for pointers whose renewal is verified.
func (p *Pointer) Renewed() time.Time {
	if p.Renewal.Renewed.After(p.Moved) {
		return p.Renewal.Renewed
	}
	return p.Moved
}

// Expiry returns until when a version may be used: what its manifest says, or the renewal if that is later. Zero is for
// ever.
func (p *Pointer) Expiry(m *format.Manifest) time.Time {
	if !m.Expires.IsZero() && p.Renewal.Expires.After(m.Expires) {
		return p.Renewal.Expires
	}
	return m.Expires
}
