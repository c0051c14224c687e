package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// Trust is what a reader asks of a version besides digests and golden events. The zero value asks that it has not
// expired.
type Trust struct {
	Keys         format.Keys      // versions and aliases have to be signed by one of them; nil accepts unsigned ones
	AllowExpired bool             // accept versions past the expiry in their manifest
	Now          func() time.Time // clock for expiry; nil is time.Now
}

func (t Trust) Time() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// FileReader reads a file of one version, of at most limit bytes, into memory that is the caller's. A file that is not
// there is fs.ErrNotExist. It may be called for several files at once.
type FileReader func(name string, limit int64) ([]byte, error)

// FilesOf reads the files of a version from its directory.
func FilesOf(dir *os.Root) FileReader {
	return func(name string, limit int64) ([]byte, error) { return disk.ReadFile(dir, name, limit) }
}

// Load reads, verifies, parses and tests a version: see loader. Of a version whose large cut is not there, or damaged,
// it returns the model without: nothing is scored with that.
func (t Trust) Load(model string, p pointer.Pointer, read FileReader) (*scorer.Model, error) {
	l, err := t.loader(model, p, read)
	if err != nil {
		return nil, err
	}
	manifest := l.Model().Manifest()
	cut, err := ReadCut(read, &manifest)
	switch {
	case err == nil:
		l.Cut(cut)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, disk.ErrNotFound), errors.Is(err, disk.ErrDigest),
		errors.Is(err, disk.ErrFormat):
	default:
		return nil, err
	}
	return l.Model(), nil
}

// loader reads, verifies, parses and tests a version, in this order: size of the manifest, signature over its bytes,
// its digest, that it is the version that p names, expiry (the renewal of p is verified already), size and digest of
// each file; and only then that file is parsed.
func (t Trust) loader(model string, p pointer.Pointer, read FileReader) (*scorer.Loader, error) {
	h, err := t.head(model, p, read)
	if err != nil {
		return nil, err
	}
	l := scorer.NewLoader(&h.manifest, h.signedBy, h.expires)
	if err := l.Form(); err != nil {
		return nil, err
	}
	var golden []byte
	keep := func(b []byte) error {
		golden = b
		return nil
	}
	uses := [3]func([]byte) error{l.Parameters, l.Names, keep}
	if err := ReadFiles(read, &h.manifest, uses); err != nil {
		return nil, err
	}
	together, err := readCoChoices(read, &h.manifest)
	if err == nil {
		err = l.CoChoices(together)
	}
	if err != nil {
		return nil, err
	}
	known, err := readTables(read, &h.manifest)
	if err == nil {
		err = l.Tables(known)
	}
	if err != nil {
		return nil, err
	}
	trees, err := readTrees(read, &h.manifest)
	if err == nil {
		err = l.Trees(trees)
	}
	if err != nil {
		return nil, err
	}
	if err := l.FoldIn(); err != nil {
		return nil, err
	}
	return l, l.Golden(golden)
}

// VerifyFiles returns an error unless files, by name, are those of the version that a pointer names: its manifest,
// signed if there are keys, and what that vouches for. It neither parses them nor asks whether the version has expired.
// It returns ErrNotFound, ErrSignature, ErrDigest or ErrFormat.
func (t Trust) VerifyFiles(model string, p pointer.Pointer, files map[string][]byte) error {
	t.AllowExpired = true
	read := func(name string, limit int64) ([]byte, error) {
		b, ok := files[name]
		switch {
		case !ok:
			return nil, fs.ErrNotExist
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, disk.ErrDigest, len(b), limit)
		}
		return b, nil
	}
	h, err := t.head(model, p, read)
	if err == nil {
		verified := func([]byte) error { return nil }
		err = ReadFiles(read, &h.manifest, [3]func([]byte) error{verified, verified, verified})
	}
	if err == nil {
		_, err = readCoChoices(read, &h.manifest)
	}
	if err == nil {
		_, err = readTables(read, &h.manifest)
	}
	if err == nil {
		_, err = readTrees(read, &h.manifest)
	}
	if err != nil {
		return fmt.Errorf("snapshot: files of %s version %d: %w", model, p.Version, err)
	}
	return nil
}

// header is what is known of a version before its files are read.
type header struct {
	manifest format.Manifest
	signedBy string    // the id of a trusted key, "" without keys
	expires  time.Time // zero is never
}

// head is loader up to the expiry.
func (t Trust) head(model string, p pointer.Pointer, read FileReader) (*header, error) {
	raw, err := read(disk.ManifestFile, format.MaxManifestBytes)
	if err != nil {
		return nil, disk.Absent(err)
	}
	h := new(header)
	if t.Keys != nil {
		sig, err := read(format.SignatureFile, format.MaxSignatureBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if h.signedBy, err = t.Keys.VerifyManifest(raw, sig); err != nil {
			return nil, err
		}
	}
	if h.manifest, err = format.DecodeManifest(raw); err != nil {
		return nil, err
	}
	manifest := &h.manifest
	h.expires = p.Expiry(manifest)
	switch {
	case manifest.Model != model || manifest.Version != p.Version:
		return nil, fmt.Errorf("%w: the manifest is that of model %s version %d: restore the directory", disk.ErrDigest,
			manifest.Model, manifest.Version)
	case p.ManifestDigest != "" && p.ManifestDigest != manifest.Digest:
		return nil, fmt.Errorf("%w: the alias names manifest %s, version %d has %s: set the alias again",
			disk.ErrDigest, p.ManifestDigest, p.Version, manifest.Digest)
	case !t.AllowExpired && !h.expires.IsZero() && !t.Time().Before(h.expires):
		return nil, fmt.Errorf("%w: version %d was valid until %s: publish a new one", disk.ErrExpired, p.Version,
			h.expires.Format(time.RFC3339))
	}
	return h, nil
}

// ReadVersion loads a version from the directory of a model. A pointer without a digest does not pin the manifest.
func (t Trust) ReadVersion(root *os.Root, model string, p pointer.Pointer) (*scorer.Model, error) {
	dir, err := disk.VersionDir(root, p.Version)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	read := FilesOf(dir)
	l, err := t.loader(model, p, read)
	if err != nil {
		return nil, err
	}
	manifest := l.Model().Manifest()
	cut, err := ReadCut(read, &manifest)
	l.Cut(cut)
	return l.Model(), err
}
