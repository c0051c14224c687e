// Package state holds what an operator does to the state of a stopped daemon: check it, declare a gap, back it up, read
// it anew, put a backup or a rebuilt state in its place. Each decision goes into a journal in the folder of the state.
package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// journalFile lists, in the state directory, what operators decided: JSON Lines, the newest last.
const journalFile = "journal.jsonl"

// sideFiles are the files of a state directory that are backed up and moved together with the rows.
var sideFiles = []string{journalFile, config.PosteriorFile, config.ModelFile, config.NumbersFile, config.CurvesFile}

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

// Replace puts the state in staging in the place of the one in dir, which is kept under another name: kept, empty if
// there was no state. The rest of what belongs to the old state, its journal and posterior, moves along, except
// settings that the new rows bring with them. The decision to replace it is written down. The caller holds
// statedir.Lock and the lock of dir, if that is there, and has closed staging. After a crash dir holds one of the
// two.
func Replace(dir, staging, verb, why, what string) (kept string, err error) {
	now := time.Now()
	_, missing := os.Stat(dir)
	if missing == nil {
		for _, name := range append(slices.Clone(sideFiles), statedir.BackupsFile) {
			if _, err := os.Stat(filepath.Join(staging, name)); err == nil && name == config.ModelFile {
				continue // the new rows are of other settings, perhaps
			}
			if err := adopt(filepath.Join(dir, name), filepath.Join(staging, name)); err != nil {
				return "", ingest.StateError(err, dir)
			}
		}
		kept = statedir.KeptName(dir, now)
		what += ", in place of " + kept
	} else if !errors.Is(missing, fs.ErrNotExist) {
		return "", ingest.StateError(missing, dir)
	}
	if err := decided(now, verb, why, "%s", what).write(staging); err != nil {
		return "", err
	}
	if err := statedir.Replace(dir, staging, kept); err != nil {
		return kept, ingest.StateError(err, dir)
	}
	return kept, nil
}

// recall lets the state in staging forget what the one in dir was to forget, and the subjects on the lists that are
// kept outside both: a backup may be older than that. A state that is not there, or cannot be read, has nothing to
// say. The error carries its exit code.
func recall(ctx context.Context, f *ingest.Forgotten, store *sketch.Store, staging string) error {
	var old []*sketch.Witness
	if w, err := sketch.ReadWitness(f.Dir); err == nil {
		old = append(old, w)
	}
	if err := f.Recall(ctx, store, staging, old...); err != nil {
		return ingest.StateError(err, staging)
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
