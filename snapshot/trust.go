package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Trust is what a reader asks of a version besides digests and golden events. The zero value asks that it has not
// expired.
type Trust struct {
	Keys         Keys             // versions and aliases have to be signed by one of them; nil accepts unsigned ones
	AllowExpired bool             // accept versions past the expiry in their manifest
	Now          func() time.Time // clock for expiry; nil is time.Now
}

func (t Trust) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// fileReader reads a file of one version, of at most limit bytes, into memory that is the caller's. A file that is not
// there is fs.ErrNotExist. It may be called for several files at once.
type fileReader func(name string, limit int64) ([]byte, error)

// load reads, verifies, parses and tests a version, in this order: size of the manifest, signature over its bytes, its
// digest, that it is the version that p names, expiry (the renewal of p is verified already), size and digest of each
// file; and only then that file is parsed.
func (t Trust) load(model string, p Pointer, read fileReader) (*Model, error) {
	m, err := t.head(model, p, read)
	if err != nil {
		return nil, err
	}
	manifest := &m.manifest
	m.contents = Contents{
		Schema:      manifest.Schema,
		Kernel:      manifest.Kernel,
		Degree:      manifest.Degree,
		Link:        manifest.Link,
		NumFeatures: manifest.NumFeatures,
		NumOutputs:  manifest.NumOutputs,
		NumBasis:    manifest.NumBasis,
		FoldIn:      manifest.FoldIn,
		NoFoldIn:    manifest.NoFoldIn,
		Meta:        manifest.Meta,
	}
	if err := m.checkForm(); err != nil {
		return nil, err
	}
	var golden []byte
	keep := func(b []byte) error {
		golden = b
		return nil
	}
	if err := readFiles(read, manifest, [3]func([]byte) error{m.decodeParameters, m.decodeNames, keep}); err != nil {
		return nil, err
	}
	if err := m.readCoChoices(read); err != nil {
		return nil, err
	}
	if err := manifest.FoldIn.validate(&m.contents); err != nil {
		return nil, fmt.Errorf("manifest.json: %w: %w", ErrFormat, err)
	}
	return m, checkGolden(m, golden)
}

// VerifyFiles returns an error unless files, by name, are those of the version that a pointer names: its manifest,
// signed if there are keys, and what that vouches for. It neither parses them nor asks whether the version has expired.
// It returns ErrNotFound, ErrSignature, ErrDigest or ErrFormat.
func (t Trust) VerifyFiles(model string, p Pointer, files map[string][]byte) error {
	t.AllowExpired = true
	read := func(name string, limit int64) ([]byte, error) {
		b, ok := files[name]
		switch {
		case !ok:
			return nil, fs.ErrNotExist
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, ErrDigest, len(b), limit)
		}
		return b, nil
	}
	m, err := t.head(model, p, read)
	if err == nil {
		verified := func([]byte) error { return nil }
		err = readFiles(read, &m.manifest, [3]func([]byte) error{verified, verified, verified})
	}
	if err == nil {
		_, err = m.manifest.readCoChoices(read)
	}
	if err != nil {
		return fmt.Errorf("snapshot: files of %s version %d: %w", model, p.Version, err)
	}
	return nil
}

// head is load up to the expiry: a model that has its manifest only.
func (t Trust) head(model string, p Pointer, read fileReader) (*Model, error) {
	raw, err := read(ManifestFile, maxManifestBytes)
	if err != nil {
		return nil, absent(err)
	}
	m := &Model{}
	if t.Keys != nil {
		sig, err := read(SignatureFile, maxSignatureBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if m.signedBy, err = t.Keys.verifyManifest(raw, sig); err != nil {
			return nil, err
		}
	}
	if m.manifest, err = decodeManifest(raw); err != nil {
		return nil, err
	}
	manifest := &m.manifest
	m.expires = p.expiry(manifest)
	switch {
	case manifest.Model != model || manifest.Version != p.Version:
		return nil, fmt.Errorf(
			"%w: the manifest is that of model %s version %d: restore the directory",
			ErrDigest,
			manifest.Model,
			manifest.Version,
		)
	case p.ManifestDigest != "" && p.ManifestDigest != manifest.Digest:
		return nil, fmt.Errorf(
			"%w: the alias names manifest %s, version %d has %s: set the alias again",
			ErrDigest,
			p.ManifestDigest,
			p.Version,
			manifest.Digest,
		)
	case !t.AllowExpired && m.IsExpired(t.now()):
		return nil, fmt.Errorf(
			"%w: version %d was valid until %s: publish a new one",
			ErrExpired,
			p.Version,
			m.expires.Format(time.RFC3339),
		)
	}
	return m, nil
}

// readVersion loads a version from the directory of a model. A pointer without a digest does not pin the manifest.
func (t Trust) readVersion(root *os.Root, model string, p Pointer) (*Model, error) {
	dir, err := versionDir(root, p.Version)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	m, err := t.load(model, p, func(name string, limit int64) ([]byte, error) { return readFile(dir, name, limit) })
	if err != nil {
		return nil, err
	}
	m.manifest.Cut, err = readCut(dir, &m.manifest)
	m.contents.Meta.Cut = m.manifest.Cut
	return m, err
}
