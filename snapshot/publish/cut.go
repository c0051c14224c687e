package publish

import (
	"fmt"
	"os"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// Cut returns where the events behind a version end, given its manifest: a large cut is read from its file. It returns
// ErrNotFound, ErrDigest or ErrFormat.
func (s *Store) Cut(m *format.Manifest) ([]format.Cut, error) {
	if m.CutFile == nil {
		return m.Cut, nil
	}
	cut, err := disk.InModel(s.dir, m.Model, func(root *os.Root) ([]format.Cut, error) {
		dir, err := disk.VersionDir(root, m.Version)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return verify.ReadCut(verify.FilesOf(dir), m)
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: cut of %s version %d: %w", m.Model, m.Version, err)
	}
	return cut, nil
}
