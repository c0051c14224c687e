package publish

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// forged returns an error if the store has keys and none of them signed an alias as it is, or if nobody can have
// counted to its number.
func (s *Store) forged(model, alias string, p *pointer.Pointer) error {
	return p.Verify(model, alias, s.Keys)
}

// forgedVersion reports whether the store has keys and none of them signed a version.
func (s *Store) forgedVersion(root *os.Root, model string, version int64) bool {
	dir, _, err := verify.OpenVersion(root, model, version, s.Keys)
	if err == nil {
		err = dir.Close()
	}
	return errors.Is(err, disk.ErrSignature)
}

// Newest returns the manifest of the newest version that the store's keys signed, and that accept, if not nil, takes.
// It returns ErrNotFound if no version is.
func (s *Store) Newest(model string, accept func(*format.Manifest) bool) (format.Manifest, error) {
	m, err := disk.InModel(s.dir, model, func(root *os.Root) (format.Manifest, error) {
		versions, err := disk.NumbersIn(root)
		if err != nil {
			return format.Manifest{}, err
		}
		for _, v := range slices.Backward(versions) {
			dir, m, err := verify.OpenVersion(root, model, v, s.Keys)
			if err != nil {
				continue
			}
			if err := dir.Close(); err != nil {
				return format.Manifest{}, err
			}
			if accept == nil || accept(&m) {
				return m, nil
			}
		}
		return format.Manifest{}, fmt.Errorf("%w: no such version", disk.ErrNotFound)
	})
	if err != nil {
		return format.Manifest{}, fmt.Errorf("snapshot: newest version of %s: %w", model, err)
	}
	return m, nil
}
