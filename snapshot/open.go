package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
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
		return "alias " + Champion
	}
	return "alias " + s.Alias
}

// maxRereads bounds how often Open follows an alias whose version was pruned before it was read.
const maxRereads = 100

// Open reads a version of a model from a store. Nothing is parsed before its size and digest are verified, and the model is returned only once
// its golden events score as published, so on an error keep the model you have. It returns ErrNotFound, ErrName, ErrDigest,
// ErrFormat or ErrGolden.
func Open(dir, model string, sel Selector) (*Model, error) {
	m, err := open(dir, model, sel)
	if err != nil {
		return nil, fmt.Errorf("snapshot: open %s %s: %w", model, sel, err)
	}
	return m, nil
}

func open(dir, model string, sel Selector) (*Model, error) {
	root, err := openModel(dir, model)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if sel.Version != 0 {
		return readVersion(root, model, pointer{Version: sel.Version})
	}
	if sel.Alias == "" {
		sel.Alias = Champion
	}
	p, err := readAlias(root, sel.Alias)
	if err != nil {
		return nil, err
	}
	for range maxRereads {
		m, err := readVersion(root, model, p)
		if !errors.Is(err, ErrNotFound) {
			return m, err
		}
		now, aliasErr := readAlias(root, sel.Alias)
		if aliasErr != nil || now == p {
			return nil, errors.Join(err, aliasErr)
		}
		p = now
	}
	return nil, fmt.Errorf("%w: the alias moved %d times while it was read: prune less often", ErrNotFound, maxRereads)
}

// openVersion opens the directory of a version and verifies its manifest; the caller closes dir.
func openVersion(root *os.Root, model string, version int64) (dir *os.Root, m Manifest, err error) {
	name := strconv.FormatInt(version, 10)
	st, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || version < 1 {
		return nil, m, fmt.Errorf("%w: no version %d: it was pruned or never published", ErrNotFound, version)
	}
	if err != nil {
		return nil, m, err
	}
	if !st.IsDir() {
		return nil, m, fmt.Errorf("%w: version %d is not a directory", ErrFormat, version)
	}
	if dir, err = root.OpenRoot(name); err != nil {
		return nil, m, absent(err)
	}
	b, err := readFile(dir, manifestFile, maxManifestBytes)
	if err == nil {
		m, err = decodeManifest(b)
	}
	if err == nil && (m.Model != model || m.Version != version) {
		err = fmt.Errorf("%w: the manifest is that of model %s version %d: restore the directory", ErrDigest, m.Model, m.Version)
	}
	if err != nil {
		return nil, m, errors.Join(absent(err), dir.Close())
	}
	return dir, m, nil
}

// absent turns the error for a file that is not there into ErrNotFound.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the version is incomplete or was just pruned: %w", ErrNotFound, err)
	}
	return err
}

// readVersion reads and verifies a whole version. A pointer without a digest does not pin the manifest.
func readVersion(root *os.Root, model string, p pointer) (*Model, error) {
	dir, manifest, err := openVersion(root, model, p.Version)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if p.ManifestDigest != "" && p.ManifestDigest != manifest.Digest {
		return nil, fmt.Errorf("%w: the alias names manifest %s, version %d has %s: set the alias again", ErrDigest, p.ManifestDigest, p.Version, manifest.Digest)
	}
	tensors, names, golden, err := readFiles(dir, &manifest)
	if err != nil {
		return nil, err
	}
	m := &Model{manifest: manifest, contents: Contents{Schema: manifest.Schema, Kernel: manifest.Kernel, Link: manifest.Link,
		NumFeatures: manifest.NumFeatures, NumOutputs: manifest.NumOutputs, NumBasis: manifest.NumBasis, Meta: manifest.Meta}}
	if err := m.decode(tensors, names); err != nil {
		return nil, err
	}
	return m, checkGolden(m, golden)
}

// decode reads parameters and names into a model whose manifest is set.
func (m *Model) decode(tensors, names []byte) error {
	c := &m.contents
	if m.manifest.Degree != degree {
		return fmt.Errorf("manifest.json: %w: kernel of degree %d, this build has %d", ErrFormat, m.manifest.Degree, degree)
	}
	if err := c.checkShape(); err != nil {
		return fmt.Errorf("manifest.json: %w: %w", ErrFormat, err)
	}
	if err := decodeTensors(c, tensors); err != nil {
		return err
	}
	if err := decodeVocabulary(c, names); err != nil {
		return err
	}
	if err := errors.Join(c.validate(), m.indexNames()); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

// readFiles reads the three files that a manifest vouches for.
func readFiles(dir *os.Root, m *Manifest) (tensors, names, golden []byte, err error) {
	want := []struct {
		name  string
		limit int64
		to    *[]byte
	}{{tensorsFile, maxModelBytes + maxHeaderBytes, &tensors}, {vocabularyFile, maxNamesBytes, &names}, {goldenFile, maxGoldenBytes, &golden}}
	if len(m.Files) != len(want) {
		return nil, nil, nil, fmt.Errorf("manifest.json: %w: %d files, want %d", ErrFormat, len(m.Files), len(want))
	}
	for i, w := range want {
		f := m.Files[i]
		if f.Name != w.name || f.Bytes < 0 || f.Bytes > w.limit {
			return nil, nil, nil, fmt.Errorf("manifest.json: %w: file %q of %d bytes, want %s of at most %d", ErrFormat, f.Name, f.Bytes, w.name, w.limit)
		}
		b, err := readFile(dir, w.name, f.Bytes)
		if err != nil {
			return nil, nil, nil, absent(err)
		}
		if sum := hexSum(b); int64(len(b)) != f.Bytes || sum != f.SHA256 {
			return nil, nil, nil, fmt.Errorf("%s: %w: %d bytes with SHA-256 %s, published with %d bytes and %s: restore the file or take another version",
				w.name, ErrDigest, len(b), sum, f.Bytes, f.SHA256)
		}
		*w.to = b
	}
	digest, err := m.payloadDigest(m.Files[0].SHA256, m.Files[1].SHA256)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("manifest.json: %w: %w", ErrFormat, err)
	}
	if digest != m.PayloadDigest {
		return nil, nil, nil, fmt.Errorf("manifest.json: %w: payload_digest is %s, the files have %s", ErrDigest, m.PayloadDigest, digest)
	}
	return tensors, names, golden, nil
}

// readFile reads a regular file of at most limit bytes; a larger one is refused before memory is taken, with ErrDigest.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	// Looked at before it is opened: opening a pipe would wait for its writer.
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file (%s)", name, ErrFormat, st.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil { // again: an alias may have been replaced meanwhile
		return nil, err
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, ErrDigest, st.Size(), limit)
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%s: %w: shorter than its %d bytes: %w", name, ErrDigest, len(b), err)
	}
	return b, nil
}
