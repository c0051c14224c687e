package snapshot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// checkBundle verifies a version's directory by its bundle as the specification says, with nothing of the code that
// wrote it.
func checkBundle(dir string, key *ecdsa.PublicKey) error {
	text, err := os.ReadFile(filepath.Join(dir, "model.sig"))
	if err != nil {
		return err
	}
	var b struct {
		MediaType    string
		DsseEnvelope struct {
			Payload     []byte
			PayloadType string
			Signatures  []struct{ Sig []byte }
		}
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	e := &b.DsseEnvelope
	sum := sha256.Sum256([]byte(fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(e.Payload), e.Payload)))
	if b.MediaType != "application/vnd.dev.sigstore.bundle.v0.3+json" ||
		e.PayloadType != "application/vnd.in-toto+json" ||
		len(e.Signatures) != 1 ||
		!ecdsa.VerifyASN1(key, sum[:], e.Signatures[0].Sig) {
		return errors.New("the signature is not the key's")
	}
	var s struct {
		PredicateType string
		Subject       []struct{ Digest map[string]string }
		Predicate     struct {
			Serialization struct {
				IgnorePaths []string `json:"ignore_paths"`
			}
			Resources []struct{ Name, Algorithm, Digest string }
		}
	}
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	root := sha256.New()
	for _, r := range s.Predicate.Resources {
		content, err := os.ReadFile(filepath.Join(dir, r.Name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		root.Write(sum[:])
		if names = append(names, r.Name); r.Algorithm != "sha256" || hex.EncodeToString(sum[:]) != r.Digest {
			return fmt.Errorf("%s was altered", r.Name)
		}
	}
	for _, f := range found {
		if !slices.Contains(s.Predicate.Serialization.IgnorePaths, f.Name()) && !slices.Contains(names, f.Name()) {
			return fmt.Errorf("%s is not signed", f.Name())
		}
	}
	if s.PredicateType != "https://model_signing/signature/v1.0" || len(s.Subject) != 1 ||
		s.Subject[0].Digest["sha256"] != hex.EncodeToString(root.Sum(nil)) {
		return fmt.Errorf("statement %s", e.Payload)
	}
	return nil
}

// TestModelSignature: the bundle covers every other file of a version, one altered byte in any is refused, and readers
// do not mind it.
func TestModelSignature(t *testing.T) {
	private, public, key := snapshottest.ModelKeys(t, elliptic.P256())
	for _, signed := range []bool{false, true} {
		root := t.TempDir()
		store := publish.NewStore(root)
		var err error
		if store.ModelSigner, err = publish.LoadModelSigner(private); err != nil {
			t.Fatal(err)
		}
		if signed {
			store.Signer, _ = snapshottest.Signer(t, 1)
		}
		if _, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Shape{Task: format.Regression,
			Link: format.Identity, Kernel: format.ANOVA, K: 2, Linear: true,
			Mapped: ""})); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, "m", "1")
		if err := checkBundle(dir, &key.PublicKey); err != nil {
			t.Fatal(err)
		}
		verifyInPython(t, dir, public, true)
		if _, err := Open(root, "m", verify.Selector{Version: 1}); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		if want := map[bool]int{false: 5, true: 6}[signed]; err != nil || len(files) != want {
			t.Fatalf("%v, error %v", files, err)
		}
		for i, f := range files {
			path := filepath.Join(dir, f.Name())
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := slices.Clone(content)
			bad[len(bad)/2] ^= 1
			if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, bad, 0o600)); err != nil {
				t.Fatal(err)
			}
			if checkBundle(dir, &key.PublicKey) == nil {
				t.Errorf("one altered byte of %s goes unnoticed", f.Name())
			}
			if i == 0 {
				verifyInPython(t, dir, public, false)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, m := openChain(t, store, root, 1)
		grow(t, c, m, 1, 0)
		if err := checkBundle(dir, &key.PublicKey); err != nil {
			t.Errorf("with deltas: %v", err)
		}
		verifyInPython(t, dir, public, true)
	}
}

// verifyInPython asks the Python package model-signing, where it is installed.
func verifyInPython(t *testing.T, dir, public string, want bool) {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import model_signing").CombinedOutput(); err != nil {
		t.Logf("not verified by the Python package model-signing, which is not installed: %v: %.200s", err, out)
		return
	}
	out, err := exec.Command("python3", "-m", "model_signing", "verify", "key", dir, "--signature", filepath.Join(dir,
		"model.sig"),
		"--public_key", public).
		CombinedOutput()
	if (err == nil) != want {
		t.Errorf("model_signing verify: %v: %s", err, out)
	} else {
		t.Logf("model_signing verify: %.200s", out)
	}
}
