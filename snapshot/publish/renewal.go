package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Renew confirms that an alias is still valid, and that the version it names may be used until expires; zero adds
// nothing to what its manifest says. It moves nothing and writes nothing into the publish log: one small file is
// replaced, durably. It returns ErrSignature for an alias that the store's keys did not sign, or that is signed while
// the store has no key.
func (s *Store) Renew(ctx context.Context, model, alias string, expires time.Time) (pointer.Pointer, error) {
	var p pointer.Pointer
	err := s.withModel(ctx, model, false, func(root *os.Root, _ Numbers) (err error) {
		if p, err = soundAlias(root, model, alias); err == nil {
			err = p.Verify(model, alias, s.Keys)
		}
		if err == nil && s.Signer == nil && p.KeyID != "" {
			err = fmt.Errorf(
				"alias %s: %w: it is signed by key %s, and there is no key to renew it with: set publish.signing_key_file",
				alias,
				disk.ErrSignature,
				p.KeyID,
			)
		}
		if err != nil {
			return err
		}
		r := &p.Renewal
		r.Renewed, r.Expires = s.Now().UTC().Truncate(time.Millisecond), expires.UTC().Truncate(time.Millisecond)
		if s.Signer != nil {
			r.KeyID = s.Signer.ID()
		}
		text := r.Text(model, alias, &p)
		r.Digest = "sha256:" + disk.HexSum(text)
		if s.Signer != nil {
			r.Signature = s.Signer.Sign(text)
		}
		if err := s.pushAlias(ctx, root, model, alias, &p); err != nil {
			return err
		}
		return writeRenewal(root, alias, r)
	})
	if err != nil {
		return pointer.Pointer{}, fmt.Errorf("snapshot: renew %s of %s: %w", alias, model, err)
	}
	return p, nil
}

func writeRenewal(root *os.Root, alias string, r *pointer.Renewal) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := root.Mkdir(disk.RenewalDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := root.OpenRoot(disk.RenewalDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.RemoveAll(disk.NewAlias); err != nil { // of a writer that was killed
		return err
	}
	if err := durable.Create(dir, disk.NewAlias, 0o644, durable.Bytes(append(b, '\n'))); err != nil {
		return err
	}
	return durable.Rename(dir, disk.NewAlias, alias)
}
