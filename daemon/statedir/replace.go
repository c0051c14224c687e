// Package statedir handles what is next to the state directory of a model: states that are being made, those that
// were replaced, the lock that keeps their makers apart, and what is left of those that were killed.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// replacesFile names, in a state that is being made, the directory whose place it is for. A directory without it was
// made by somebody else.
const replacesFile = "REPLACES"

// timeFormat ends the name of a state that was replaced. No model has a name with capitals, so that it is nobody's
// state directory.
const timeFormat = "20060102T150405.000Z"

// ErrNotOurs is returned for a directory that is where one is to be made and that was not made for that.
var ErrNotOurs = errors.New("not made by refitd state restore or refitd state rebuild of this state")

// Lock keeps others away that make, replace or remove what is next to the state directory dir, until it is closed; a
// daemon may run at the same time. The error wraps sketch.ErrLocked if another process has it.
func Lock(dir string) (*sketch.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("statedir: %w", err)
	}
	lock, err := sketch.LockFile(dir + config.LockSuffix)
	if errors.Is(err, sketch.ErrLocked) {
		return nil, fmt.Errorf("statedir: a restore, rebuild or prune of %s is under way: %w", dir, err)
	}
	return lock, err
}

// Claim makes the directory draft for a state that is to take the place of the one in dir; what an earlier try left
// there is removed. The caller holds Lock. The error wraps ErrNotOurs if something else is there.
func Claim(dir, draft string) error {
	_, err := os.Lstat(draft)
	if err == nil {
		if err := removable(dir, draft); err != nil {
			return err
		}
		err = os.RemoveAll(draft)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("statedir: %w", err)
	}
	if err := os.Mkdir(draft, 0o700); err != nil {
		return fmt.Errorf("statedir: %w", err)
	}
	return durable.WriteFile(filepath.Join(draft, replacesFile), 0o600, durable.Bytes([]byte(filepath.Base(dir)+"\n")))
}

// removable returns an error wrapping ErrNotOurs unless draft was made for the place of dir, or holds nothing yet.
func removable(dir, draft string) error {
	if replaces(dir, draft) {
		return nil
	}
	files, err := os.ReadDir(draft)
	if err == nil && !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return !temporary.MatchString(f.Name()) }) {
		return nil // it was about to be
	}
	return fmt.Errorf("statedir: %s is there and was %w: look at what it is, then move it away or remove it", draft,
		ErrNotOurs)
}

// replaces reports whether draft was made for the place of dir and has not taken it.
func replaces(dir, draft string) bool {
	text, err := os.ReadFile(filepath.Join(draft, replacesFile))
	return err == nil && strings.TrimSpace(string(text)) == filepath.Base(dir)
}

// KeptName is the name that the state in dir gets when it is replaced.
func KeptName(dir string, now time.Time) string {
	return dir + config.OldSuffix + now.UTC().Format(timeFormat)
}

// kept returns the states that were in dir before, oldest first.
func kept(dir string) ([]string, error) {
	parent, base := filepath.Split(dir)
	entries, err := os.ReadDir(filepath.Clean(parent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("statedir: %w", err)
	}
	var out []string
	for _, e := range entries {
		at, ok := strings.CutPrefix(e.Name(), base+config.OldSuffix)
		if _, err := time.Parse(timeFormat, strings.TrimSuffix(at, asideSuffix)); ok && err == nil {
			out = append(out, parent+e.Name())
		}
	}
	return out, nil
}

// Replace puts the state in draft, which Claim made, in the place of the one in dir, in one step: after a crash at
// any moment dir holds the old state or the new one. The old one, if there is any, is then kept under the name of
// KeptName. Where the file system cannot exchange names there is a moment without a state, after which Finish
// completes it. The caller holds Lock, and the lock of dir if that is there.
func Replace(dir, draft, kept string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("statedir: %w", err)
	}
	defer parent.Close()
	if err := replace(parent, filepath.Base(dir), filepath.Base(draft), filepath.Base(kept)); err != nil {
		return fmt.Errorf("statedir: replace %s: %w", dir, err)
	}
	return settled(dir)
}

func replace(parent *os.Root, base, draft, kept string) error {
	if _, err := parent.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return durable.Rename(parent, draft, base)
	}
	if err := settled(filepath.Join(parent.Name(), base)); err != nil {
		return err
	}
	// Under this name nothing removes it, whichever of the two states it is when a crash comes.
	if err := durable.Rename(parent, draft, kept); err != nil {
		return err
	}
	err := exchange(parent, base, kept)
	switch {
	case err == nil:
		return durable.SyncDir(parent)
	case !errors.Is(err, errors.ErrUnsupported):
		return errors.Join(err, durable.Rename(parent, kept, draft))
	}
	aside := kept + asideSuffix
	if err = durable.Rename(parent, base, aside); err == nil {
		err = durable.Rename(parent, kept, base)
	}
	if err == nil {
		err = durable.Rename(parent, aside, kept)
	}
	return err
}

// asideSuffix is added to the name of the old state while the new one has the name that it will be kept under.
const asideSuffix = "-"

// settled removes the note that a state is for the place it is in.
func settled(dir string) error {
	if err := os.Remove(filepath.Join(dir, replacesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Finish completes a replacement that a crash left without a state in dir. It is called before anything looks for a
// state in dir.
func Finish(dir string, log *slog.Logger) error {
	found, err := unfinished(dir)
	if err != nil || len(found) == 0 {
		return err
	}
	lock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close() // nothing was written to it
	if found, err = unfinished(dir); err != nil || len(found) == 0 {
		return err // its maker has finished
	}
	newest := found[len(found)-1]
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		parent, err := os.OpenRoot(filepath.Dir(dir))
		if err != nil {
			return fmt.Errorf("statedir: %w", err)
		}
		defer parent.Close()
		if err := durable.Rename(parent, filepath.Base(newest), filepath.Base(dir)); err != nil {
			return fmt.Errorf("statedir: %w", err)
		}
		log.Warn("replacement of the state was interrupted and is finished now", "dir", dir, "from", newest)
		return settled(dir)
	}
	for _, name := range found { // the state is the old one or, under its own name, the new one: either is whole
		log.Warn("replacement of the state was interrupted", "note", "what is in its place stays", "dir", dir, "kept", name)
		if err := settled(name); err != nil {
			return fmt.Errorf("statedir: %w", err)
		}
	}
	return nil
}

// unfinished returns the states that were about to take the place of the one in dir.
func unfinished(dir string) (found []string, err error) {
	names, err := kept(dir)
	for _, name := range names {
		if replaces(dir, name) {
			found = append(found, name)
		}
	}
	return found, err
}
