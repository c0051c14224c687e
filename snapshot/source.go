package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// A Source returns what the aliases of models name, and the files of versions: a store that this machine can read
// (DirSource), a server (HTTPSource), a topic. It is not trusted: Watch verifies all that comes from it. It has to be
// safe for concurrent use.
type Source interface {
	// Wait returns what an alias names. If that is still last, it waits for a change, and may give up waiting after a
	// while and return last. The zero Pointer is never what an alias names. It returns ErrNotFound if there is no such
	// alias, and the error of ctx.
	Wait(ctx context.Context, model, alias string, last Pointer) (Pointer, error)
	// File opens a file of a version; the caller closes it. It returns fs.ErrNotExist if the version has no such
	// file.
	File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error)
}

// pollEvery is the default pause between two looks at an alias: a version is loaded within a second of its publication.
const pollEvery = 250 * time.Millisecond

// DirSource is a Source that reads a store, or a synchronised copy of one, and looks at one small alias file at a time.
type DirSource struct {
	Dir string
	// Every is the mean pause between two looks; 0 is 250 ms. Each is drawn from ±20 %, so that many readers of a
	// shared disk spread. Linux reports changes on local disks (inotify): these are read within milliseconds, however
	// long the pause.
	Every time.Duration
}

// Wait looks at the alias file when its directory has changed, and at least every pause: for renewals, and on systems
// that report no changes.
func (s DirSource) Wait(ctx context.Context, model, alias string, last Pointer) (Pointer, error) {
	if p, err := s.look(model, alias); err != nil || !p.unchanged(&last) {
		return p, err
	}
	changes := watchDir(filepath.Join(s.Dir, model, aliasDir))
	defer changes.close()
	for {
		p, err := s.look(model, alias)
		if err != nil || !p.unchanged(&last) {
			return p, err
		}
		if err := changes.wait(ctx, jitter(s.every())); err != nil {
			return Pointer{}, err
		}
	}
}

// arrival waits for an alias that there is not yet, or until most has passed. The publisher of the first version
// makes the directories down to it. It returns the error of ctx.
func (s DirSource) arrival(ctx context.Context, model, alias string, most time.Duration) error {
	path := s.nearest(model)
	changes := watchDir(path)
	defer changes.close()
	if _, err := s.look(model, alias); !errors.Is(err, ErrNotFound) ||
		s.nearest(model) != path { // it came while nobody watched
		return ctx.Err()
	}
	return changes.wait(ctx, most)
}

// nearest is where the next part of the path to the aliases of a model will be seen.
func (s DirSource) nearest(model string) string {
	path := filepath.Join(s.Dir, model, aliasDir)
	for path != s.Dir && path != filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// every returns Every or its default.
func (s DirSource) every() time.Duration {
	if s.Every <= 0 {
		return pollEvery
	}
	return s.Every
}

func (s DirSource) look(model, alias string) (Pointer, error) {
	return inModel(s.Dir, model, func(root *os.Root) (Pointer, error) {
		p, err := readAlias(root, alias)
		if err == nil {
			readRenewal(root, alias, &p)
		}
		return p, err
	})
}

// File opens a file of a version.
func (s DirSource) File(_ context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	dir, err := inModel(s.Dir, model, func(root *os.Root) (*os.Root, error) { return versionDir(root, version) })
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openRegular(dir, name)
}

func openRegular(root *os.Root, name string) (*os.File, error) {
	return openRegularAs(root, name, os.O_RDONLY)
}

func openRegularAs(root *os.Root, name string, flags int) (*os.File, error) {
	// Looked at before it is opened: opening a pipe would wait for its writer.
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file (%s)", name, ErrFormat, st.Mode().Type())
	}
	return root.OpenFile(name, flags, 0)
}

// readFile reads a regular file of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, name, limit)
}

// firstRead is the memory taken for a stream before any of it has come.
const firstRead = 64 << 10

// readAtMost reads a stream of at most limit bytes; a longer one is ErrDigest. Of a file the size is looked at before
// memory is taken; of another stream, memory grows with what has come, so that nobody is made to allocate what is never
// sent.
func readAtMost(r io.Reader, name string, limit int64) ([]byte, error) {
	size := min(limit, firstRead)
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if st.Size() > limit {
			return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, ErrDigest, st.Size(), limit)
		}
		size = st.Size()
	}
	b := make([]byte, 0, size+1) // one more, to see the end without growing
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("%s: %w: more than the %d bytes expected", name, ErrDigest, limit)
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(2*int64(cap(b)), limit+1))
			copy(grown, b)
			b = grown
		}
	}
}

// sourceReader reads the files of a version of a source.
func sourceReader(ctx context.Context, src Source, model string, version int64) fileReader {
	return func(name string, limit int64) ([]byte, error) {
		f, err := src.File(ctx, model, version, name)
		if err != nil {
			return nil, err
		}
		b, err := readAtMost(f, name, limit)
		return b, errors.Join(err, f.Close())
	}
}

// jitter returns a duration within ±20 % of d.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }
