package format

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Keys are the public keys whose signatures a reader accepts, by KeyID. To rotate, list the old and the new key until
// every version and alias that is in use is signed by the new one; to revoke a key, take it off the list. Nil asks for
// no signatures. A list without keys accepts nothing.
type Keys map[string]ed25519.PublicKey

// KeyID returns the id of a key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Verify returns ErrSignature unless one of the keys signed text.
func (keys Keys) Verify(what, id string, text, signature []byte) error {
	if len(keys) == 0 {
		return fmt.Errorf("%s: %w: the list of trusted keys is empty: add the publisher's public key", what,
			disk.ErrSignature)
	}
	if id == "" || len(signature) == 0 {
		return fmt.Errorf("%s: %w: it is unsigned: set publish.signing_key_file of the publisher", what, disk.ErrSignature)
	}
	key, ok := keys[id]
	if !ok || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%s: %w: key %s is not trusted: add its public key, if it should be", what, disk.ErrSignature, id)
	}
	if !ed25519.Verify(key, text, signature) {
		return fmt.Errorf(
			"%s: %w: the signature is not one of key %s: it was altered, take it from the publisher again", what,
			disk.ErrSignature, id)
	}
	return nil
}

// Signer signs with an Ed25519 key. It is safe for concurrent use and prints as its key id.
type Signer struct {
	id  string
	key ed25519.PrivateKey
}

// NewSigner returns a signer with a key.
func NewSigner(key ed25519.PrivateKey) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("snapshot: %w: %d bytes, an Ed25519 key has %d", disk.ErrKey, len(key),
			ed25519.PrivateKeySize)
	}
	return &Signer{KeyID(key.Public().(ed25519.PublicKey)), key}, nil
}

// ID returns the id of the public key.
func (s *Signer) ID() string { return s.id }

// Keys returns the public key, for a reader that trusts it alone.
func (s *Signer) Keys() Keys { return Keys{s.id: s.key.Public().(ed25519.PublicKey)} }

// Format prints the key id, never the key.
func (s *Signer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "key "+s.id) }

func (s *Signer) Sign(text []byte) []byte { return ed25519.Sign(s.key, text) }

// SignManifest returns the file of the signature of a manifest: SignatureFile.
func (s *Signer) SignManifest(manifest []byte) ([]byte, error) {
	return (&signature{s.id, "ed25519", s.Sign(manifest)}).encode()
}

// LoadSigner reads a private key from a PEM file (PKCS #8, as openssl genpkey -algorithm ed25519 writes it). The file
// has to belong to this user or to root and be readable by its owner only, mode 0600 or 0400. It returns ErrKey, with
// the path, for anything else.
func LoadSigner(path string) (*Signer, error) {
	b, err := disk.ReadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot: signing key %s: %w", path, err)
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		return nil, fmt.Errorf(
			"snapshot: signing key %s: %w: not one PEM block PRIVATE KEY: make one with refitd keys new", path,
			disk.ErrKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("snapshot: signing key %s: %w: not an Ed25519 key: make one with refitd keys new", path,
			disk.ErrKey)
	}
	return NewSigner(key)
}

// LoadKeys reads public keys from PEM files (PUBLIC KEY, as openssl pkey -pubout writes them), one or more in each. It
// returns ErrKey.
func LoadKeys(paths ...string) (Keys, error) {
	keys := Keys{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("snapshot: public key: %w: %w", disk.ErrKey, err)
		}
		rest, err := io.ReadAll(io.LimitReader(f, disk.MaxKeysBytes))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("snapshot: public key: %w: %w", disk.ErrKey, err)
		}
		if err := keys.AddPEM(path, rest); err != nil {
			return nil, fmt.Errorf("snapshot: public key %w", err)
		}
	}
	return keys, nil
}

// AddPEM adds the public keys of a text in PEM, one or more. It returns ErrKey with where the text is from.
func (keys Keys) AddPEM(where string, text []byte) error {
	for found := false; ; found = true {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			if !found {
				return fmt.Errorf("%s: %w: no PEM block PUBLIC KEY", where, disk.ErrKey)
			}
			return nil
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok || block.Type != "PUBLIC KEY" {
			return fmt.Errorf("%s: %w: a PEM block %s that is not an Ed25519 PUBLIC KEY", where, disk.ErrKey, block.Type)
		}
		keys[KeyID(key)] = key
	}
}

// SignatureFile is in the directory of a signed manifest. It is not among the files that the manifest vouches for.
const SignatureFile = "manifest.sig"

// MaxSignatureBytes is more than any signature file has.
const MaxSignatureBytes = 512

// signature is the content of manifest.sig.
type signature struct {
	KeyID     string `json:"key_id"`
	Algorithm string `json:"algorithm"` // ed25519
	Signature []byte `json:"signature"` // over the bytes of manifest.json, base64
}

func (s *signature) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	return append(b, '\n'), err
}

// VerifyManifest returns the id of the key that signed a manifest, given the content of manifest.sig, or ErrSignature.
func (keys Keys) VerifyManifest(manifest, file []byte) (id string, err error) {
	var s signature
	if len(file) > 0 {
		if err := json.Unmarshal(file, &s); err != nil {
			return "", fmt.Errorf("%s: %w: %v", SignatureFile, disk.ErrSignature, err)
		}
		if again, err := s.encode(); err != nil || string(again) != string(file) || s.Algorithm != "ed25519" {
			return "", fmt.Errorf("%s: %w: not a signature of this format", SignatureFile, disk.ErrSignature)
		}
	}
	return s.KeyID, keys.Verify(disk.ManifestFile, s.KeyID, manifest, s.Signature)
}
