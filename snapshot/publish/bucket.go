package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// A Bucket is an object store, or a part of one, by the few operations that publishing needs. Keys have slashes. Each
// object has a tag that is another one for other content. It has to be safe for concurrent use. Errors are those of
// the network, but for fs.ErrNotExist and ErrConflict.
type Bucket interface {
	// Get returns an object and its tag. If the tag is still unless, it returns that and no content.
	Get(ctx context.Context, key, unless string, limit int64) (content []byte, tag string, err error)
	// PutAbsent makes an object, and returns ErrConflict if there is one.
	PutAbsent(ctx context.Context, key string, content []byte) (tag string, err error)
	// Replace replaces the object with a tag, and returns ErrConflict if there is another one or none.
	Replace(ctx context.Context, key, tag string, content []byte) (next string, err error)
	// List returns the keys that begin with prefix, in any order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object, if it is there.
	Delete(ctx context.Context, key string) error
}

// With a Bucket the directory of a Store is its working copy: what tests, locks and repairs work on. A version is
// written there and then to the bucket, its manifest last. An alias is moved in the bucket first, by a conditional
// write: who loses it has changed nothing. What other writers did is taken over under the lock, before each write.
//
// Names in the bucket are those of a directory, but for four: an alias has its renewal with it; head changes with all
// that readers wait for, so that they ask for one object; each delta is a segment of one; and .claim is in a version
// from before its first file, so that no two writers use its number.

const (
	claimFile = ".claim"
	// maxObjectLog is where the publish log in a bucket begins another object: each record writes it anew.
	maxObjectLog = 1 << 20
	maxLogObject = 2*maxLogBytes + maxRecordBytes
	maxClaims    = 1000
	maxFileBytes = 4 << 30
)

// mirror is what a Store knows of its bucket.
type mirror struct {
	mu   sync.Mutex
	tags map[string]string // of aliases and logs, by key; of the content that was seen or written last
	full map[string]bool   // versions with all their files, by key of their manifest

	conditional bool // the bucket has refused what a condition forbids
}

func (m *mirror) tag(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tags[key]
}

func (m *mirror) note(key, tag string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tags == nil {
		m.tags, m.full = make(map[string]string), make(map[string]bool)
	}
	m.tags[key] = tag
}

func (m *mirror) whole(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full[key]
}

func (m *mirror) setWhole(key string) {
	m.note(key, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full[key] = true
}

func aliasKey(model, alias string) string { return model + "/" + disk.AliasDir + "/" + alias }

func versionKey(model string, version int64, name string) string {
	return model + "/" + strconv.FormatInt(version, 10) + "/" + name
}

// known reports whether the bucket has a model.
func (s *Store) known(ctx context.Context, model string) (bool, error) {
	_, _, err := s.Bucket.Get(ctx, aliasKey(model, pointer.Latest), "", maxLogObject)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Pull takes versions, aliases and log of a model from the bucket into the working copy, and writes nothing to the
// bucket. It returns ErrNotFound if the bucket has no such model.
func (s *Store) Pull(ctx context.Context, model string) error {
	there, err := s.known(ctx, model)
	if err == nil && !there {
		err = fmt.Errorf("%w: the bucket has no alias %s of it", disk.ErrNotFound, pointer.Latest)
	}
	if err == nil {
		err = s.locked(ctx, model, lockFile, true, func(root *os.Root) error { return s.pull(ctx, root, model) })
	}
	if err != nil {
		return fmt.Errorf("snapshot: pull %s: %w", model, err)
	}
	return nil
}

// pull takes over what other writers did: aliases that moved, with their versions, and the log. A working copy without
// versions gets all there are. The caller holds the lock.
func (s *Store) pull(ctx context.Context, root *os.Root, model string) error {
	if s.Bucket == nil {
		return nil
	}
	if err := s.pullLog(ctx, root, model); err != nil {
		return err
	}
	keys, err := s.Bucket.List(ctx, model+"/"+disk.AliasDir+"/")
	if err != nil {
		return err
	}
	fresh, err := disk.NumbersIn(root)
	if err == nil && len(fresh) == 0 && len(keys) > 0 {
		err = s.pullAll(ctx, root, model)
	}
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := s.pullAlias(ctx, root, model, strings.TrimPrefix(key, aliasKey(model, ""))); err != nil {
			return err
		}
	}
	return s.dropAliases(root, model, keys)
}

// dropAliases removes those that another writer removed: the log has that.
func (s *Store) dropAliases(root *os.Root, model string, keys []string) error {
	local, _, err := aliasesIn(root, model)
	if err != nil {
		return err
	}
	standing, err := standingAliases(root)
	for _, a := range local {
		_, logged := standing[a.name]
		if err == nil && !logged && a.name != pointer.Latest && !slices.Contains(keys, aliasKey(model, a.name)) {
			err = removeAlias(root, a.name)
		}
	}
	return err
}

// pullAlias takes an alias of the bucket if it is a later one, and trusted. Another one is replaced by the next move.
func (s *Store) pullAlias(ctx context.Context, root *os.Root, model, alias string) error {
	key := aliasKey(model, alias)
	b, tag, err := s.Bucket.Get(ctx, key, s.mirror.tag(key), 2*pointer.MaxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && b == nil {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := pointer.DecodeObject(alias, b)
	if err == nil {
		err = p.Verify(model, alias, s.Keys)
	}
	if err == nil {
		err = p.Plausible()
	}
	if err != nil {
		s.mirror.note(key, tag)
		s.logger().Warn("alias in the bucket is not taken", "model", model, "alias", alias, "error", err)
		return nil
	}
	old, err := soundAlias(root, model, alias)
	if err == nil && old.Sequence > p.Sequence {
		s.mirror.note(key, tag)
		return nil
	}
	if err := s.pullVersion(ctx, root, model, p.Version, p.ManifestDigest); errors.Is(err, disk.ErrNotFound) {
		s.mirror.note(key, tag)
		s.logger().Warn("alias in the bucket is not taken", "model", model, "alias", alias, "error", err)
		return nil
	} else if err != nil {
		return err
	}
	renewal := p.Renewal
	p.Renewal = pointer.Renewal{}
	if err := s.writeAlias(root, alias, &p); err != nil {
		return err
	}
	if !renewal.Renewed.IsZero() {
		if err := writeRenewal(root, alias, &renewal); err != nil {
			return err
		}
	}
	s.mirror.note(key, tag)
	return nil
}

// pullAll takes every whole version of the bucket.
func (s *Store) pullAll(ctx context.Context, root *os.Root, model string) error {
	keys, err := s.Bucket.List(ctx, model+"/")
	for _, key := range keys {
		number, name, _ := strings.Cut(strings.TrimPrefix(key, model+"/"), "/")
		if v := disk.VersionNumber(number); err == nil && v > 0 && name == disk.ManifestFile {
			if err = s.pullVersion(ctx, root, model, v, ""); errors.Is(err, disk.ErrNotFound) {
				err = nil // another writer has pruned it since
			}
		}
	}
	return err
}

// pullVersion takes a version of the bucket, unless it is there. digest is that of its manifest, empty for any.
func (s *Store) pullVersion(ctx context.Context, root *os.Root, model string, version int64, digest string) error {
	name := strconv.FormatInt(version, 10)
	if dir, m, err := verify.OpenVersion(root, model, version, nil); err == nil {
		if err := dir.Close(); err != nil || digest == "" || m.Digest == digest {
			return err
		}
		s.logger().Warn("version of the working copy replaced by that of the bucket", "model", model, "version", version)
	}
	keys, err := s.Bucket.List(ctx, versionKey(model, version, ""))
	if err != nil {
		return err
	}
	if !slices.Contains(keys, versionKey(model, version, disk.ManifestFile)) {
		return fmt.Errorf("version %d of model %s in the bucket: %w", version, model, disk.ErrNotFound)
	}
	if err := root.RemoveAll(staging + name); err != nil {
		return err
	}
	if err := root.MkdirAll(staging+name+"/"+disk.DeltasDir, 0o755); err != nil {
		return err
	}
	dir, err := root.OpenRoot(staging + name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, key := range keys {
		file := strings.TrimPrefix(key, versionKey(model, version, ""))
		if file == claimFile || !fs.ValidPath(file) {
			continue
		}
		b, _, err := s.Bucket.Get(ctx, key, "", maxFileBytes)
		if err == nil {
			err = durable.Create(dir, file, 0o644, durable.Bytes(b))
		}
		if err != nil {
			return fmt.Errorf("version %d: %s: %w", version, file, err)
		}
	}
	if err := errors.Join(durable.SyncDir(dir), root.RemoveAll(name)); err != nil {
		return err
	}
	s.mirror.setWhole(versionKey(model, version, disk.ManifestFile))
	return durable.Rename(root, staging+name, name)
}

// claim returns the first number from version on that nobody writes to the bucket, as Reserve allows it.
func (s *Store) claim(ctx context.Context, model string, version int64) (int64, error) {
	reserved, err := s.reserve(model, Numbers{Version: version})
	for tries := 0; err == nil && s.Bucket != nil; tries++ {
		key := versionKey(model, reserved.Version, claimFile)
		_, err = s.Bucket.PutAbsent(ctx, key, []byte(s.By+" "+rand.Text()))
		if err == nil {
			err = s.testConditions(ctx, key)
			break
		}
		if !errors.Is(err, disk.ErrConflict) || tries >= maxClaims {
			break
		}
		reserved, err = s.reserve(model, Numbers{Version: reserved.Version + 1})
	}
	return reserved.Version, err
}

// testConditions tries to write over an object as its conditions forbid it, until the bucket has refused both. A store
// that writes all the same would let two writers in.
func (s *Store) testConditions(ctx context.Context, key string) error {
	s.mirror.mu.Lock()
	tested := s.mirror.conditional
	s.mirror.mu.Unlock()
	if tested {
		return nil
	}
	refused := true
	for condition, write := range map[string]func() (string, error){
		"If-None-Match": func() (string, error) { return s.Bucket.PutAbsent(ctx, key, nil) },
		"If-Match":      func() (string, error) { return s.Bucket.Replace(ctx, key, "1", nil) },
	} {
		_, err := write()
		if err == nil {
			return fmt.Errorf("the bucket does not look at %s of a PUT: two writers would not notice each other", condition)
		}
		refused = refused && errors.Is(err, disk.ErrConflict)
	}
	s.mirror.mu.Lock()
	defer s.mirror.mu.Unlock()
	s.mirror.conditional = refused
	return nil
}

// upload writes the files of a version, the manifest last.
func (s *Store) upload(ctx context.Context, model string, version int64, files []disk.StagedFile) error {
	if s.Bucket == nil {
		return nil
	}
	for _, f := range files {
		if err := s.putOnce(ctx, versionKey(model, version, f.Name), f.Content); err != nil {
			return fmt.Errorf("version %d: %s: %w", version, f.Name, err)
		}
		if err := s.Step("snapshot.object"); err != nil {
			return err
		}
	}
	s.mirror.setWhole(versionKey(model, version, disk.ManifestFile))
	return nil
}

// putOnce makes an object. One with the same content is what an earlier try wrote whose answer was lost.
func (s *Store) putOnce(ctx context.Context, key string, content []byte) error {
	_, err := s.Bucket.PutAbsent(ctx, key, content)
	if errors.Is(err, disk.ErrConflict) {
		if there, _, getErr := s.Bucket.Get(ctx, key, "", int64(len(content))+1); getErr == nil &&
			string(there) == string(content) {
			return nil
		}
	}
	return err
}

// complete uploads a version of the working copy unless the bucket has it: an alias names whole versions only.
func (s *Store) complete(ctx context.Context, root *os.Root, model string, version int64) error {
	key := versionKey(model, version, disk.ManifestFile)
	if s.mirror.whole(key) {
		return nil
	}
	dir, _, err := verify.OpenVersion(root, model, version, nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	manifest, err := disk.ReadFile(dir, disk.ManifestFile, format.MaxManifestBytes)
	if err != nil {
		return err
	}
	there, _, err := s.Bucket.Get(ctx, key, "", maxFileBytes)
	switch {
	case err == nil && string(there) == string(manifest):
		s.mirror.setWhole(key)
		return nil
	case err == nil:
		return fmt.Errorf("version %d: %w: the bucket has another one of that number", version, disk.ErrConflict)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	names, err := disk.List(dir, ".")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == disk.ManifestFile || name == disk.DeltasDir })
	var files []disk.StagedFile
	for _, name := range append(names, disk.ManifestFile) {
		b, err := disk.ReadFile(dir, name, maxFileBytes)
		if err != nil {
			return err
		}
		files = append(files, disk.StagedFile{Name: name, Content: b})
	}
	return s.upload(ctx, model, version, files)
}

// pushAlias moves an alias in the bucket, by a conditional write. It returns ErrConflict if another writer did.
func (s *Store) pushAlias(ctx context.Context, root *os.Root, model, alias string, p *pointer.Pointer) error {
	if s.Bucket == nil {
		return nil
	}
	if err := s.complete(ctx, root, model, p.Version); err != nil {
		return err
	}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	key := aliasKey(model, alias)
	if err := s.swap(ctx, key, b); err != nil {
		return fmt.Errorf("alias %s in the bucket: %w", alias, err)
	}
	if err := s.Step("snapshot.object_alias"); err != nil {
		return err
	}
	return s.changeHead(ctx, model)
}

// changeHead is called after each change that readers wait for. A head that cannot be written delays them, and fails
// nothing.
func (s *Store) changeHead(ctx context.Context, model string) error {
	key, err := model+"/"+disk.HeadFile, disk.ErrConflict
	for tries := 0; tries <= maxSwaps && errors.Is(err, disk.ErrConflict); tries++ {
		if err = s.swap(ctx, key, []byte(rand.Text())); errors.Is(err, disk.ErrConflict) {
			_, tag, getErr := s.Bucket.Get(ctx, key, "", maxLogObject)
			if getErr == nil || errors.Is(getErr, fs.ErrNotExist) {
				s.mirror.note(key, tag)
			}
		}
	}
	if err != nil {
		s.logger().Warn("readers of the bucket see a change late", "model", model, "error", err)
	}
	return s.Step("snapshot.object_head")
}

// swap replaces an object that nobody changed since this store saw it.
func (s *Store) swap(ctx context.Context, key string, content []byte) error {
	var tag string
	var err error
	if seen := s.mirror.tag(key); seen == "" {
		tag, err = s.Bucket.PutAbsent(ctx, key, content)
	} else {
		tag, err = s.Bucket.Replace(ctx, key, seen, content)
	}
	if errors.Is(err, disk.ErrConflict) { // unless it is what a try wrote whose answer was lost
		there, now, getErr := s.Bucket.Get(ctx, key, "", maxLogObject)
		if getErr == nil && string(there) == string(content) {
			tag, err = now, nil
		}
	}
	if err == nil {
		s.mirror.note(key, tag)
	}
	return err
}

// dropAlias removes an alias from the bucket.
func (s *Store) dropAlias(ctx context.Context, model, alias string) error {
	if s.Bucket == nil {
		return nil
	}
	s.mirror.note(aliasKey(model, alias), "")
	if err := s.Bucket.Delete(ctx, aliasKey(model, alias)); err != nil {
		return err
	}
	return s.changeHead(ctx, model)
}

// push writes the aliases and the log that the bucket does not have: their writer was killed, or the bucket lost them.
// The caller holds the lock and has pulled.
func (s *Store) push(ctx context.Context, root *os.Root, model string) error {
	if s.Bucket == nil {
		return nil
	}
	aliases, _, err := aliasesIn(root, model)
	if err != nil {
		return err
	}
	for _, a := range aliases {
		key := aliasKey(model, a.name)
		there, _, err := s.Bucket.Get(ctx, key, s.mirror.tag(key), 2*pointer.MaxAliasBytes)
		if err == nil && there == nil && s.mirror.tag(key) != "" {
			there, _, err = s.Bucket.Get(ctx, key, "", 2*pointer.MaxAliasBytes)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) {
			s.mirror.note(key, "")
		}
		if found, err := pointer.DecodeObject(a.name, there); err == nil && found.Same(&a.Pointer) {
			continue
		}
		if s.forged(model, a.name, &a.Pointer) != nil {
			continue
		}
		verify.ReadRenewal(root, a.name, &a.Pointer)
		if err := s.pushAlias(ctx, root, model, a.name, &a.Pointer); err != nil {
			return err
		}
	}
	if len(aliases) > 0 && s.mirror.tag(model+"/"+disk.HeadFile) == "" { // a writer may have been killed before it
		if err := s.changeHead(ctx, model); err != nil {
			return err
		}
	}
	return s.pushLog(ctx, root, model)
}

// withdraw removes a version that another writer was before, from the bucket and the working copy, unless an alias of
// the bucket names it already. It returns err.
func (s *Store) withdraw(ctx context.Context, root *os.Root, model string, version int64, err error) error {
	if s.Bucket == nil || !errors.Is(err, disk.ErrConflict) {
		return err
	}
	b, _, getErr := s.Bucket.Get(ctx, aliasKey(model, pointer.Latest), "", 2*pointer.MaxAliasBytes)
	p, decodeErr := pointer.DecodeObject(pointer.Latest, b)
	if getErr != nil || decodeErr != nil || p.Version == version {
		return err
	}
	name := strconv.FormatInt(version, 10)
	return errors.Join(err, s.sweepBucket(ctx, model, 0, []int64{version}), root.Rename(name, staging+name),
		root.RemoveAll(staging+name))
}
