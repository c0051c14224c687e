package publish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// ModelSignatureFile is in the directory of a version that has a bundle. It is not among the files that the manifest
// vouches for.
const ModelSignatureFile = "model.sig"

// What the OpenSSF Model Signing specification, version 1.0, and its in-toto statements are known by.
const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://model_signing/signature/v1.0"
	payloadType   = "application/vnd.in-toto+json"
)

// ModelSigner signs the files of versions as OpenSSF Model Signing does, with an ECDSA key on P-256. It is safe for
// concurrent use and prints as the hint of its public key.
type ModelSigner struct {
	hint string // SHA-256 of the public key in PEM
	key  *ecdsa.PrivateKey
}

// LoadModelSigner reads a private key from a PEM file (SEC 1 or PKCS #8, as openssl ecparam -name prime256v1 -genkey
// and openssl genpkey write it), under the rules of LoadSigner. It returns ErrKey, with the path, for anything else.
func LoadModelSigner(path string) (*ModelSigner, error) {
	b, err := disk.ReadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot: model signing key %s: %w", path, err)
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		var parsed any
		switch block.Type {
		case "EC PRIVATE KEY":
			parsed, _ = x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			parsed, _ = x509.ParsePKCS8PrivateKey(block.Bytes)
		}
		if key, ok := parsed.(*ecdsa.PrivateKey); ok && key != nil && key.Curve == elliptic.P256() {
			return newModelSigner(key)
		}
	}
	return nil, fmt.Errorf("snapshot: model signing key %s: %w: not an ECDSA key on P-256 in PEM: make one with "+
		"openssl ecparam -name prime256v1 -genkey -noout", path, disk.ErrKey)
}

func newModelSigner(key *ecdsa.PrivateKey) (*ModelSigner, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w: %w", disk.ErrKey, err)
	}
	return &ModelSigner{disk.HexSum(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), key}, nil
}

// Format prints the hint of the public key, never the key.
func (s *ModelSigner) Format(f fmt.State, _ rune) { fmt.Fprint(f, "key "+s.hint) }

type bundle struct {
	MediaType string         `json:"mediaType"`
	Material  bundleMaterial `json:"verificationMaterial"`
	Envelope  envelope       `json:"dsseEnvelope"`
}

type bundleMaterial struct {
	PublicKey struct {
		Hint string `json:"hint"`
	} `json:"publicKey"`
	TlogEntries []struct{} `json:"tlogEntries"`
}

// envelope is one of DSSE 1.0; its bytes are base64 in JSON.
type envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig   []byte `json:"sig"`
	KeyID string `json:"keyid"`
}

type statement struct {
	Type          string             `json:"_type"`
	Subject       []statementSubject `json:"subject"`
	PredicateType string             `json:"predicateType"`
	Predicate     signedFiles        `json:"predicate"`
}

type statementSubject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type signedFiles struct {
	Serialization struct {
		Method        string   `json:"method"`
		HashType      string   `json:"hash_type"`
		AllowSymlinks bool     `json:"allow_symlinks"`
		IgnorePaths   []string `json:"ignore_paths"`
	} `json:"serialization"`
	Resources []signedFile `json:"resources"`
}

type signedFile struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"`
}

// sign returns the bundle over all other files of a version, the manifest and its signature included, but not the
// deltas, which come later: a Sigstore bundle v0.3 with a DSSE envelope around an in-toto statement. The subject's
// digest is the SHA-256 of the files' digests, by name.
func (s *ModelSigner) sign(version int64, files []disk.StagedFile) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files),
		func(a, b disk.StagedFile) int { return strings.Compare(a.Name, b.Name) })
	predicate, root := signedFiles{}, sha256.New()
	predicate.Serialization.Method, predicate.Serialization.HashType = "files", "sha256"
	predicate.Serialization.IgnorePaths = []string{ModelSignatureFile, disk.DeltasDir}
	for _, f := range files {
		sum := sha256.Sum256(f.Content)
		root.Write(sum[:])
		predicate.Resources = append(predicate.Resources, signedFile{f.Name, "sha256", hex.EncodeToString(sum[:])})
	}
	subject := statementSubject{
		strconv.FormatInt(version, 10),
		map[string]string{"sha256": hex.EncodeToString(root.Sum(nil))},
	}
	payload, err := json.Marshal(statement{statementType, []statementSubject{subject}, predicateType, predicate})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(preAuthentication(payload))
	sig, err := ecdsa.SignASN1(rand.Reader, s.key, digest[:])
	if err != nil {
		return nil, err
	}
	b := bundle{MediaType: bundleType, Envelope: envelope{payload, payloadType, []envelopeSignature{{Sig: sig}}}}
	b.Material.PublicKey.Hint, b.Material.TlogEntries = s.hint, []struct{}{}
	return json.Marshal(b)
}

// preAuthentication is the encoding of a payload that DSSE signs.
func preAuthentication(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}
