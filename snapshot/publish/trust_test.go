package publish

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// Nothing that a file or a server sends as an alias, a signature or a log makes a reader panic, and what is accepted is
// in its one form.
func FuzzPointer(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := format.NewSigner(key)
	if err != nil {
		f.Fatal(err)
	}
	p := pointer.Pointer{Version: 3, ManifestDigest: "sha256:00", Sequence: 4, Moved: snapshottest.Created,
		Event: EventPublish}
	p.Seal("m", pointer.Latest, s)
	b, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	sig, err := s.SignManifest(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(sig)
	f.Add([]byte(`{"version":1,"manifest_digest":"sha256:00"}` + "\n"))
	keys := format.Keys{s.ID(): key.Public().(ed25519.PublicKey)}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := pointer.DecodePointer(pointer.Latest, b); err != nil {
			if !errors.Is(err, disk.ErrFormat) {
				t.Error(err)
			}
		} else if got.Verify("m", pointer.Latest, keys) == nil && !got.Same(&p) {
			t.Errorf("a forged alias is accepted: %q", b)
		} else if err := got.Verify("m", pointer.Latest, nil); err != nil && !snapshottest.IsRefusal(err) {
			t.Error(err)
		}
		if _, err := keys.VerifyManifest(b, b); !errors.Is(err, disk.ErrSignature) {
			t.Errorf("a forged signature: %v", err)
		}
	})
}
