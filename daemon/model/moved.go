package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon/shard"
)

// movedSuffix is added to the name of a state that is being removed. No model has a name with capitals.
const movedSuffix = ".MOVED"

// A MovedError says that another process has been the shard since this state was made. What the state has is in the merge topic as well, up to a head behind
// which that process has gone on.
type MovedError struct {
	Dir string // of the state
}

func (e *MovedError) Error() string { return fmt.Sprintf("model: %s: %v", e.Dir, shard.ErrMoved) }

// Unwrap returns shard.ErrMoved.
func (*MovedError) Unwrap() error { return shard.ErrMoved }

// Remove removes the state, so that the next start takes the shard up from the topic. The model has to be closed.
func (e *MovedError) Remove() error {
	aside := e.Dir + movedSuffix
	if err := os.RemoveAll(aside); err != nil { // of a process that was killed meanwhile
		return fmt.Errorf("model: %w", err)
	}
	if err := os.Rename(e.Dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) { // not half of it, in whatever order
		return fmt.Errorf("model: %w", err)
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("model: %s: %w", filepath.Dir(e.Dir), err)
	}
	return nil
}
