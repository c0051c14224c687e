package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Trust is what a reader asks of a version besides digests and golden events. The zero value asks that it has not expired.
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

// fileReader reads a file of one version, of at most limit bytes. A file that is not there is fs.ErrNotExist.
type fileReader func(name string, limit int64) ([]byte, error)

// load reads, verifies, parses and tests a version, in this order: size of the manifest, signature over its bytes, its digest, that it is
// the version that p names, expiry, sizes and digests of the files; and only then the files are parsed.
func (t Trust) load(model string, p Pointer, read fileReader) (*Model, error) {
	raw, err := read(manifestFile, maxManifestBytes)
	if err != nil {
		return nil, absent(err)
	}
	m := &Model{}
	if t.Keys != nil {
		sig, err := read(signatureFile, maxSignatureBytes)
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
	switch {
	case manifest.Model != model || manifest.Version != p.Version:
		return nil, fmt.Errorf("%w: the manifest is that of model %s version %d: restore the directory", ErrDigest, manifest.Model, manifest.Version)
	case p.ManifestDigest != "" && p.ManifestDigest != manifest.Digest:
		return nil, fmt.Errorf("%w: the alias names manifest %s, version %d has %s: set the alias again", ErrDigest, p.ManifestDigest, p.Version, manifest.Digest)
	case !t.AllowExpired && m.IsExpired(t.now()):
		return nil, fmt.Errorf("%w: version %d was valid until %s: publish a new one", ErrExpired, p.Version, manifest.Expires.Format(time.RFC3339))
	}
	tensors, names, golden, err := readFiles(read, manifest)
	if err != nil {
		return nil, err
	}
	m.contents = Contents{Schema: manifest.Schema, Kernel: manifest.Kernel, Link: manifest.Link,
		NumFeatures: manifest.NumFeatures, NumOutputs: manifest.NumOutputs, NumBasis: manifest.NumBasis, Meta: manifest.Meta}
	if err := m.decode(tensors, names); err != nil {
		return nil, err
	}
	return m, checkGolden(m, golden)
}

// readVersion loads a version from the directory of a model. A pointer without a digest does not pin the manifest.
func (t Trust) readVersion(root *os.Root, model string, p Pointer) (*Model, error) {
	dir, err := versionDir(root, p.Version)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return t.load(model, p, func(name string, limit int64) ([]byte, error) { return readFile(dir, name, limit) })
}
