package snapshot

import (
	"encoding/json"
	"fmt"
	"os"
)

// cutFile has the cut of a version whose manifest has no room for it.
const cutFile = "cut.json"

// A cut of more than maxInlineCut bytes of JSON, some 200 partitions, is stored in a separate file: a manifest is
// read often, and whole. maxCutBytes has room for 100,000 partitions of topics with the longest names.
const (
	maxInlineCut = 16 << 10
	maxCutBytes  = 32 << 20
)

// moveCut takes a large cut out of the manifest and returns the file that it goes to, nil for a small one, which stays.
func (m *Manifest) moveCut() (*stagedFile, error) {
	b, err := json.Marshal(m.Cut)
	if err != nil || len(b) <= maxInlineCut {
		return nil, err
	}
	b = append(b, '\n')
	if len(b) > maxCutBytes {
		return nil, fmt.Errorf("cut of %d bytes, the limit is %d: fewer partitions", len(b), maxCutBytes)
	}
	m.Cut, m.CutFile = []Cut{}, &File{cutFile, int64(len(b)), hexSum(b)}
	return &stagedFile{cutFile, b}, nil
}

// readCut returns the cut of a version, from its file if it has one.
func readCut(dir *os.Root, m *Manifest) ([]Cut, error) {
	f := m.CutFile
	if f == nil {
		return m.Cut, nil
	}
	if f.Name != cutFile || f.Bytes < 0 || f.Bytes > maxCutBytes {
		return nil, fmt.Errorf(
			"manifest.json: %w: file %q of %d bytes, want %s of at most %d",
			ErrFormat,
			f.Name,
			f.Bytes,
			cutFile,
			maxCutBytes,
		)
	}
	b, err := readFile(dir, f.Name, f.Bytes)
	if err != nil {
		return nil, absent(err)
	}
	if sum := hexSum(b); int64(len(b)) != f.Bytes || sum != f.SHA256 {
		return nil, fmt.Errorf(
			"%s: %w: %d bytes with SHA-256 %s, published with %d bytes and %s: restore the file or take another version",
			f.Name,
			ErrDigest,
			len(b),
			sum,
			f.Bytes,
			f.SHA256,
		)
	}
	var cut []Cut
	if err := json.Unmarshal(b, &cut); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", f.Name, ErrFormat, err)
	}
	return cut, nil
}

// Cut returns where the events behind a version end, given its manifest: a large cut is read from its file. It returns
// ErrNotFound, ErrDigest or ErrFormat.
func (s *Store) Cut(m *Manifest) ([]Cut, error) {
	if m.CutFile == nil {
		return m.Cut, nil
	}
	cut, err := inModel(s.dir, m.Model, func(root *os.Root) ([]Cut, error) {
		dir, err := versionDir(root, m.Version)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return readCut(dir, m)
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: cut of %s version %d: %w", m.Model, m.Version, err)
	}
	return cut, nil
}
