package publish

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	id, err := CreateKeys(dir, bytes.NewReader(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	snapshottest.Must(t, err)
	private, public := filepath.Join(dir, id+".key"), filepath.Join(dir, id+".pub")
	s, err := format.LoadSigner(private)
	snapshottest.Must(t, err)
	keys, err := format.LoadKeys(public)
	snapshottest.Must(t, err)
	if s.ID() != id || len(keys) != 1 || keys.Verify("x", id, []byte("x"), s.Sign([]byte("x"))) != nil {
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
	snapshottest.Must(t, err)
	open, err := os.ReadFile(public)
	snapshottest.Must(t, err)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, disk.ErrKey) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want ErrKey with the path", name, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o644, 0o604, 0o660, 0o700, 0o444} {
		snapshottest.Must(t, os.Chmod(private, mode))
		_, err := format.LoadSigner(private)
		refused(mode.String(), err)
	}
	for _, mode := range []os.FileMode{0o400, 0o600} {
		snapshottest.Must(t, os.Chmod(private, mode))
		if _, err := format.LoadSigner(private); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for name, b := range map[string][]byte{"empty": nil, "half": content[:len(content)/2], "not PEM": []byte("key"),
		"public key": open,
		"two keys":   append(bytes.Clone(content), content...), "too large": append(bytes.Clone(content), make([]byte,
			4<<10)...)} {
		snapshottest.Must(t, os.WriteFile(private, b, 0o600))
		_, err := format.LoadSigner(private)
		refused(name, err)
		if name != "public key" {
			_, err = format.LoadKeys(private)
			refused(name, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		_, err := format.LoadSigner(path)
		refused(path, err)
		_, err = format.LoadKeys(path)
		refused(path, err)
	}
	if _, err := format.NewSigner(nil); !errors.Is(err, disk.ErrKey) {
		t.Errorf("an empty key: %v", err)
	}
}
