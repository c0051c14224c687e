package publish

import (
	"crypto/elliptic"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestModelKeysRefused: other curves, other keys and files that others may read are no keys to sign with.
func TestModelKeysRefused(t *testing.T) {
	other, public, _ := snapshottest.ModelKeys(t, elliptic.P384())
	open, _, _ := snapshottest.ModelKeys(t, elliptic.P256())
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, public, open, filepath.Join(t.TempDir(), "none")} {
		if s, err := LoadModelSigner(path); !errors.Is(err, disk.ErrKey) {
			t.Errorf("%s: %v, error %v", path, s, err)
		}
	}
}
