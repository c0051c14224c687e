package snapshottest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
)

// SignerOf returns a signer with a key made of a seed.
func SignerOf(t testing.TB, seed byte) *format.Signer {
	t.Helper()
	s, err := format.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Signer returns a key made of one byte, and its public list.
func Signer(t *testing.T, seed byte) (*format.Signer, format.Keys) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	s, err := format.NewSigner(key)
	Must(t, err)
	return s, format.Keys{s.ID(): key.Public().(ed25519.PublicKey)}
}

// ModelKeys writes an ECDSA key pair and returns the paths of both halves.
func ModelKeys(t *testing.T, curve elliptic.Curve) (private, public string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pkix, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "oms.key"), filepath.Join(dir, "oms.pub")
	for path, block := range map[string]*pem.Block{private: {Type: "EC PRIVATE KEY", Bytes: sec1},
		public: {Type: "PUBLIC KEY", Bytes: pkix}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public, key
}

// KeyFile writes the public key of a seed.
func KeyFile(t *testing.T, dir string, seed byte) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)).Public()
	der, err := x509.MarshalPKIXPublicKey(key)
	Must(t, err)
	path := filepath.Join(dir, strconv.Itoa(int(seed))+".pub")
	Must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
	return path
}
