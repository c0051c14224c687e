package snapshot

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// signer returns a key made of one byte, and its public list.
func signer(t *testing.T, seed byte) (*Signer, Keys) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	s, err := NewSigner(key)
	must(t, err)
	return s, Keys{s.ID(): key.Public().(ed25519.PublicKey)}
}

// publishSigned publishes n versions of model "m" in a new store, signed by key 1.
func publishSigned(t *testing.T, n int) (*Store, string, Keys) {
	t.Helper()
	store, dir := storeOf(t, 0)
	var keys Keys
	store.Signer, keys = signer(t, 1)
	for range n {
		_, err := store.Publish(t.Context(), "m", testContents(small))
		must(t, err)
	}
	return store, dir, keys
}

// E10: whose signatures are accepted.
func TestSignatures(t *testing.T) {
	_, unsigned := storeOf(t, 1)
	_, signed, one := publishSigned(t, 1)
	_, two := signer(t, 2)
	both := Keys{}
	for _, keys := range []Keys{one, two} {
		for id, key := range keys {
			both[id] = key
		}
	}
	var id string
	for id = range one {
	}
	for _, test := range []struct {
		name string
		dir  string
		keys Keys
		want error
		by   string
	}{
		{"unsigned, no keys asked for", unsigned, nil, nil, ""},
		{"signed, no keys asked for", signed, nil, nil, ""},
		{"signed by a listed key", signed, one, nil, id},
		{"signed by one of two: rotation", signed, both, nil, id},
		{"signed by another key, or a revoked one", signed, two, ErrSignature, ""},
		{"another key under the id", signed, Keys{id: both[firstOther(both, id)]}, ErrSignature, ""},
		{"a listed key of no length", signed, Keys{id: nil}, ErrSignature, ""},
		{"unsigned, keys asked for", unsigned, one, ErrSignature, ""},
		{"signed, an empty list", signed, Keys{}, ErrSignature, ""},
		{"unsigned, an empty list", unsigned, Keys{}, ErrSignature, ""},
	} {
		for _, sel := range []Selector{{Alias: Latest}, {Version: 1}} {
			m, err := Trust{Keys: test.keys}.Open(test.dir, "m", sel)
			if !errors.Is(err, test.want) || test.want == nil && (err != nil || m.SignedBy() != test.by) {
				t.Errorf("%s, %s: %v, want %v", test.name, sel, err, test.want)
			}
			if err != nil && m != nil {
				t.Errorf("%s: a model in addition to an error", test.name)
			}
		}
	}
}

func firstOther(keys Keys, id string) string {
	for other := range keys {
		if other != id {
			return other
		}
	}
	return ""
}

// stored is a version in memory, to alter it quickly.
type stored map[string][]byte

func readStored(t *testing.T, dir string) stored {
	t.Helper()
	files := stored{}
	for _, name := range []string{ManifestFile, SignatureFile, tensorsFile, vocabularyFile, goldenFile} {
		b, err := os.ReadFile(filepath.Join(dir, "m", "1", name))
		if errors.Is(err, os.ErrNotExist) && name == SignatureFile {
			continue
		}
		must(t, err)
		files[name] = b
	}
	return files
}

func (f stored) read(name string, limit int64) ([]byte, error) {
	b, ok := f[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return readAtMost(bytes.NewReader(b), name, limit)
}

// E3 and E4 with a signature: every altered bit of the manifest and of the signature is noticed by the signature,
// before anything is parsed.
func TestSignedBitFlipsRefused(t *testing.T) {
	t.Parallel()
	_, dir, keys := publishSigned(t, 1)
	files, trust := readStored(t, dir), Trust{Keys: keys}
	open := func() error {
		m, err := trust.load("m", Pointer{Version: 1}, files.read)
		if err != nil && m != nil && m.Contents().Basis != nil && !errors.Is(err, ErrGolden) {
			t.Fatalf("parsed before it was refused: %v", err)
		}
		return err
	}
	for _, name := range []string{ManifestFile, SignatureFile} {
		content := files[name]
		for i := range content {
			for bit := range 8 {
				if bit != i%8 && !tier.Asked(tier.Long) {
					continue // one bit of each byte
				}
				content[i] ^= 1 << bit
				if err := open(); !errors.Is(err, ErrSignature) {
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				}
				content[i] ^= 1 << bit
			}
			files[name] = content[:i]
			if err := open(); !errors.Is(err, ErrSignature) {
				t.Fatalf("%s cut off at %d: %v", name, i, err)
			}
			files[name] = content
		}
	}
	must(t, open())
	delete(files, SignatureFile)
	if err := open(); !errors.Is(err, ErrSignature) {
		t.Errorf("without its signature: %v, want ErrSignature", err)
	}
	alias, err := os.ReadFile(filepath.Join(dir, "m", "aliases", Latest))
	must(t, err)
	for i := range alias {
		for bit := range 8 {
			alias[i] ^= 1 << bit
			p, err := decodePointer(Latest, alias)
			if err == nil {
				err = p.Verify("m", Latest, keys)
			}
			if !errors.Is(err, ErrSignature) && !isRefusal(err) {
				t.Fatalf("alias, byte %d, bit %d: %v", i, bit, err)
			}
			alias[i] ^= 1 << bit
		}
	}
}

// A signature of one version is none of another, and none of the same version of another model.
func TestSignaturesDoNotTravel(t *testing.T) {
	store, dir, keys := publishSigned(t, 2)
	_, err := store.Publish(t.Context(), "n", testContents(small))
	must(t, err)
	copyFile := func(from, to string) {
		b, err := os.ReadFile(filepath.Join(dir, from))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, to), b, 0o644))
	}
	open := func(model string, sel Selector) error {
		_, err := Trust{Keys: keys}.Open(dir, model, sel)
		return err
	}
	copyFile("m/1/"+SignatureFile, "m/2/"+SignatureFile)
	if err := open("m", Selector{Version: 2}); !errors.Is(err, ErrSignature) {
		t.Errorf("signature of version 1 at version 2: %v", err)
	}
	copyFile("m/1/"+ManifestFile, "m/2/"+ManifestFile)
	if err := open("m", Selector{Version: 2}); !errors.Is(err, ErrDigest) {
		t.Errorf("version 1 as version 2: %v", err)
	}
	copyFile("m/1/"+ManifestFile, "n/1/"+ManifestFile)
	copyFile("m/1/"+SignatureFile, "n/1/"+SignatureFile)
	if err := open("n", Selector{Version: 1}); !errors.Is(err, ErrDigest) {
		t.Errorf("version of m as that of n: %v", err)
	}
	must(t, setAlias(t, store, Champion, 1))
	copyFile("m/aliases/latest", "m/aliases/champion")
	if err := open("m", Selector{}); !errors.Is(err, ErrDigest) {
		t.Errorf("alias latest as champion: %v", err)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	id, err := CreateKeys(dir, bytes.NewReader(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	must(t, err)
	private, public := filepath.Join(dir, id+".key"), filepath.Join(dir, id+".pub")
	s, err := LoadSigner(private)
	must(t, err)
	keys, err := LoadKeys(public)
	must(t, err)
	if s.ID() != id || len(keys) != 1 || keys.verify("x", id, []byte("x"), s.sign([]byte("x"))) != nil {
		t.Errorf("signer %s, keys %v, want %s", s.ID(), keys, id)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, *s); strings.Count(text, id) != 4 ||
		strings.Contains(text, fmt.Sprint(bytes.Repeat([]byte{7}, 4))) {
		t.Errorf("a signer prints as %q", text)
	}
	if _, err := CreateKeys(dir, bytes.NewReader(bytes.Repeat([]byte{7}, ed25519.SeedSize))); err == nil {
		t.Error("an existing key is overwritten")
	}
	content, err := os.ReadFile(private)
	must(t, err)
	open, err := os.ReadFile(public)
	must(t, err)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want ErrKey with the path", name, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o644, 0o604, 0o660, 0o700, 0o444} {
		must(t, os.Chmod(private, mode))
		_, err := LoadSigner(private)
		refused(mode.String(), err)
	}
	for _, mode := range []os.FileMode{0o400, 0o600} {
		must(t, os.Chmod(private, mode))
		if _, err := LoadSigner(private); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for name, b := range map[string][]byte{"empty": nil, "half": content[:len(content)/2], "not PEM": []byte("key"),
		"public key": open,
		"two keys":   append(bytes.Clone(content), content...), "too large": append(bytes.Clone(content), make([]byte,
			4<<10)...)} {
		must(t, os.WriteFile(private, b, 0o600))
		_, err := LoadSigner(private)
		refused(name, err)
		if name != "public key" {
			_, err = LoadKeys(private)
			refused(name, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		_, err := LoadSigner(path)
		refused(path, err)
		_, err = LoadKeys(path)
		refused(path, err)
	}
	if _, err := NewSigner(nil); !errors.Is(err, ErrKey) {
		t.Errorf("an empty key: %v", err)
	}
}

// The keys and signatures are those of every other tool.
func TestOpenSSLAgrees(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("not checked: %v", err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v: %s", args, err, out)
		}
	}
	private, public := filepath.Join(dir, "key"), filepath.Join(dir, "pub")
	run("genpkey", "-algorithm", "ed25519", "-out", private)
	run("pkey", "-in", private, "-pubout", "-out", public)
	must(t, os.Chmod(private, 0o600))
	store, stored := storeOf(t, 0)
	store.Signer, err = LoadSigner(private)
	must(t, err)
	_, err = store.Publish(t.Context(), "m", testContents(small))
	must(t, err)
	keys, err := LoadKeys(public)
	must(t, err)
	if _, err := (Trust{Keys: keys}).Open(stored, "m", Selector{Version: 1}); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(stored, "m", "1", SignatureFile))
	must(t, err)
	var sig struct{ Signature []byte }
	must(t, json.Unmarshal(b, &sig))
	raw := filepath.Join(dir, "raw")
	must(t, os.WriteFile(raw, sig.Signature, 0o644))
	run(
		"pkeyutl",
		"-verify",
		"-pubin",
		"-inkey",
		public,
		"-rawin",
		"-in",
		filepath.Join(stored, "m", "1", ManifestFile),
		"-sigfile",
		raw,
	)
}
