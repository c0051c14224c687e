package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// Log prints the publish log of a model, or, if at is not zero, what its aliases named at that time. A line of the log
// that cannot be read is exit code 5, after all the others are printed.
func Log(v offline.Versions, at time.Time, out *report.Emitter) error {
	if err := v.Locate(); err != nil {
		return err
	}
	model := v.Model
	store, path := publish.NewStore(v.Store), filepath.Join(v.Store, model)
	if !at.IsZero() {
		return logAt(store, model, path, at, out)
	}
	summary := report.LogSummary{Model: model}
	var damage error
	for r, err := range store.Log(model) {
		if err != nil {
			if damage = errors.Join(damage, err); errors.Is(err, snapshot.ErrFormat) {
				continue
			}
			break
		}
		summary.Records++
		if err := out.Emit("record", report.LogRecord{Record: r}); err != nil {
			return err
		}
	}
	if damage != nil {
		return offline.StoreError(damage, path)
	}
	return out.Emit("summary", summary)
}

func logAt(store *publish.Store, model, path string, at time.Time, out *report.Emitter) error {
	live, err := store.LiveAt(model, at)
	if err != nil {
		return offline.StoreError(err, path)
	}
	moment := report.Time(at)
	summary := report.LogSummary{
		Model:   model,
		At:      moment,
		Aliases: make(map[string]int64, len(live)),
		Records: len(live),
	}
	for _, alias := range slices.Sorted(maps.Keys(live)) {
		line := report.Live{At: moment, Alias: alias, Since: live[alias]}
		for _, m := range line.Since.Moves {
			if m.Alias == alias {
				line.Version = m.To
			}
		}
		summary.Aliases[alias] = line.Version
		if err := out.Emit("live", line); err != nil {
			return err
		}
	}
	return out.Emit("summary", summary)
}

// PruneOptions say which versions an operator removes.
type PruneOptions struct {
	offline.Versions

	Keep   int              `default:"20" help:"Refits kept, and updates; versions with an alias always are."`
	MaxAge time.Duration    `             help:"Versions created longer ago go too, as 720h."                 placeholder:"D"`
	DryRun bool             `             help:"Remove nothing, say what would be removed."`
	Now    func() time.Time `                                                                                                 kong:"-"`
}

// publishing is how long a sample may wait for its version at most. Chosen by hand.
const publishing = time.Hour

// Prune removes old versions, or only says which.
func Prune(ctx context.Context, o PruneOptions, out *report.Emitter) error {
	if err := o.Locate(); err != nil {
		return err
	}
	if o.Keep < 1 {
		return &report.ExitError{Code: report.ExitUsage, Key: "--keep",
			Err: fmt.Errorf("versions prune: --keep is %d: 1 or more, the newest stays", o.Keep)}
	}
	store := publish.NewStore(o.Store)
	store.Now, store.By = o.Now, operator()
	if err := o.Attach(store); err != nil {
		return err
	}
	removed, err := store.Prune(ctx, o.Model, publish.Retention{Keep: o.Keep, MaxAge: o.MaxAge, DryRun: o.DryRun})
	if err != nil {
		return offline.StoreError(err, filepath.Join(o.Store, o.Model))
	}
	if !o.DryRun {
		if err := reproduce.Prune(store, o.Store, o.Model, publishing); err != nil {
			return offline.StoreError(err, filepath.Join(o.Store, o.Model))
		}
	}
	if removed == nil {
		removed = []int64{}
	}
	return out.Emit("summary", report.PruneSummary{Model: o.Model, Removed: removed, DryRun: o.DryRun})
}

// NewKeys makes a key pair in a directory.
func NewKeys(dir string, out *report.Emitter) error {
	id, err := publish.CreateKeys(dir, nil)
	if err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--out", Path: dir}
	}
	return out.Emit(
		"summary",
		report.KeysSummary{
			KeyID:       id,
			PrivateFile: filepath.Join(dir, id+".key"),
			PublicFile:  filepath.Join(dir, id+".pub"),
		},
	)
}
