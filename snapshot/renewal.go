package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
)

// renewalDir has the newest renewal of each alias, in files separate from the aliases: readers that do not know it
// see the alias as it was set.
const renewalDir = "renewals"

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

// text is what is digested and signed: the move that is renewed, and the fields, each on a separate line.
func (r *Renewal) text(model, alias string, p *Pointer) []byte {
	return fmt.Appendf(
		nil,
		"refitd renewal\n%s\n%s\n%d\n%s\n%d\n%s\n%s\n%s\n",
		model,
		alias,
		p.Version,
		p.ManifestDigest,
		p.Sequence,
		r.Renewed.UTC().Format(time.RFC3339Nano),
		r.Expires.UTC().Format(time.RFC3339Nano),
		r.KeyID,
	)
}

// VerifyRenewal returns the renewal of a pointer, or the zero Renewal if it is of another move, damaged, or not signed
// by one of the keys; keys nil asks for no signature. What is no renewal takes nothing from the pointer, which Verify
// is for.
func (p *Pointer) VerifyRenewal(model, alias string, keys Keys) Renewal {
	r := p.Renewal
	text := r.text(model, alias, p)
	if r.Renewed.IsZero() || r.Digest != "sha256:"+hexSum(text) ||
		keys != nil && keys.verify("renewal", r.KeyID, text, r.Signature) != nil {
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

// expiry returns until when a version may be used: what its manifest says, or the renewal if that is later. Zero is for
// ever.
func (p *Pointer) expiry(m *Manifest) time.Time {
	if !m.Expires.IsZero() && p.Renewal.Expires.After(m.Expires) {
		return p.Renewal.Expires
	}
	return m.Expires
}

// Renew confirms that an alias is still valid, and that the version it names may be used until expires; zero adds
// nothing to what its manifest says. It moves nothing and writes nothing into the publish log: one small file is
// replaced, durably. It returns ErrSignature for an alias that the store's keys did not sign, or that is signed while
// the store has no key.
func (s *Store) Renew(ctx context.Context, model, alias string, expires time.Time) (Pointer, error) {
	var p Pointer
	err := s.withModel(ctx, model, false, func(root *os.Root, _ Numbers) (err error) {
		if p, err = soundAlias(root, model, alias); err == nil {
			err = p.Verify(model, alias, s.Keys)
		}
		if err == nil && s.Signer == nil && p.KeyID != "" {
			err = fmt.Errorf(
				"alias %s: %w: it is signed by key %s, and there is no key to renew it with: set publish.signing_key_file",
				alias,
				ErrSignature,
				p.KeyID,
			)
		}
		if err != nil {
			return err
		}
		r := &p.Renewal
		r.Renewed, r.Expires = s.Now().UTC().Truncate(time.Millisecond), expires.UTC().Truncate(time.Millisecond)
		if s.Signer != nil {
			r.KeyID = s.Signer.ID()
		}
		text := r.text(model, alias, &p)
		r.Digest = "sha256:" + hexSum(text)
		if s.Signer != nil {
			r.Signature = s.Signer.sign(text)
		}
		return writeRenewal(root, alias, r)
	})
	if err != nil {
		return Pointer{}, fmt.Errorf("snapshot: renew %s of %s: %w", alias, model, err)
	}
	return p, nil
}

func writeRenewal(root *os.Root, alias string, r *Renewal) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := root.Mkdir(renewalDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := root.OpenRoot(renewalDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.RemoveAll(newAlias); err != nil { // of a writer that was killed
		return err
	}
	if err := durable.Create(dir, newAlias, 0o644, durable.Bytes(append(b, '\n'))); err != nil {
		return err
	}
	return durable.Rename(dir, newAlias, alias)
}

// readRenewal adds the renewal of an alias to its pointer, unverified: VerifyRenewal verifies it.
func readRenewal(root *os.Root, alias string, p *Pointer) {
	p.Renewal = Renewal{}
	if b, err := readFile(root, renewalDir+"/"+alias, maxAliasBytes); err == nil &&
		json.Unmarshal(b, &p.Renewal) != nil {
		p.Renewal = Renewal{}
	}
}
