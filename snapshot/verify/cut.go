package verify

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// ReadCut returns the cut of a version, from its file if it has one.
func ReadCut(dir *os.Root, m *format.Manifest) ([]format.Cut, error) {
	f := m.CutFile
	if f == nil {
		return m.Cut, nil
	}
	if f.Name != format.CutFile || f.Bytes < 0 || f.Bytes > format.MaxCutBytes {
		return nil, fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d", disk.ErrFormat, f.Name,
			f.Bytes, format.CutFile, format.MaxCutBytes)
	}
	b, err := disk.ReadFile(dir, f.Name, f.Bytes)
	if err != nil {
		return nil, disk.Absent(err)
	}
	if sum := disk.HexSum(b); int64(len(b)) != f.Bytes || sum != f.SHA256 {
		return nil, fmt.Errorf(
			"%s: %w: %d bytes with SHA-256 %s, published with %d bytes and %s: restore the file or take another version",
			f.Name,
			disk.ErrDigest,
			len(b),
			sum,
			f.Bytes,
			f.SHA256,
		)
	}
	var cut []format.Cut
	if err := json.Unmarshal(b, &cut); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", f.Name, disk.ErrFormat, err)
	}
	return cut, nil
}
