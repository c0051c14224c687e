package snapshot

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// A Source returns what the aliases of models name, and the files of versions: a store that this machine can read
// (DirSource), a server (HTTPSource), a topic. It is not trusted: Watch verifies all that comes from it. It has to be
// safe for concurrent use.
type Source interface {
	// Wait returns what an alias names. If that is still last, it waits for a change, and may give up waiting after a
	// while and return last. The zero Pointer is never what an alias names. It returns ErrNotFound if there is no such
	// alias, and the error of ctx.
	Wait(ctx context.Context, model, alias string, last pointer.Pointer) (pointer.Pointer, error)
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
func (s DirSource) Wait(ctx context.Context, model, alias string, last pointer.Pointer) (pointer.Pointer, error) {
	if p, err := s.look(model, alias); err != nil || !p.Unchanged(&last) {
		return p, err
	}
	changes := watchDir(filepath.Join(s.Dir, model, disk.AliasDir))
	defer changes.close()
	for {
		p, err := s.look(model, alias)
		if err != nil || !p.Unchanged(&last) {
			return p, err
		}
		if err := changes.wait(ctx, jitter(s.every())); err != nil {
			return pointer.Pointer{}, err
		}
	}
}

// arrival waits for an alias that there is not yet, or until most has passed. The publisher of the first version
// makes the directories down to it. It returns the error of ctx.
func (s DirSource) arrival(ctx context.Context, model, alias string, most time.Duration) error {
	path := s.nearest(model)
	changes := watchDir(path)
	defer changes.close()
	if _, err := s.look(model, alias); !errors.Is(err, disk.ErrNotFound) ||
		s.nearest(model) != path { // it came while nobody watched
		return ctx.Err()
	}
	return changes.wait(ctx, most)
}

// nearest is where the next part of the path to the aliases of a model will be seen.
func (s DirSource) nearest(model string) string {
	path := filepath.Join(s.Dir, model, disk.AliasDir)
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

func (s DirSource) look(model, alias string) (pointer.Pointer, error) {
	return disk.InModel(s.Dir, model, func(root *os.Root) (pointer.Pointer, error) {
		p, err := verify.ReadAlias(root, alias)
		if err == nil {
			verify.ReadRenewal(root, alias, &p)
		}
		return p, err
	})
}

// File opens a file of a version.
func (s DirSource) File(_ context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	dir, err := disk.InModel(s.Dir, model, func(root *os.Root) (*os.Root, error) { return disk.VersionDir(root, version) })
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return disk.OpenRegular(dir, name)
}

// sourceReader reads the files of a version of a source.
func sourceReader(ctx context.Context, src Source, model string, version int64) verify.FileReader {
	return func(name string, limit int64) ([]byte, error) {
		f, err := src.File(ctx, model, version, name)
		if err != nil {
			return nil, err
		}
		b, err := disk.ReadAtMost(f, name, limit)
		return b, errors.Join(err, f.Close())
	}
}

// jitter returns a duration within ±20 % of d.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }
