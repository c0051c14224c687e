package snapshot

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// verify returns ErrSignature unless one of the keys signed text.
func (keys Keys) verify(what, id string, text, signature []byte) error {
	if len(keys) == 0 {
		return fmt.Errorf(
			"%s: %w: the list of trusted keys is empty: add the publisher's public key",
			what,
			ErrSignature,
		)
	}
	if id == "" || len(signature) == 0 {
		return fmt.Errorf("%s: %w: it is unsigned: set publish.signing_key_file of the publisher", what, ErrSignature)
	}
	key, ok := keys[id]
	if !ok || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%s: %w: key %s is not trusted: add its public key, if it should be", what, ErrSignature, id)
	}
	if !ed25519.Verify(key, text, signature) {
		return fmt.Errorf(
			"%s: %w: the signature is not one of key %s: it was altered, take it from the publisher again",
			what,
			ErrSignature,
			id,
		)
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
		return nil, fmt.Errorf(
			"snapshot: %w: %d bytes, an Ed25519 key has %d",
			ErrKey,
			len(key),
			ed25519.PrivateKeySize,
		)
	}
	return &Signer{KeyID(key.Public().(ed25519.PublicKey)), key}, nil
}

// ID returns the id of the public key.
func (s *Signer) ID() string { return s.id }

// Keys returns the public key, for a reader that trusts it alone.
func (s *Signer) Keys() Keys { return Keys{s.id: s.key.Public().(ed25519.PublicKey)} }

// Format prints the key id, never the key.
func (s *Signer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "key "+s.id) }

func (s *Signer) sign(text []byte) []byte { return ed25519.Sign(s.key, text) }

// signManifest returns the file of the signature of a manifest: SignatureFile.
func (s *Signer) signManifest(manifest []byte) ([]byte, error) {
	return (&signature{s.id, "ed25519", s.sign(manifest)}).encode()
}

// maxKeyBytes is more than any file of one key has, and maxKeysBytes more than one of public keys needs.
const (
	maxKeyBytes  = 4 << 10
	maxKeysBytes = 64 << 10
)

// LoadSigner reads a private key from a PEM file (PKCS #8, as openssl genpkey -algorithm ed25519 writes it). The file
// has to belong to this user or to root and be readable by its owner only, mode 0600 or 0400. It returns ErrKey, with
// the path, for anything else.
func LoadSigner(path string) (*Signer, error) {
	b, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot: signing key %s: %w", path, err)
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		return nil, fmt.Errorf(
			"snapshot: signing key %s: %w: not one PEM block PRIVATE KEY: make one with refitd keys new",
			path,
			ErrKey,
		)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf(
			"snapshot: signing key %s: %w: not an Ed25519 key: make one with refitd keys new",
			path,
			ErrKey,
		)
	}
	return NewSigner(key)
}

// readPrivate reads a file that only its owner may read.
func readPrivate(path string) ([]byte, error) {
	if err := checkPrivate(os.Stat(path)); err != nil { // before it is opened: opening a pipe would wait for its writer
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer f.Close()
	if err := checkPrivate(f.Stat()); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	if err == nil && len(b) > maxKeyBytes {
		err = fmt.Errorf("more than %d bytes", maxKeyBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return b, nil
}

// LoadKeys reads public keys from PEM files (PUBLIC KEY, as openssl pkey -pubout writes them), one or more in each. It
// returns ErrKey.
func LoadKeys(paths ...string) (Keys, error) {
	keys := Keys{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("snapshot: public key: %w: %w", ErrKey, err)
		}
		rest, err := io.ReadAll(io.LimitReader(f, maxKeysBytes))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("snapshot: public key: %w: %w", ErrKey, err)
		}
		for found := false; ; found = true {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				if !found {
					return nil, fmt.Errorf("snapshot: public key %s: %w: no PEM block PUBLIC KEY", path, ErrKey)
				}
				break
			}
			parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
			key, ok := parsed.(ed25519.PublicKey)
			if err != nil || !ok || block.Type != "PUBLIC KEY" {
				return nil, fmt.Errorf(
					"snapshot: public key %s: %w: a PEM block %s that is not an Ed25519 PUBLIC KEY",
					path,
					ErrKey,
					block.Type,
				)
			}
			keys[KeyID(key)] = key
		}
	}
	return keys, nil
}

// CreateKeys makes a key pair and writes it to dir as <id>.key, mode 0600, and <id>.pub. random nil is the system's
// source.
func CreateKeys(dir string, random io.Reader) (id string, err error) {
	if random == nil {
		random = rand.Reader
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return "", fmt.Errorf("snapshot: new keys: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	secret, err1 := x509.MarshalPKCS8PrivateKey(private)
	open, err2 := x509.MarshalPKIXPublicKey(public)
	if err := errors.Join(err1, err2, os.MkdirAll(dir, 0o700)); err != nil {
		return "", fmt.Errorf("snapshot: new keys: %w", err)
	}
	id = KeyID(public)
	for _, f := range []struct {
		name string
		mode os.FileMode
		pem  pem.Block
	}{{id + ".key", 0o600, pem.Block{Type: "PRIVATE KEY", Bytes: secret}}, {id + ".pub", 0o644,
		pem.Block{Type: "PUBLIC KEY", Bytes: open}}} {
		file, err := os.OpenFile(filepath.Join(dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
		if err != nil {
			return "", fmt.Errorf("snapshot: new keys: %w", err)
		}
		if err := errors.Join(pem.Encode(file, &f.pem), file.Sync(), file.Close()); err != nil {
			return "", fmt.Errorf("snapshot: new keys: %w", err)
		}
	}
	return id, nil
}

// SignatureFile is in the directory of a signed manifest. It is not among the files that the manifest vouches for.
const SignatureFile = "manifest.sig"

// maxSignatureBytes is more than any signature file has.
const maxSignatureBytes = 512

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

// verifyManifest returns the id of the key that signed a manifest, given the content of manifest.sig, or ErrSignature.
func (keys Keys) verifyManifest(manifest, file []byte) (id string, err error) {
	var s signature
	if len(file) > 0 {
		if err := json.Unmarshal(file, &s); err != nil {
			return "", fmt.Errorf("%s: %w: %v", SignatureFile, ErrSignature, err)
		}
		if again, err := s.encode(); err != nil || string(again) != string(file) || s.Algorithm != "ed25519" {
			return "", fmt.Errorf("%s: %w: not a signature of this format", SignatureFile, ErrSignature)
		}
	}
	return s.KeyID, keys.verify(ManifestFile, s.KeyID, manifest, s.Signature)
}
