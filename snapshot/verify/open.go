package verify

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// Selector chooses a version: by number if Version is not 0, else by alias; the zero value is the alias "champion".
type Selector struct {
	Alias   string
	Version int64
}

func (s Selector) String() string {
	switch {
	case s.Version != 0:
		return "version " + strconv.FormatInt(s.Version, 10)
	case s.Alias == "":
		return "alias " + pointer.Champion
	}
	return "alias " + s.Alias
}

// maxRereads bounds how often Open follows an alias whose version was pruned before it was read.
const maxRereads = 100

// Open reads a version of a model from a store. Nothing is parsed before its signature, where there are keys, its size
// and its digest are verified, and the model is returned only once its golden events score as published, so on an error
// keep the model you have. It returns ErrNotFound, ErrName, ErrSignature, ErrDigest, ErrFormat, ErrExpired or
// ErrGolden.
func (t Trust) Open(dir, model string, sel Selector) (*scorer.Model, error) {
	m, err := t.open(dir, model, sel)
	if err != nil {
		return nil, fmt.Errorf("snapshot: open %s %s: %w", model, sel, err)
	}
	return m, nil
}

func (t Trust) open(dir, model string, sel Selector) (*scorer.Model, error) {
	root, err := disk.OpenModel(dir, model)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if sel.Version != 0 {
		return t.ReadVersion(root, model, pointer.Pointer{Version: sel.Version})
	}
	if sel.Alias == "" {
		sel.Alias = pointer.Champion
	}
	var last pointer.Pointer
	for range maxRereads {
		p, err := ReadAlias(root, sel.Alias)
		if err == nil {
			err = p.Verify(model, sel.Alias, t.Keys)
			ReadRenewal(root, sel.Alias, &p)
			p.Renewal = p.VerifyRenewal(model, sel.Alias, t.Keys)
		}
		if err != nil {
			return nil, err
		}
		m, err := t.ReadVersion(root, model, p)
		if !errors.Is(err, disk.ErrNotFound) || p.Same(&last) {
			return m, err
		}
		last = p // it may have been pruned since: see whether the alias has moved on
	}
	return nil, fmt.Errorf("%w: the alias moved %d times while it was read: prune less often", disk.ErrNotFound,
		maxRereads)
}

// OpenVersion opens the directory of a version and verifies its manifest, with its signature unless keys is nil; the
// caller closes dir.
func OpenVersion(root *os.Root, model string, version int64, keys format.Keys) (dir *os.Root, m format.Manifest,
	err error) {
	if dir, err = disk.VersionDir(root, version); err != nil {
		return nil, m, err
	}
	b, err := disk.ReadFile(dir, disk.ManifestFile, format.MaxManifestBytes)
	if err == nil && keys != nil {
		var sig []byte
		if sig, err = disk.ReadFile(dir, format.SignatureFile, format.MaxSignatureBytes); err == nil || errors.Is(err,
			fs.ErrNotExist) {
			_, err = keys.VerifyManifest(b, sig)
		}
	}
	if err == nil {
		m, err = format.DecodeManifest(b)
	}
	if err == nil && (m.Model != model || m.Version != version) {
		err = fmt.Errorf("%w: the manifest is that of model %s version %d: restore the directory", disk.ErrDigest,
			m.Model, m.Version)
	}
	if err != nil {
		return nil, m, errors.Join(disk.Absent(err), dir.Close())
	}
	return dir, m, nil
}

// ReadFiles reads the three files that a manifest vouches for, side by side, and hands each to its use, in the order of
// the manifest, as soon as its size and digest are verified. Uses run at the same time. Of several errors it returns
// that of the first file.
func ReadFiles(read FileReader, m *format.Manifest, use [3]func(b []byte) error) error {
	want := [...]struct {
		name  string
		limit int64
	}{{disk.TensorsFile, format.MaxModelBytes + format.MaxHeaderBytes}, {disk.VocabularyFile, format.MaxNamesBytes},
		{disk.GoldenFile, format.MaxGoldenBytes}}
	if len(m.Files) != len(want) {
		return fmt.Errorf("manifest.json: %w: %d files, want %d", disk.ErrFormat, len(m.Files), len(want))
	}
	for i, w := range want {
		if f := m.Files[i]; f.Name != w.name || f.Bytes < 0 || f.Bytes > w.limit {
			return fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d", disk.ErrFormat, f.Name,
				f.Bytes, w.name, w.limit)
		}
	}
	if err := m.CheckPayload(); err != nil {
		return err
	}
	var errs [len(want)]error
	var all sync.WaitGroup
	for i := range want {
		all.Go(func() {
			b, err := readVouched(read, &m.Files[i])
			if err == nil {
				err = use[i](b)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return cmp.Or(errs[:]...)
}

// readCoChoices returns the file with the co-choices of a version, verified; nil where it has none.
func readCoChoices(read FileReader, m *format.Manifest) ([]byte, error) {
	return readBlock(read, m.CoChoices, format.CoChoicesFile, format.MaxCoChoicesBytes)
}

// readTrees returns the file with the trees of a version, verified; nil where it has none.
func readTrees(read FileReader, m *format.Manifest) ([]byte, error) {
	return readBlock(read, m.Trees, format.TreesFile, format.MaxTreesBytes)
}

// readBlock returns a file that a version may have, of a name and a size at most; nil where it has none.
func readBlock(read FileReader, f *format.File, name string, most int64) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	if f.Name != name || f.Bytes < 1 || f.Bytes > most {
		return nil, fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d",
			disk.ErrFormat, f.Name, f.Bytes, name, most)
	}
	return readVouched(read, f)
}

// readTables returns the file with the tables of a version, verified; nil where it has none.
func readTables(read FileReader, m *format.Manifest) ([]byte, error) {
	f := m.Tables
	if f == nil {
		return nil, nil
	}
	if f.Name != format.TablesFile || f.Bytes < 1 || f.Bytes > format.MaxTablesBytes {
		return nil, fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d",
			disk.ErrFormat, f.Name, f.Bytes, format.TablesFile, format.MaxTablesBytes)
	}
	return readVouched(read, f)
}

// readVouched reads a file of a version and verifies its size and digest.
func readVouched(read FileReader, f *format.File) ([]byte, error) {
	b, err := read(f.Name, f.Bytes)
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
	return b, nil
}
