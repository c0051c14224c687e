package snapshot

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// publishSigned publishes n versions of model "m" in a new store, signed by key 1.
func publishSigned(t *testing.T, n int) (*publish.Store, string, format.Keys) {
	t.Helper()
	store, dir := storeOf(t, 0)
	var keys format.Keys
	store.Signer, keys = snapshottest.Signer(t, 1)
	for range n {
		_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
		snapshottest.Must(t, err)
	}
	return store, dir, keys
}

// E10: whose signatures are accepted.
func TestSignatures(t *testing.T) {
	_, unsigned := storeOf(t, 1)
	_, signed, one := publishSigned(t, 1)
	_, two := snapshottest.Signer(t, 2)
	both := format.Keys{}
	for _, keys := range []format.Keys{one, two} {
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
		keys format.Keys
		want error
		by   string
	}{
		{"unsigned, no keys asked for", unsigned, nil, nil, ""},
		{"signed, no keys asked for", signed, nil, nil, ""},
		{"signed by a listed key", signed, one, nil, id},
		{"signed by one of two: rotation", signed, both, nil, id},
		{"signed by another key, or a revoked one", signed, two, disk.ErrSignature, ""},
		{"another key under the id", signed, format.Keys{id: both[firstOther(both, id)]}, disk.ErrSignature, ""},
		{"a listed key of no length", signed, format.Keys{id: nil}, disk.ErrSignature, ""},
		{"unsigned, keys asked for", unsigned, one, disk.ErrSignature, ""},
		{"signed, an empty list", signed, format.Keys{}, disk.ErrSignature, ""},
		{"unsigned, an empty list", unsigned, format.Keys{}, disk.ErrSignature, ""},
	} {
		for _, sel := range []verify.Selector{{Alias: pointer.Latest}, {Version: 1}} {
			m, err := verify.Trust{Keys: test.keys}.Open(test.dir, "m", sel)
			if !errors.Is(err, test.want) || test.want == nil && (err != nil || m.SignedBy() != test.by) {
				t.Errorf("%s, %s: %v, want %v", test.name, sel, err, test.want)
			}
			if err != nil && m != nil {
				t.Errorf("%s: a model in addition to an error", test.name)
			}
		}
	}
}

func firstOther(keys format.Keys, id string) string {
	for other := range keys {
		if other != id {
			return other
		}
	}
	return ""
}

// E3 and E4 with a signature: every altered bit of the manifest and of the signature is noticed by the signature,
// before anything is parsed.
func TestSignedBitFlipsRefused(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	_, dir, keys := publishSigned(t, 1)
	files, trust := readStored(t, dir), verify.Trust{Keys: keys}
	open := func() error {
		m, err := trust.Load("m", pointer.Pointer{Version: 1}, files.Read)
		if err != nil && m != nil && m.Contents().Basis != nil && !errors.Is(err, disk.ErrGolden) {
			t.Fatalf("parsed before it was refused: %v", err)
		}
		return err
	}
	for _, name := range []string{disk.ManifestFile, format.SignatureFile} {
		content := files[name]
		for i := range content {
			for bit := range 8 {
				if bit != i%8 && !tier.Asked(tier.Long) {
					continue // one bit of each byte
				}
				content[i] ^= 1 << bit
				if err := open(); !errors.Is(err, disk.ErrSignature) {
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				}
				content[i] ^= 1 << bit
			}
			files[name] = content[:i]
			if err := open(); !errors.Is(err, disk.ErrSignature) {
				t.Fatalf("%s cut off at %d: %v", name, i, err)
			}
			files[name] = content
		}
	}
	snapshottest.Must(t, open())
	delete(files, format.SignatureFile)
	if err := open(); !errors.Is(err, disk.ErrSignature) {
		t.Errorf("without its signature: %v, want ErrSignature", err)
	}
	alias, err := os.ReadFile(filepath.Join(dir, "m", "aliases", pointer.Latest))
	snapshottest.Must(t, err)
	for i := range alias {
		for bit := range 8 {
			alias[i] ^= 1 << bit
			p, err := pointer.DecodePointer(pointer.Latest, alias)
			if err == nil {
				err = p.Verify("m", pointer.Latest, keys)
			}
			if !errors.Is(err, disk.ErrSignature) && !snapshottest.IsRefusal(err) {
				t.Fatalf("alias, byte %d, bit %d: %v", i, bit, err)
			}
			alias[i] ^= 1 << bit
		}
	}
}

// A signature of one version is none of another, and none of the same version of another model.
func TestSignaturesDoNotTravel(t *testing.T) {
	store, dir, keys := publishSigned(t, 2)
	_, err := store.Publish(t.Context(), "n", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	copyFile := func(from, to string) {
		b, err := os.ReadFile(filepath.Join(dir, from))
		snapshottest.Must(t, err)
		snapshottest.Must(t, os.WriteFile(filepath.Join(dir, to), b, 0o644))
	}
	open := func(model string, sel verify.Selector) error {
		_, err := verify.Trust{Keys: keys}.Open(dir, model, sel)
		return err
	}
	copyFile("m/1/"+format.SignatureFile, "m/2/"+format.SignatureFile)
	if err := open("m", verify.Selector{Version: 2}); !errors.Is(err, disk.ErrSignature) {
		t.Errorf("signature of version 1 at version 2: %v", err)
	}
	copyFile("m/1/"+disk.ManifestFile, "m/2/"+disk.ManifestFile)
	if err := open("m", verify.Selector{Version: 2}); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("version 1 as version 2: %v", err)
	}
	copyFile("m/1/"+disk.ManifestFile, "n/1/"+disk.ManifestFile)
	copyFile("m/1/"+format.SignatureFile, "n/1/"+format.SignatureFile)
	if err := open("n", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("version of m as that of n: %v", err)
	}
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	copyFile("m/aliases/latest", "m/aliases/champion")
	if err := open("m", verify.Selector{}); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("alias latest as champion: %v", err)
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
	snapshottest.Must(t, os.Chmod(private, 0o600))
	store, stored := storeOf(t, 0)
	store.Signer, err = format.LoadSigner(private)
	snapshottest.Must(t, err)
	_, err = store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	keys, err := format.LoadKeys(public)
	snapshottest.Must(t, err)
	if _, err := (verify.Trust{Keys: keys}).Open(stored, "m", verify.Selector{Version: 1}); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(stored, "m", "1", format.SignatureFile))
	snapshottest.Must(t, err)
	var sig struct{ Signature []byte }
	snapshottest.Must(t, json.Unmarshal(b, &sig))
	raw := filepath.Join(dir, "raw")
	snapshottest.Must(t, os.WriteFile(raw, sig.Signature, 0o644))
	run("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in",
		filepath.Join(stored, "m", "1", disk.ManifestFile), "-sigfile", raw)
}
