package verify

import (
	"encoding/json"
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// ReadCut returns the cut of a version, from its file if it has one.
func ReadCut(read FileReader, m *format.Manifest) ([]format.Cut, error) {
	f := m.CutFile
	if f == nil {
		return m.Cut, nil
	}
	if f.Name != format.CutFile || f.Bytes < 0 || f.Bytes > format.MaxCutBytes {
		return nil, fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d", disk.ErrFormat, f.Name,
			f.Bytes, format.CutFile, format.MaxCutBytes)
	}
	b, err := readVouched(read, f)
	if err != nil {
		return nil, err
	}
	var cut []format.Cut
	if err := json.Unmarshal(b, &cut); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", f.Name, disk.ErrFormat, err)
	}
	return cut, nil
}
