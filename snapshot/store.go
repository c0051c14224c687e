package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The files of a version. The manifest is written last.
const (
	manifestFile   = "manifest.json"
	tensorsFile    = "model.safetensors"
	vocabularyFile = "vocabulary"
	goldenFile     = "golden.jsonl"
)

// staging begins the name of a directory that is being written or removed. Readers never look there.
const staging = ".staging-"

// maxVersion keeps versions exact in JSON numbers of every language.
const maxVersion = 1<<53 - 1

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Store publishes versions of models below a directory. Writers to one model take turns, also across processes of one machine. It is safe
// for concurrent use.
type Store struct{ dir string }

// NewStore returns the store in dir. Nothing is read or created before it is needed.
func NewStore(dir string) *Store { return &Store{dir} }

// Publish writes contents as the next version of a model, moves the alias "latest" to it and returns its manifest. When it returns nil the
// version is durable; when it returns an error there is no new version, or there is one that nothing points to. What a killed
// publisher left behind is removed. It returns ErrName, ErrContents, ErrGolden, the error of ctx, or an error of the file system.
func (s *Store) Publish(ctx context.Context, model string, c *Contents) (Manifest, error) {
	manifest, files, err := encodeVersion(model, c)
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
	}
	err = s.withModel(ctx, model, true, func(root *os.Root) error {
		version, err := nextVersion(root)
		if err != nil {
			return err
		}
		manifest.Version = version
		last, err := manifest.encode()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrContents, err)
		}
		if err := writeVersion(ctx, root, version, append(files, stagedFile{manifestFile, last})); err != nil {
			return err
		}
		return writeAlias(root, Latest, pointer{version, manifest.Digest})
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
	}
	return manifest, nil
}

// stagedFile is a file of a version before it is written.
type stagedFile struct {
	name    string
	content []byte
}

// encodeVersion returns the files of a version but the manifest, and the manifest without its version.
func encodeVersion(model string, c *Contents) (Manifest, []stagedFile, error) {
	if !validName.MatchString(model) {
		return Manifest{}, nil, fmt.Errorf("%w: model %q is not of the form %s", ErrName, model, validName)
	}
	m, err := newModel(c)
	if err != nil {
		return Manifest{}, nil, fmt.Errorf("%w: %w", ErrContents, err)
	}
	if c.Meta.Created.IsZero() {
		return Manifest{}, nil, fmt.Errorf("%w: Meta.Created is not set", ErrContents)
	}
	files := []stagedFile{{name: tensorsFile}, {name: vocabularyFile}, {name: goldenFile}}
	for i, encode := range []func() ([]byte, error){
		func() ([]byte, error) { return encodeTensors(c) },
		func() ([]byte, error) { return encodeVocabulary(c) },
		func() ([]byte, error) { return encodeGolden(m) },
	} {
		if files[i].content, err = encode(); err != nil {
			return Manifest{}, nil, fmt.Errorf("%w: %w", ErrContents, err)
		}
	}
	manifest := newManifest(c)
	manifest.Model = model
	for _, f := range files {
		manifest.Files = append(manifest.Files, File{f.name, int64(len(f.content)), hexSum(f.content)})
	}
	manifest.PayloadDigest, err = manifest.payloadDigest(manifest.Files[0].SHA256, manifest.Files[1].SHA256)
	return manifest, files, err
}

// writeVersion stages the files and renames the directory, so that the version appears at once and whole.
func writeVersion(ctx context.Context, root *os.Root, version int64, files []stagedFile) error {
	name := strconv.FormatInt(version, 10)
	if err := root.Mkdir(staging+name, 0o755); err != nil {
		return err
	}
	dir, err := root.OpenRoot(staging + name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, f := range files {
		if err := errors.Join(ctx.Err(), writeFile(dir, f.name, f.content), failpoint("snapshot.write")); err != nil {
			return errors.Join(err, root.RemoveAll(staging+name))
		}
	}
	if err := errors.Join(syncDir(dir), failpoint("snapshot.synced")); err != nil {
		return err
	}
	if err := errors.Join(root.Rename(staging+name, name), failpoint("snapshot.renamed")); err != nil {
		return err
	}
	return syncDir(root)
}

// writeFile creates or replaces a file; it is durable once its directory is.
func writeFile(root *os.Root, name string, content []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// withModel runs write on the directory of a model, under its lock and with the remains of killed publishers removed.
func (s *Store) withModel(ctx context.Context, model string, create bool, write func(root *os.Root) error) (err error) {
	if create {
		if err := s.makeModel(model); err != nil {
			return err
		}
	}
	root, err := openModel(s.dir, model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	unlock, err := lock(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := sweep(root); err != nil {
		return err
	}
	return write(root)
}

// makeModel creates the directories of a model, durably.
func (s *Store) makeModel(model string) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	store, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := store.Stat(model + "/" + aliasDir); err == nil {
		return nil
	}
	if err := store.MkdirAll(model+"/"+aliasDir, 0o755); err != nil {
		return err
	}
	root, err := store.OpenRoot(model)
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(syncDir(root), syncDir(store))
}

// sweep removes staging directories. The caller holds the lock, so nobody is writing them.
func sweep(root *os.Root) error {
	names, err := list(root, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, staging) {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Versions returns the published versions of a model, ascending, or ErrNotFound.
func (s *Store) Versions(model string) ([]int64, error) {
	root, err := openModel(s.dir, model)
	if err != nil {
		return nil, fmt.Errorf("snapshot: versions of %s: %w", model, err)
	}
	defer root.Close()
	versions, err := versionsIn(root)
	if err != nil {
		return nil, fmt.Errorf("snapshot: versions of %s: %w", model, err)
	}
	return versions, nil
}

// versionsIn lists the directories named by a number. They appear by a rename, so each has its manifest.
func versionsIn(root *os.Root) ([]int64, error) {
	names, err := list(root, ".")
	if err != nil {
		return nil, err
	}
	var versions []int64
	for _, name := range names {
		if v, err := strconv.ParseInt(name, 10, 64); err == nil && v >= 1 && v <= maxVersion && strconv.FormatInt(v, 10) == name {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions, nil
}

// nextVersion is one more than any version there is or that "latest" says there was.
func nextVersion(root *os.Root) (int64, error) {
	versions, err := versionsIn(root)
	if err != nil {
		return 0, err
	}
	p, err := readAlias(root, Latest)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	next := slices.Max(append(versions, p.Version)) + 1
	if next > maxVersion {
		return 0, fmt.Errorf("%w: no version number after %d: remove the directory %d", ErrFormat, next-1, next-1)
	}
	return next, nil
}

// Manifest reads and verifies the manifest of a version without its files. It returns ErrNotFound, ErrDigest or ErrFormat.
func (s *Store) Manifest(model string, version int64) (Manifest, error) {
	root, err := openModel(s.dir, model)
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: %s version %d: %w", model, version, err)
	}
	defer root.Close()
	dir, m, err := openVersion(root, model, version)
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: %s version %d: %w", model, version, err)
	}
	return m, dir.Close()
}

// Prune removes all but the newest keep versions (at least 1) of a model, never one that an alias names, and returns what it removed.
func (s *Store) Prune(ctx context.Context, model string, keep int) (removed []int64, err error) {
	err = s.withModel(ctx, model, false, func(root *os.Root) error {
		versions, err := versionsIn(root)
		if err != nil {
			return err
		}
		aliases, err := aliasesIn(root)
		if err != nil {
			return err
		}
		for _, v := range versions[:max(len(versions)-max(keep, 1), 0)] {
			if slices.ContainsFunc(aliases, func(a namedPointer) bool { return a.Version == v }) {
				continue
			}
			// Renamed first, so that no reader finds a version with some of its files gone.
			name := strconv.FormatInt(v, 10)
			if err := errors.Join(ctx.Err(), root.Rename(name, staging+name)); err != nil {
				return err
			}
			removed = append(removed, v)
			if err := root.RemoveAll(staging + name); err != nil {
				return err
			}
		}
		return syncDir(root)
	})
	if err != nil {
		return removed, fmt.Errorf("snapshot: prune %s: %w", model, err)
	}
	return removed, nil
}

// list returns the names in a directory.
func list(root *os.Root, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// openModel opens the directory of a model. Paths below it cannot leave it, by ".." or by symbolic links.
func openModel(dir, model string) (*os.Root, error) {
	if !validName.MatchString(model) {
		return nil, fmt.Errorf("%w: model %q is not of the form %s", ErrName, model, validName)
	}
	store, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no store at %s: check the path (--store)", ErrNotFound, dir)
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	root, err := store.OpenRoot(model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no model %s in %s: check the name (--model), or publish a first version", ErrNotFound, model, dir)
	}
	return root, err
}
