package role

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/snapshot/durable"
)

// movedSuffix is added to the name of a state that is being removed. No model has a name with capitals.
const movedSuffix = ".MOVED"

// A MovedError says that another process has been the shard since this state was made. What the state has is in the
// merge topic as well, up to the head from which that process has continued.
type MovedError struct {
	Dir string // of the state
}

func (e *MovedError) Error() string { return fmt.Sprintf("model: %s: %v", e.Dir, shard.ErrMoved) }

// Unwrap returns shard.ErrMoved.
func (*MovedError) Unwrap() error { return shard.ErrMoved }

// Remove removes the state, so that the next start takes the shard up from the topic. The model has to be closed.
func (e *MovedError) Remove() (err error) {
	parent, err := os.OpenRoot(filepath.Dir(e.Dir))
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	base := filepath.Base(e.Dir)
	aside := base + movedSuffix
	if err := parent.RemoveAll(aside); err != nil { // left by a process that was killed during a removal
		return fmt.Errorf("model: %w", err)
	}
	if err := durable.Rename(parent, base, aside); err != nil &&
		!errors.Is(err, fs.ErrNotExist) { // not half of it, in whatever order
		return fmt.Errorf("model: %w", err)
	}
	if err := parent.RemoveAll(aside); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}
