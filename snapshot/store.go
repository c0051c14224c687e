package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// The files of a version. The manifest, written last, lists the others but for SignatureFile and ModelSignatureFile.
const (
	ManifestFile   = "manifest.json"
	tensorsFile    = "model.safetensors"
	vocabularyFile = "vocabulary"
	goldenFile     = "golden.jsonl"
)

// lockFile is what writers of a model lock, and deltaLockFile what those of deltas do: a delta does not wait until a
// large version is written.
const (
	lockFile      = ".lock"
	deltaLockFile = ".lock-deltas"
)

// staging begins the name of a directory that is being written or removed. Readers never look there.
const staging = ".staging-"

// maxVersion keeps versions exact in JSON numbers of every language.
const maxVersion = 1<<53 - 1

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Store publishes versions of models below a directory, moves their aliases and keeps a log of both. Writers to one
// model take turns, also across processes of one machine; readers on other machines may share the directory or a
// synchronised copy. It is safe for concurrent use.
type Store struct {
	By     string       // who publishes and moves aliases, for the publish log. Set it before use.
	Logger *slog.Logger // gets a line for what is repaired; nil logs nothing. Set it before use.
	Signer *Signer      // signs manifests and aliases; nil leaves them unsigned. Set it before use.
	// ModelSigner, if not nil, writes model.sig into the directory of each version: an OpenSSF Model Signing bundle.
	// Set it before use.
	ModelSigner *ModelSigner
	// Keys have to have signed what the store takes from its own directory, the key of Signer among them: a version
	// or alias that none of them signed is ErrSignature, is not listed or continued, and may be replaced. Nil takes
	// unsigned ones. Set it before use.
	Keys Keys
	// Untrusted, if not nil, is called with each alias that a writer replaces because none of Keys signed it or its
	// version. Set it before use.
	Untrusted func(alias string, found Pointer)
	// Reserve, if not nil, is asked under the lock for the numbers of the next version or of the next move, the other
	// of the two being 0, before anything is written, and returns those to take: none below, and none that was ever
	// taken, if it knows that from outside the store.
	// Set it before use.
	Reserve func(model string, next Numbers) (Numbers, error)
	// Fence, if not nil, is asked under the lock before a version appears, and before aliases are moved to it: with its
	// error neither is done. It is for publishers of which one at a time may publish. Set it before use.
	Fence func() error
	Now   func() time.Time // clock of the publish log, of aliases and of retention. Set it before use.

	dir      string
	logBytes int64                   // size at which the publish log begins another file
	step     func(site string) error // gets every durable step, and may fail it: failpoint.At but in tests
}

// NewStore returns the store in dir. Nothing is read or created before it is needed.
func NewStore(dir string) *Store {
	return &Store{dir: dir, Now: time.Now, logBytes: maxLogBytes, step: failpoint.At}
}

// Publish writes contents as the next version of a model, moves the alias "latest" and those of moves to it, appends to
// the publish log and returns the manifest. To, Event and Why of moves are not looked at: the log has the decision and
// the reason of c.Meta. If an alias does not name its Move.From, nothing is written and ErrConflict returned.
//
// When it returns nil the version is durable; when it returns an error there is no new version, or there is one that
// some of the aliases do not point to yet. What a killed publisher left behind is removed. It returns ErrName,
// ErrContents, ErrGolden, ErrConflict, the error of ctx, or an error of the file system.
func (s *Store) Publish(ctx context.Context, model string, c *Contents, moves ...Move) (Manifest, error) {
	manifest, files, err := encodeVersion(model, c)
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
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
		final, err := s.number(root, model, last.Version, &manifest)
		if err != nil {
			return err
		}
		staged := append(files, final...)
		if s.ModelSigner != nil {
			b, err := s.ModelSigner.sign(manifest.Version, staged)
			if err != nil {
				return fmt.Errorf("%s: %w", ModelSignatureFile, err)
			}
			staged = slices.Insert(
				staged,
				len(staged)-1,
				stagedFile{ModelSignatureFile, b},
			) // the manifest is written last
		}
		if err := s.writeVersion(ctx, root, manifest.Version, staged); err != nil {
			return err
		}
		if err := s.fenced(); err != nil {
			return err
		}
		record := Record{Event: EventPublish}
		record.describe(&manifest)
		all := append([]Move{{Alias: Latest}}, moves...)
		for i := range all {
			all[i].To = manifest.Version
		}
		return s.commit(root, model, last, &record, all)
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: publish %s: %w", model, err)
	}
	return manifest, nil
}

// number makes a manifest that of the version after newest, which is there, and returns the last files of its
// directory: the signature, if any, and the manifest.
func (s *Store) number(root *os.Root, model string, newest int64, manifest *Manifest) ([]stagedFile, error) {
	previous, err := soundAlias(root, model, Latest)
	if err != nil && !errors.Is(err, ErrNotFound) && !isDamage(err) {
		return nil, err
	}
	if err == nil && s.forged(model, Latest, &previous) != nil {
		previous = Pointer{} // nothing is linked to it; its number is passed by, if there is such a directory
	}
	version, err := nextVersion(root, newest, previous.Version)
	if err != nil {
		return nil, err
	}
	reserved, err := s.reserve(model, Numbers{Version: version})
	if err != nil {
		return nil, err
	}
	version = reserved.Version
	manifest.Version, manifest.Previous, manifest.KeyID = version, previous.ManifestDigest, ""
	if s.Signer != nil {
		manifest.KeyID = s.Signer.id
	}
	b, err := manifest.encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrContents, err)
	}
	if s.Signer == nil {
		return []stagedFile{{ManifestFile, b}}, nil
	}
	sig, err := (&signature{s.Signer.id, "ed25519", s.Signer.sign(b)}).encode()
	return []stagedFile{{SignatureFile, sig}, {ManifestFile, b}}, err
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
	if x := c.CoChoices; x != nil {
		b, err := x.encode()
		if err != nil {
			return Manifest{}, nil, fmt.Errorf("%w: %w", ErrContents, err)
		}
		manifest.CoChoices = &File{coChoicesFile, int64(len(b)), hexSum(b)}
		files = append(files, stagedFile{coChoicesFile, b})
	}
	large, err := manifest.moveCut()
	if err != nil {
		return Manifest{}, nil, fmt.Errorf("%w: %w", ErrContents, err)
	}
	if large != nil {
		files = append(files, *large)
	}
	manifest.PayloadDigest, err = manifest.payloadDigest(manifest.Files[0].SHA256, manifest.Files[1].SHA256)
	return manifest, files, err
}

// writeVersion stages the files and renames the directory, so that the version appears at once and whole.
func (s *Store) writeVersion(ctx context.Context, root *os.Root, version int64, files []stagedFile) error {
	name := strconv.FormatInt(version, 10)
	if err := root.Mkdir(staging+name, 0o755); err != nil {
		return err
	}
	dir, err := root.OpenRoot(staging + name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.step("snapshot.staging"); err != nil {
		return err
	}
	for _, f := range files {
		if err := errors.Join(ctx.Err(), durable.Create(dir, f.name, 0o644, durable.Bytes(f.content)), s.step(
			"snapshot.write")); err != nil {
			return errors.Join(err, root.RemoveAll(staging+name))
		}
	}
	if err := errors.Join(durable.SyncDir(dir), s.step("snapshot.synced")); err != nil {
		return err
	}
	if err := s.fenced(); err != nil {
		return errors.Join(err, root.RemoveAll(staging+name))
	}
	if err := errors.Join(root.Rename(staging+name, name), s.step("snapshot.renamed")); err != nil {
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
func (s *Store) withModel(
	ctx context.Context,
	model string,
	create bool,
	write func(root *os.Root, last Numbers) error,
) error {
	return s.locked(ctx, model, lockFile, create, func(root *os.Root) error {
		last, _, err := s.tidy(root, model, false)
		if err != nil {
			return err
		}
		return write(root, last)
	})
}

// locked runs do on the directory of a model, under one of its locks.
func (s *Store) locked(ctx context.Context, model, file string, create bool, do func(root *os.Root) error) (err error) {
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
	unlock, err := lock(ctx, root, file)
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
	return errors.Join(durable.SyncDir(root), durable.SyncDir(store))
}

// Versions returns the published versions of a model, ascending, or ErrNotFound. A directory without a valid manifest
// is none: it is being copied, or was damaged; nor is one that none of Keys signed.
func (s *Store) Versions(model string) ([]int64, error) {
	versions, err := inModel(s.dir, model, func(root *os.Root) ([]int64, error) {
		versions, err := numbersIn(root)
		return slices.DeleteFunc(versions, func(v int64) bool {
			dir, _, err := openVersion(root, model, v, s.Keys)
			return err != nil || dir.Close() != nil
		}), err
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: versions of %s: %w", model, err)
	}
	return versions, nil
}

// numbersIn lists the numbers that names in the directory of a model are of, ascending, whatever has them.
func numbersIn(root *os.Root) ([]int64, error) {
	names, err := list(root, ".")
	return numbersOf(names), err
}

func numbersOf(names []string) (numbers []int64) {
	for _, name := range names {
		if v := versionNumber(name); v > 0 {
			numbers = append(numbers, v)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// isVersion reports whether a number is that of a directory, which may be whole or not.
func isVersion(root *os.Root, number int64) bool {
	st, err := root.Lstat(strconv.FormatInt(number, 10))
	return err == nil && st.IsDir()
}

// versionNumber returns the version that a directory of that name is, 0 if it is none.
func versionNumber(name string) int64 {
	v, err := strconv.ParseInt(name, 10, 64)
	if err != nil || v < 1 || v > maxVersion || strconv.FormatInt(v, 10) != name {
		return 0
	}
	return v
}

// nextVersion is one more than the newest version there is, and than that which "latest" says there was. A directory
// whose number nobody came to by counting is passed by.
func nextVersion(root *os.Root, newest, latest int64) (int64, error) {
	next := newest + 1
	if latest <= maxPlausible/2 {
		next = max(next, latest+1)
	}
	for ; next <= maxVersion; next++ { // a file that has the name of a version stays where it is
		if _, err := root.Lstat(strconv.FormatInt(next, 10)); errors.Is(err, fs.ErrNotExist) {
			return next, nil
		} else if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: no version number after %d: remove the directory %d", ErrFormat, next-1, next-1)
}

// Manifest reads and verifies the manifest of a version without its files: Cut reads its cut, where that is one of
// them. It returns ErrNotFound, ErrSignature, ErrDigest or ErrFormat.
func (s *Store) Manifest(model string, version int64) (Manifest, error) {
	m, err := inModel(s.dir, model, func(root *os.Root) (Manifest, error) {
		dir, m, err := openVersion(root, model, version, s.Keys)
		if err != nil {
			return Manifest{}, err
		}
		return m, dir.Close()
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: %s version %d: %w", model, version, err)
	}
	return m, nil
}

// Complete returns an error unless the version that a pointer names has the manifest that the pointer names, and the
// files that this lists, in their sizes. It reads the manifest alone, without its signature. It returns ErrNotFound,
// ErrDigest or ErrFormat.
func (s *Store) Complete(model string, p Pointer) error {
	_, err := inModel(s.dir, model, func(root *os.Root) (Manifest, error) {
		dir, m, err := openVersion(root, model, p.Version, nil)
		if err != nil {
			return m, err
		}
		defer dir.Close()
		if p.ManifestDigest != "" && p.ManifestDigest != m.Digest {
			return m, fmt.Errorf(
				"manifest.json: %w: the alias names manifest %s, there is %s",
				ErrDigest,
				p.ManifestDigest,
				m.Digest,
			)
		}
		for _, f := range m.AllFiles() {
			switch st, err := dir.Lstat(f.Name); {
			case err != nil:
				return m, absent(err)
			case st.Size() != f.Bytes:
				return m, fmt.Errorf("%s: %w: %d bytes, published with %d", f.Name, ErrDigest, st.Size(), f.Bytes)
			}
		}
		return m, nil
	})
	if err != nil {
		return fmt.Errorf("snapshot: %s version %d: %w", model, p.Version, err)
	}
	return nil
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

// inModel returns what read finds in the directory of a model.
func inModel[T any](dir, model string, read func(root *os.Root) (T, error)) (found T, err error) {
	root, err := openModel(dir, model)
	if err != nil {
		return found, err
	}
	defer root.Close()
	return read(root)
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
		return nil, fmt.Errorf(
			"%w: no model %s in %s: check the name (--model), or publish a first version",
			ErrNotFound,
			model,
			dir,
		)
	}
	return root, err
}
