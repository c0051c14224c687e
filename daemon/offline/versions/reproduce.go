package versions

import (
	"context"
	"path/filepath"

	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/snapshot"
)

// Reproduce makes the refit of a version again from its kept sample. Exit code 1 if the payload differs, with what
// does, or if the version cannot be reproduced, with why.
func Reproduce(ctx context.Context, ref offline.SnapshotRef, workers int, out *report.Emitter) error {
	if err := ref.Locate(); err != nil {
		return err
	}
	path := filepath.Join(ref.Store, ref.Model)
	t, err := ref.Load(true)
	if err != nil {
		return err
	}
	version, err := t.Open(ref.Store, ref.Model, ref.Selector())
	if err != nil {
		return offline.StoreError(err, path)
	}
	m := version.Manifest()
	found, err := reproduce.Version(ctx, ref.Store, version, workers)
	switch {
	case reproduce.IsRefusal(err) || ctx.Err() != nil:
		return &report.ExitError{Code: report.ExitNo, Err: err, Path: path}
	case err != nil:
		return &report.ExitError{Code: report.ExitState, Err: err, Path: path}
	}
	summary := report.ReproduceSummary{
		Model:            m.Model,
		Version:          m.Version,
		Equal:            found.Want == found.Got,
		PayloadDigest:    found.Want,
		ReproducedDigest: found.Got,
		Status:           m.Status,
		Warm:             m.Warm,
		Differences:      found.Differences,
	}
	if summary.Differences == nil {
		summary.Differences = []string{}
	}
	if err := out.Emit("summary", summary); err != nil || summary.Equal {
		return err
	}
	return &report.ExitError{Code: report.ExitNo, Reported: true}
}

// openKept reads what the refit of a version was made of, or returns task.ErrNotKept.
func openKept(store string, version *snapshot.Model) (*task.Record, error) {
	m := version.Manifest()
	return reproduce.Open(store, &m)
}
