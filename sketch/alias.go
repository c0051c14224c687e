package sketch

import (
	"context"

	"github.com/refitd/refitd/sketch/internal/storage"
)

// LeastFreeFiles is how many more files the file system of a state must be able to take for anything to be written.
const LeastFreeFiles = storage.LeastFreeFiles

// ErrChanged: the state is not as the change left it that is to be undone.
var ErrChanged = storage.ErrChanged

// Names of types that the rooms below this package define.
type (
	// A Lock keeps other processes out of a state directory.
	Lock = storage.Lock
	// A Progress gets how far a pass over a store has come.
	Progress = storage.Progress
	// A Change is what one transaction replaces, for Undo.
	Change = storage.Change
)

// LockDir locks a state directory that exists. The error wraps ErrLocked and names the process that holds it, or
// fs.ErrNotExist if there is no such directory. If the directory is replaced during the call, the new one is locked.
func LockDir(dir string) (*Lock, error) { return storage.LockDir(dir) }

// LockFile locks a file, which it makes if it is absent. The error is that of LockDir.
func LockFile(name string) (*Lock, error) { return storage.LockFile(name) }

// FreeBytes returns what the file system of dir, or of the directory it will be made in, has free for this user.
func FreeBytes(dir string) (int64, error) { return storage.FreeBytes(dir) }

// FreeFiles returns how many more files (inodes) the file system of dir, or of the directory it will be made in, can
// take; the largest number where it does not count them.
func FreeFiles(dir string) (int64, error) { return storage.FreeFiles(dir) }

// WithProgress returns a context under which opening or restoring a store reports its progress to p. The store
// reports its later passes to p, too.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return storage.WithProgress(ctx, p)
}
