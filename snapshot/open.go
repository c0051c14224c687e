package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
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

// Open reads a version of a model from a store, unsigned or signed by anybody: it is Trust{}.Open.
func Open(dir, model string, sel Selector) (*Model, error) { return Trust{}.Open(dir, model, sel) }

// Open reads a version of a model from a store. Nothing is parsed before its signature, where there are keys, its size
// and its digest are verified, and the model is returned only once its golden events score as published, so on an error
// keep the model you have. It returns ErrNotFound, ErrName, ErrSignature, ErrDigest, ErrFormat, ErrExpired or
// ErrGolden.
func (t Trust) Open(dir, model string, sel Selector) (*Model, error) {
	m, err := t.open(dir, model, sel)
	if err != nil {
		return nil, fmt.Errorf("snapshot: open %s %s: %w", model, sel, err)
	}
	return m, nil
}

func (t Trust) open(dir, model string, sel Selector) (*Model, error) {
	root, err := openModel(dir, model)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if sel.Version != 0 {
		return t.readVersion(root, model, Pointer{Version: sel.Version})
	}
	if sel.Alias == "" {
		sel.Alias = Champion
	}
	var last Pointer
	for range maxRereads {
		p, err := readAlias(root, sel.Alias)
		if err == nil {
			err = p.Verify(model, sel.Alias, t.Keys)
			readRenewal(root, sel.Alias, &p)
			p.Renewal = p.VerifyRenewal(model, sel.Alias, t.Keys)
		}
		if err != nil {
			return nil, err
		}
		m, err := t.readVersion(root, model, p)
		if !errors.Is(err, ErrNotFound) || p.same(&last) {
			return m, err
		}
		last = p // it may have been pruned since: see whether the alias has moved on
	}
	return nil, fmt.Errorf("%w: the alias moved %d times while it was read: prune less often", ErrNotFound, maxRereads)
}

// mostNamed is how many versions an error names.
const mostNamed = 10

func versionDir(root *os.Root, version int64) (*os.Root, error) {
	name := strconv.FormatInt(version, 10)
	st, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || version < 1 {
		there, _ := numbersIn(root) // only to say which there are
		newest := strings.Trim(fmt.Sprint(there[max(0, len(there)-mostNamed):]), "[]")
		return nil, fmt.Errorf(
			"%w: no version %d (the newest that there are: %s): it was pruned or never published",
			ErrNotFound,
			version,
			newest,
		)
	}
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%w: version %d is not a directory", ErrFormat, version)
	}
	dir, err := root.OpenRoot(name)
	return dir, absent(err)
}

// openVersion opens the directory of a version and verifies its manifest, with its signature unless keys is nil; the
// caller closes dir.
func openVersion(root *os.Root, model string, version int64, keys Keys) (dir *os.Root, m Manifest, err error) {
	if dir, err = versionDir(root, version); err != nil {
		return nil, m, err
	}
	b, err := readFile(dir, ManifestFile, maxManifestBytes)
	if err == nil && keys != nil {
		var sig []byte
		if sig, err = readFile(dir, SignatureFile, maxSignatureBytes); err == nil || errors.Is(err, fs.ErrNotExist) {
			_, err = keys.verifyManifest(b, sig)
		}
	}
	if err == nil {
		m, err = decodeManifest(b)
	}
	if err == nil && (m.Model != model || m.Version != version) {
		err = fmt.Errorf(
			"%w: the manifest is that of model %s version %d: restore the directory",
			ErrDigest,
			m.Model,
			m.Version,
		)
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

// readFiles reads the three files that a manifest vouches for, side by side, and hands each to its use, in the order of
// the manifest, as soon as its size and digest are verified. Uses run at the same time. Of several errors it returns
// that of the first file.
func readFiles(read fileReader, m *Manifest, use [3]func(b []byte) error) error {
	want := [...]struct {
		name  string
		limit int64
	}{{tensorsFile, maxModelBytes + maxHeaderBytes}, {vocabularyFile, maxNamesBytes}, {goldenFile, maxGoldenBytes}}
	if len(m.Files) != len(want) {
		return fmt.Errorf("manifest.json: %w: %d files, want %d", ErrFormat, len(m.Files), len(want))
	}
	for i, w := range want {
		if f := m.Files[i]; f.Name != w.name || f.Bytes < 0 || f.Bytes > w.limit {
			return fmt.Errorf(
				"manifest.json: %w: file %q of %d bytes, want %s of at most %d",
				ErrFormat,
				f.Name,
				f.Bytes,
				w.name,
				w.limit,
			)
		}
	}
	if err := m.checkPayload(); err != nil {
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

// readVouched reads a file of a version and verifies its size and digest.
func readVouched(read fileReader, f *File) ([]byte, error) {
	b, err := read(f.Name, f.Bytes)
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
	return b, nil
}
