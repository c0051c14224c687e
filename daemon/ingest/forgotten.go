package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// forgottenFile is the copy of the markers in the store of a model's versions.
const forgottenFile = "forgotten"

// Forgotten keeps the markers of forgotten subjects in two files outside the state: one next to its directory, one in
// the store of the published versions. A state that lacks markers, because it is an older copy or a new one, gets
// them before anything is read into it.
type Forgotten struct {
	Dir   string // state directory of the model
	Model *config.Model
	Log   *slog.Logger
}

// nextToState is the copy next to the state directory.
func (f *Forgotten) nextToState() string { return f.Dir + config.ForgottenSuffix }

// stored is the copy in the store of the published versions.
func (f *Forgotten) stored() string {
	return filepath.Join(f.Model.Publish.Store, f.Model.Name, forgottenFile)
}

// read returns what the copies say. One that cannot be read is passed over if the other can.
func (f *Forgotten) read() (found []*sketch.Witness, err error) {
	var failed error
	for _, path := range []string{f.nextToState(), f.stored()} {
		w, err := sketch.ReadForgotten(path)
		switch {
		case err == nil:
			found = append(found, w)
		case !errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, &report.ExitError{Code: report.ExitState, Path: path, Err: fmt.Errorf(
				"state: %w: it says which subjects were erased; put a copy of it back, or remove it if none was", err)})
		}
	}
	if len(found) == 0 {
		return nil, failed
	}
	if failed != nil {
		f.Log.Error("one of the two lists of forgotten subjects cannot be read",
			"note", "the other one counts", "error", failed)
	}
	return found, nil
}

// Recall lets the state that store has open in the directory at take up the markers that are kept outside it, and
// those of more, and removes what it still has of their subjects: rows, the posterior, which names them, and all dead
// letters that wait, because nothing says whom they name. Nothing may be applied before. After a crash in between it
// is to be called again.
func (f *Forgotten) Recall(ctx context.Context, store *sketch.Store, at string, more ...*sketch.Witness) error {
	found, err := f.read()
	if err != nil {
		return err
	}
	for _, w := range append(found, more...) {
		if err := store.RememberOf(w); err != nil {
			return err
		}
	}
	if !store.Unfinished() {
		return nil
	}
	if err := RemoveLearned(at); err != nil {
		return err
	}
	letters, err := store.DropOutbox(func(*sketch.DeadLetter) bool { return true })
	if err != nil {
		return err
	}
	rows, err := Erase(ctx, f.Model, store)
	if err != nil {
		return err
	}
	if rows+letters == 0 {
		return nil
	}
	f.Log.Warn("removed what the state still had of forgotten subjects", "rows", rows, "dead_letters", letters)
	return store.Purge()
}

// RemoveLearned removes what a state directory keeps of what was learned.
func RemoveLearned(dir string) error {
	for _, name := range []string{config.PosteriorFile, config.CopiesFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ingest: %w", err)
		}
	}
	return nil
}

// Known reports whether a state has all markers that are kept outside it. What cannot be read the next start says.
func (f *Forgotten) Known(store *sketch.Store) bool {
	found, _ := f.read()
	return !slices.ContainsFunc(found, func(w *sketch.Witness) bool { return !store.Knows(w) })
}

// Keep writes the markers of a state to both places. A store of versions that does not take them is logged: the next
// start tries again.
func (f *Forgotten) Keep(store *sketch.Store) error {
	stored, err := f.KeepBoth(store)
	if stored != nil {
		f.Log.Error("forgotten subjects not written to the store of versions", "error", stored)
	}
	return err
}

// KeepBoth is Keep that also returns the error of the store of versions.
func (f *Forgotten) KeepBoth(store *sketch.Store) (stored, err error) {
	if len(store.ForgottenFields()) == 0 {
		return nil, nil
	}
	if err := store.KeepForgotten(f.nextToState()); err != nil {
		return nil, err
	}
	if stored = os.MkdirAll(filepath.Dir(f.stored()), 0o755); stored == nil {
		stored = store.KeepForgotten(f.stored())
	}
	return stored, nil
}
