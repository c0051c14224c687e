package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/failpoint"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// lockFile is what writers of a model lock, and deltaLockFile what those of deltas do: a delta does not wait until a
// large version is written.
const (
	lockFile      = ".lock"
	deltaLockFile = ".lock-deltas"
)

// staging begins the name of a directory that is being written or removed. Readers never look there.
const staging = ".staging-"

// Store publishes versions of models below a directory, moves their aliases and keeps a log of both. Writers to one
// model take turns, also across processes of one machine; readers on other machines may share the directory or a
// synchronised copy. It is safe for concurrent use. It is one type: its lock is that of the directory, and all that it
// does needs it.
type Store struct {
	By     string         // who publishes and moves aliases, for the publish log. Set it before use.
	Logger *slog.Logger   // gets a line for what is repaired; nil logs nothing. Set it before use.
	Signer *format.Signer // signs manifests and aliases; nil leaves them unsigned. Set it before use.
	// ModelSigner, if not nil, writes model.sig into the directory of each version: an OpenSSF Model Signing bundle.
	// Set it before use.
	ModelSigner *ModelSigner
	// Keys have to have signed what the store takes from its own directory, the key of Signer among them: a version
	// or alias that none of them signed is ErrSignature, is not listed or continued, and may be replaced. Nil takes
	// unsigned ones. Set it before use.
	Keys format.Keys
	// Untrusted, if not nil, is called with each alias that a writer replaces because none of Keys signed it or its
	// version. Set it before use.
	Untrusted func(alias string, found pointer.Pointer)
	// Reserve, if not nil, is asked under the lock for the numbers of the next version or of the next move, the other
	// of the two being 0, before anything is written, and returns those to take: none below, and none that was ever
	// taken, if it knows that from outside the store.
	// Set it before use.
	Reserve func(model string, next Numbers) (Numbers, error)
	// Fence, if not nil, is asked under the lock before a version appears, and before aliases are moved to it: with its
	// error neither is done. It is for publishers of which one at a time may publish. Set it before use.
	Fence func() error
	Now   func() time.Time // clock of the publish log, of aliases and of retention. Set it before use.

	// Bucket, if not nil, is where consumers elsewhere read, and the directory of the store the working copy of this
	// writer: see bucket.go. Set it before use.
	Bucket Bucket

	// LogBytes is the size at which the publish log begins another file: 16 MiB of NewStore. Set it before use.
	LogBytes int64
	// Step gets the name of every durable step, and may fail it: failpoint.At of NewStore. Set it before use.
	Step func(site string) error

	dir    string
	mirror *mirror
}

// NewStore returns the store in dir. Nothing is read or created before it is needed.
func NewStore(dir string) *Store {
	return &Store{dir: dir, mirror: new(mirror), Now: time.Now, LogBytes: maxLogBytes, Step: failpoint.At}
}

// Publish writes contents as the next version of a model, moves the alias "latest" and those of moves to it, appends to
// the publish log and returns the manifest. To, Event and Why of moves are not looked at: the log has the decision and
// the reason of c.Meta. If an alias does not name its Move.From, nothing is written and ErrConflict returned.
//
// When it returns nil the version is durable; when it returns an error there is no new version, or there is one that
// some of the aliases do not point to yet. What a killed publisher left behind is removed. It returns ErrName,
// ErrContents, ErrGolden, ErrConflict, the error of ctx, or an error of the file system.
func (s *Store) Publish(ctx context.Context, model string, c *format.Contents, moves ...Move) (format.Manifest, error) {
	manifest, files, err := encodeVersion(model, c)
	if err != nil {
		return format.Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
	}
	err = s.withModel(ctx, model, true, func(root *os.Root, last Numbers) error {
		for _, move := range moves {
			if _, err := s.expect(root, model, move); err != nil {
				return err
			}
		}
		if err := s.fenced(); err != nil { // before a number is reserved
			return err
		}
		final, err := s.number(ctx, root, model, last.Version, &manifest)
		if err != nil {
			return err
		}
		staged := append(files, final...)
		if s.ModelSigner != nil {
			b, err := s.ModelSigner.sign(manifest.Version, staged)
			if err != nil {
				return fmt.Errorf("%s: %w", ModelSignatureFile, err)
			}
			staged = slices.Insert(staged, len(staged)-1,
				disk.StagedFile{Name: ModelSignatureFile, Content: b}) // the manifest is written last
		}
		if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {
			return err
		}
		if err := s.upload(ctx, model, manifest.Version, staged); err != nil {
			return s.withdraw(ctx, root, model, manifest.Version, err)
		}
		if err := s.fenced(); err != nil {
			return err
		}
		record := Record{Event: EventPublish}
		record.describe(&manifest)
		all := append([]Move{{Alias: pointer.Latest}}, moves...)
		for i := range all {
			all[i].To = manifest.Version
		}
		if err := s.commit(ctx, root, model, last, &record, all); err != nil {
			return s.withdraw(ctx, root, model, manifest.Version, err)
		}
		return nil
	})
	if err != nil {
		return format.Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
	}
	return manifest, nil
}

// number makes a manifest that of the version after newest, which is there, and returns the last files of its
// directory: the signature, if any, and the manifest.
func (s *Store) number(ctx context.Context, root *os.Root, model string, newest int64,
	manifest *format.Manifest) ([]disk.StagedFile, error) {
	previous, err := soundAlias(root, model, pointer.Latest)
	if err != nil && !errors.Is(err, disk.ErrNotFound) && !isDamage(err) {
		return nil, err
	}
	if err == nil && s.forged(model, pointer.Latest, &previous) != nil {
		previous = pointer.Pointer{} // nothing is linked to it; its number is passed by, if there is such a directory
	}
	version, err := nextVersion(root, newest, previous.Version)
	if err != nil {
		return nil, err
	}
	if version, err = s.claim(ctx, model, version); err != nil {
		return nil, err
	}
	manifest.Version, manifest.Previous, manifest.KeyID = version, previous.ManifestDigest, ""
	if s.Signer != nil {
		manifest.KeyID = s.Signer.ID()
	}
	b, err := manifest.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
	}
	if s.Signer == nil {
		return []disk.StagedFile{{Name: disk.ManifestFile, Content: b}}, nil
	}
	sig, err := s.Signer.SignManifest(b)
	return []disk.StagedFile{{Name: format.SignatureFile, Content: sig}, {Name: disk.ManifestFile, Content: b}}, err
}

// writeVersion stages the files and renames the directory, so that the version appears at once and whole.
func (s *Store) writeVersion(ctx context.Context, root *os.Root, version int64, files []disk.StagedFile) error {
	name := strconv.FormatInt(version, 10)
	if err := root.Mkdir(staging+name, 0o755); err != nil {
		return err
	}
	dir, err := root.OpenRoot(staging + name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.Step("snapshot.staging"); err != nil {
		return err
	}
	for _, f := range files {
		if err := errors.Join(ctx.Err(), durable.Create(dir, f.Name, 0o644, durable.Bytes(f.Content)), s.Step(
			"snapshot.write")); err != nil {
			return errors.Join(err, root.RemoveAll(staging+name))
		}
	}
	if err := errors.Join(durable.SyncDir(dir), s.Step("snapshot.synced")); err != nil {
		return err
	}
	if err := s.fenced(); err != nil {
		return errors.Join(err, root.RemoveAll(staging+name))
	}
	if err := errors.Join(root.Rename(staging+name, name), s.Step("snapshot.renamed")); err != nil {
		return err
	}
	return durable.SyncDir(root)
}

// fenced returns why nothing may be published now, nil if it may.
func (s *Store) fenced() error {
	if s.Fence == nil {
		return nil
	}
	return s.Fence()
}

// withModel runs write on the directory of a model, under its lock and with the remains of killed publishers removed.
// write gets the numbers of the newest version and the last move.
func (s *Store) withModel(ctx context.Context, model string, create bool,
	write func(root *os.Root, last Numbers) error) error {
	return s.locked(ctx, model, lockFile, create, func(root *os.Root) error {
		if err := s.pull(ctx, root, model); err != nil {
			return err
		}
		last, _, err := s.tidy(root, model, false)
		if err == nil {
			err = s.push(ctx, root, model)
		}
		if err != nil {
			return err
		}
		return write(root, last)
	})
}

// locked runs do on the directory of a model, under one of its locks.
func (s *Store) locked(ctx context.Context, model, file string, create bool, do func(root *os.Root) error) (err error) {
	if !create && s.Bucket != nil {
		if create, err = s.known(ctx, model); err != nil {
			return err
		}
	}
	if create {
		if err := s.makeModel(model); err != nil {
			return err
		}
	}
	root, err := disk.OpenModel(s.dir, model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	unlock, err := disk.Lock(ctx, root, file)
	if err != nil {
		return fmt.Errorf("%s: %w", root.Name(), err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return do(root)
}

// Recover removes what killed publishers of a model left behind, writes what they could not write into the publish log,
// and rebuilds damaged aliases from it. Every writer does it first, too. It returns ErrNotFound if nothing of the model
// was ever published.
func (s *Store) Recover(ctx context.Context, model string) error {
	if err := s.withModel(ctx, model, false, func(*os.Root, Numbers) error { return nil }); err != nil {
		return fmt.Errorf("snapshot: recover %s: %w", model, err)
	}
	return nil
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
	if _, err := store.Stat(model + "/" + disk.AliasDir); err == nil {
		return nil
	}
	if err := store.MkdirAll(model+"/"+disk.AliasDir, 0o755); err != nil {
		return err
	}
	root, err := store.OpenRoot(model)
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(durable.SyncDir(root), durable.SyncDir(store))
}

// Versions returns the published versions of a model, ascending, or ErrNotFound. A directory without a valid manifest
// is none: it is being copied, or was damaged; nor is one that none of Keys signed.
func (s *Store) Versions(model string) ([]int64, error) {
	versions, err := disk.InModel(s.dir, model, func(root *os.Root) ([]int64, error) {
		versions, err := disk.NumbersIn(root)
		return slices.DeleteFunc(versions, func(v int64) bool {
			dir, _, err := verify.OpenVersion(root, model, v, s.Keys)
			return err != nil || dir.Close() != nil
		}), err
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: versions of %s: %w", model, err)
	}
	return versions, nil
}

// nextVersion is one more than the newest version there is, and than that which "latest" says there was. A directory
// whose number nobody came to by counting is passed by.
func nextVersion(root *os.Root, newest, latest int64) (int64, error) {
	next := newest + 1
	if latest <= pointer.MaxPlausible/2 {
		next = max(next, latest+1)
	}
	for ; next <= disk.MaxVersion; next++ { // a file that has the name of a version stays where it is
		if _, err := root.Lstat(strconv.FormatInt(next, 10)); errors.Is(err, fs.ErrNotExist) {
			return next, nil
		} else if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: no version number after %d: remove the directory %d", disk.ErrFormat, next-1, next-1)
}

// Manifest reads and verifies the manifest of a version without its files: Cut reads its cut, where that is one of
// them. It returns ErrNotFound, ErrSignature, ErrDigest or ErrFormat.
func (s *Store) Manifest(model string, version int64) (format.Manifest, error) {
	m, err := disk.InModel(s.dir, model, func(root *os.Root) (format.Manifest, error) {
		dir, m, err := verify.OpenVersion(root, model, version, s.Keys)
		if err != nil {
			return format.Manifest{}, err
		}
		return m, dir.Close()
	})
	if err != nil {
		return format.Manifest{}, fmt.Errorf("snapshot: %s version %d: %w", model, version, err)
	}
	return m, nil
}

// Complete returns an error unless the version that a pointer names has the manifest that the pointer names, and the
// files that this lists, in their sizes. It reads the manifest alone, without its signature. It returns ErrNotFound,
// ErrDigest or ErrFormat.
func (s *Store) Complete(model string, p pointer.Pointer) error {
	_, err := disk.InModel(s.dir, model, func(root *os.Root) (format.Manifest, error) {
		dir, m, err := verify.OpenVersion(root, model, p.Version, nil)
		if err != nil {
			return m, err
		}
		defer dir.Close()
		if p.ManifestDigest != "" && p.ManifestDigest != m.Digest {
			return m, fmt.Errorf("manifest.json: %w: the alias names manifest %s, there is %s", disk.ErrDigest,
				p.ManifestDigest, m.Digest)
		}
		for _, f := range m.AllFiles() {
			switch st, err := dir.Lstat(f.Name); {
			case err != nil:
				return m, disk.Absent(err)
			case st.Size() != f.Bytes:
				return m, fmt.Errorf("%s: %w: %d bytes, published with %d", f.Name, disk.ErrDigest, st.Size(), f.Bytes)
			}
		}
		return m, nil
	})
	if err != nil {
		return fmt.Errorf("snapshot: %s version %d: %w", model, p.Version, err)
	}
	return nil
}
