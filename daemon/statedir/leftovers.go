package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// BackupsFile lists, in a state directory, the directories that backups of it were written to, one a line: what a
// killed one leaves is there.
const BackupsFile = "backups"

// settledAfter is how long nobody has written to a file that nobody is writing.
const settledAfter = time.Minute

// temporary is the name of a file that package durable has not finished.
var temporary = regexp.MustCompile(`^\.tmp-[A-Z2-7]{26}$`)

// A Leftover is something next to a state that nothing reads: a state that was replaced, or what a process that was
// killed did not finish.
type Leftover struct {
	Kind  string // restore, rebuild, old or temporary
	Path  string
	Bytes int64
	At    time.Time // last modified
}

// Leftovers lists the leftovers next to the state in dir, in the directories of its backups, and in dir itself. A
// restore or rebuild that is under way is among it unless the caller holds Lock.
func Leftovers(dir string) (found []Leftover, err error) {
	names, err := kept(dir)
	if err != nil {
		return nil, err
	}
	kinds := make(map[string]string)
	for _, name := range names {
		kinds[name] = "old"
	}
	for kind, suffix := range map[string]string{"restore": config.RestoreSuffix, "rebuild": config.RebuildSuffix} {
		if replaces(dir, dir+suffix) {
			kinds[dir+suffix] = kind
		}
	}
	for _, d := range append(backupDirs(dir), dir, filepath.Dir(dir)) {
		files, err := os.ReadDir(d)
		if err != nil {
			continue // it is not there, or not this user's
		}
		for _, f := range files {
			if path := filepath.Join(d, f.Name()); temporary.MatchString(f.Name()) && f.Type().IsRegular() &&
				abandoned(path) {
				kinds[path] = "temporary"
			}
		}
	}
	for path, kind := range kinds {
		l := Leftover{Kind: kind, Path: path}
		if l.Bytes, l.At, err = sizeOf(path); err != nil {
			return nil, fmt.Errorf("statedir: %w", err)
		}
		found = append(found, l)
	}
	slices.SortFunc(found, func(a, b Leftover) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// abandoned reports whether nobody is writing a temporary file.
func abandoned(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return false
	}
	begin := make([]byte, len(sketch.BackupMagic))
	if _, err := io.ReadFull(f, begin); err == nil && string(begin) == sketch.BackupMagic {
		return true // the process that writes one holds it
	}
	st, err := f.Stat()
	return err == nil && time.Since(st.ModTime()) > settledAfter
}

// Hold marks a temporary file as being written, until it is closed.
func Hold(w io.Writer) error {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// sizeOf adds up what is below a path, which may be changing.
func sizeOf(path string) (bytes int64, at time.Time, err error) {
	err = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil {
			var st fs.FileInfo
			if st, err = entry.Info(); err == nil {
				if st.ModTime().After(at) {
					at = st.ModTime()
				}
				if st.Mode().IsRegular() {
					bytes += st.Size()
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return bytes, at, err
}

// Warn logs how much leftovers take, in one line, if there are any. A restore or rebuild that is under way is none.
func Warn(dir string, log *slog.Logger) {
	found, err := Leftovers(dir)
	if err == nil && slices.ContainsFunc(found, isMaking) {
		var lock *sketch.Lock
		if lock, err = Lock(dir); err == nil {
			defer lock.Close() // nothing was written to it
		} else if errors.Is(err, sketch.ErrLocked) {
			found, err = slices.DeleteFunc(found, isMaking), nil
		}
	}
	if err != nil {
		log.Warn("leftovers of the state cannot be listed", "dir", dir, "error", err)
		return
	}
	bytes := int64(0)
	for _, l := range found {
		bytes += l.Bytes
	}
	if len(found) > 0 {
		log.Warn(
			"replaced states and unfinished files take space", "note", "refitd versions prune --state lists and removes them",
			"dir", dir, "count", len(found), "bytes", bytes)
	}
}

func isMaking(l Leftover) bool { return l.Kind == "restore" || l.Kind == "rebuild" }

// Remove removes a leftover of the state in dir. The caller holds Lock. The error wraps sketch.ErrLocked if it is a
// state that somebody looks at.
func (l *Leftover) Remove() error {
	if l.Kind != "temporary" {
		lock, err := sketch.LockDir(l.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer lock.Close() // nothing was written to it
	}
	if err := os.RemoveAll(l.Path); err != nil {
		return fmt.Errorf("statedir: %w", err)
	}
	return nil
}

func backupDirs(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, BackupsFile))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// NoteBackup writes down, in the state in dir, that a backup of it is written to path.
func NoteBackup(dir, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("statedir: %w", err)
	}
	target := filepath.Dir(path)
	if strings.Contains(target, "\n") {
		return nil // the list cannot hold it
	}
	dirs := backupDirs(dir)
	if slices.Contains(dirs, target) {
		return nil
	}
	text := strings.Join(append(dirs, target), "\n") + "\n"
	return durable.WriteFile(filepath.Join(dir, BackupsFile), 0o600, durable.Bytes([]byte(text)))
}
