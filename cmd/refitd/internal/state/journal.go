// Package state holds what an operator does to the state of a stopped daemon: check it, declare a gap, back it up, read it anew, put a backup or
// a rebuilt state in its place. Each decision goes into a journal beside the state.
package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// journalFile lists, in the state directory, what operators decided: JSON Lines, the newest last.
const journalFile = "journal.jsonl"

// companions are the files of a state directory that go with the rows wherever they go.
var companions = []string{journalFile, config.PosteriorFile, config.ModelFile}

// A Decision is a line of the journal.
type Decision struct {
	Time string `json:"time"` // RFC 3339
	Verb string `json:"verb"` // of the command
	What string `json:"what"`
	Why  string `json:"why,omitempty"` // as the operator gave it
}

// write appends a decision to the journal of a state; it is durable when write returns.
func (d *Decision) write(dir string) error {
	line, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("state: journal: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return ingest.StateError(err, dir)
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return ingest.StateError(fmt.Errorf("state: journal: %w", err), dir)
	}
	return nil
}

func decided(now time.Time, verb, why, format string, args ...any) *Decision {
	return &Decision{Time: report.Time(now), Verb: verb, What: fmt.Sprintf(format, args...), Why: why}
}

// Replace puts the state in beside in the place of the one in dir, which is kept under another name: kept, empty if there was none. The rest of
// what belongs to the old state, its journal and posterior, goes along, and the decision to replace it is written down. The caller holds the
// lock of dir, if that is there, and has closed beside, which has the same parent. A crash in between leaves both directories, one under its
// new name.
func Replace(dir, beside, verb, why, what string) (kept string, err error) {
	now := time.Now()
	_, missing := os.Stat(dir)
	if missing == nil {
		if err := remember(dir, beside); err != nil {
			return "", ingest.StateError(err, beside)
		}
		for _, name := range companions {
			if err := adopt(filepath.Join(dir, name), filepath.Join(beside, name)); err != nil {
				return "", ingest.StateError(err, dir)
			}
		}
		kept = fmt.Sprintf("%s.old-%s", dir, now.UTC().Format("20060102T150405.000Z"))
		what += ", in place of " + kept
	} else if !errors.Is(missing, fs.ErrNotExist) {
		return "", ingest.StateError(missing, dir)
	}
	if err := decided(now, verb, why, "%s", what).write(beside); err != nil {
		return "", err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return "", ingest.StateError(err, dir)
	}
	defer parent.Close()
	if kept != "" {
		if err := durable.Rename(parent, filepath.Base(dir), filepath.Base(kept)); err != nil {
			return "", ingest.StateError(err, dir)
		}
	}
	if err := durable.Rename(parent, filepath.Base(beside), filepath.Base(dir)); err != nil {
		return kept, ingest.StateError(err, beside)
	}
	return kept, nil
}

// remember hands the subjects that the state in dir was to forget over to the one in beside: a backup may be older than that.
func remember(dir, beside string) error {
	w, err := sketch.ReadWitness(dir)
	if err != nil || len(w.Forgotten) == 0 {
		return nil // what cannot be read has nothing to say
	}
	store, err := sketch.OpenExisting(context.Background(), beside, nil)
	if err != nil {
		return err
	}
	return errors.Join(store.Remember(w.Forgotten), store.Close())
}

// Clear removes what an earlier try left in a directory beside a state. The error wraps sketch.ErrLocked if it is still being made.
func Clear(beside string) error {
	lock, err := sketch.LockDir(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(beside), lock.Close())
	}
	if err != nil {
		return ingest.StateError(err, beside)
	}
	return nil
}

// adopt copies the old state's file, in place of one that is older still.
func adopt(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(to, 0o600, durable.Bytes(content))
}
