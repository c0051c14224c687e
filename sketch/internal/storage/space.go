package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/refitd/refitd/sketch/internal/fault"
)

// FreeBytes returns what the file system of dir, or of the directory it will be made in, has free for this user.
func FreeBytes(dir string) (int64, error) {
	s, err := fileSystem(dir)
	if err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// LeastFreeFiles is how many more files the file system of a state must be able to take for anything to be written:
// Badger makes about ten while it opens and another few for each memory table that it puts away, and tries for ever to
// make one that it cannot.
const LeastFreeFiles = 64

// FreeFiles returns how many more files (inodes) the file system of dir, or of the directory it will be made in, can
// take; the largest number where it does not count them.
func FreeFiles(dir string) (int64, error) {
	s, err := fileSystem(dir)
	if err != nil {
		return 0, err
	}
	if s.Files == 0 {
		return math.MaxInt64, nil
	}
	return int64(s.Ffree), nil
}

// fileSystem describes the file system of dir or of its nearest parent that exists.
func fileSystem(dir string) (*syscall.Statfs_t, error) {
	for {
		_, err := os.Stat(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil, fmt.Errorf("sketch: file system of %s: %w", dir, err)
	}
	return &s, nil
}

// openingBytes is what Badger may write between its start and its first transaction: the tables of two full memory
// tables.
func openingBytes(memTableBytes int64) int64 { return 2 * memTableBytes }

// leastOpenFiles is what a small state has open together with connections to a few brokers and scrapers; a limit below
// it fails somewhere else each time, and as something else.
const leastOpenFiles = 256

// A Place is where a state is to be kept, and what it needs there.
type Place struct {
	Dir           string // made if absent, though not by this room
	MemTableBytes int64  // Badger's memory table
	MinFreeBytes  int64  // bytes that have to be free, or two memory tables if that is more
	AllowNetwork  bool   // whether the file system of a network will do
}

// Preflight refuses what would end the process without a word once Badger has mapped its files, or leave it stuck: a
// file system that is full, has no inodes or is read-only, limits on the size and number of files below what it takes,
// and, for a daemon, a file system that is no local disk. It writes nothing.
func (p Place) Preflight(daemon bool, log *slog.Logger) error {
	dir, least, memTableBytes := p.Dir, p.MinFreeBytes, p.MemTableBytes
	s, err := fileSystem(dir)
	if err != nil {
		return err
	}
	if daemon {
		if err := checkVolume(volumeOf(uint32(s.Type)), dir, p.AllowNetwork, log); err != nil {
			return err
		}
	}
	const readOnly = 1 // ST_RDONLY of Linux, MNT_RDONLY of the BSDs
	if s.Flags&readOnly != 0 {
		return fmt.Errorf("sketch: %s: %w", dir, syscall.EROFS)
	}
	if free := int64(s.Bavail) * int64(s.Bsize); free < max(least, openingBytes(memTableBytes)) {
		return fmt.Errorf("sketch: %d bytes of free space for %s, at least %d are needed: %w",
			free, dir, max(least, openingBytes(memTableBytes)), fault.ErrSpace)
	}
	if s.Files > 0 && s.Ffree < LeastFreeFiles {
		return fmt.Errorf("sketch: the file system of %s can take %d more files (inodes), at least %d are needed: %w",
			dir, s.Ffree, LeastFreeFiles, fault.ErrInodes)
	}
	var limit syscall.Rlimit
	need := uint64(max(2*memTableBytes, 2*valueLogBytes)) // the sizes Badger gives its logs when it makes them
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err == nil && limit.Cur < need {
		return fmt.Errorf("sketch: %s: a file of %d bytes is needed and the limit (ulimit -f) is %d bytes: %w", dir,
			need, limit.Cur, syscall.EFBIG)
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < leastOpenFiles {
		return fmt.Errorf(
			"sketch: %s: this process may have %d files open (ulimit -n), at least %d are needed; LimitNOFILE raises it in a "+
				"unit of systemd: %w",
			dir,
			limit.Cur,
			leastOpenFiles,
			syscall.EMFILE,
		)
	}
	return nil
}
