package publish

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/snapshot/format"
)

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
	id = format.KeyID(public)
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
