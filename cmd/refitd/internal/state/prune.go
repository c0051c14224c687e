package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
)

// Prune lists what restores, rebuilds and backups of the state in dir have left, and removes it unless dryRun. A
// daemon may run at the same time. Exit code 5 if another restore, rebuild or prune is under way, or one of the
// states is in use.
func Prune(dir, model string, dryRun bool, log *slog.Logger, out *report.Emitter) error {
	if _, err := os.Stat(filepath.Dir(dir)); err != nil {
		return &report.ExitError{Code: report.ExitModel, Err: fmt.Errorf("state: %w", err), Path: dir}
	}
	if _, err := os.Stat(dir); err != nil { // it may be what a lost state has left
		if found, err := statedir.Leftovers(dir); err == nil && len(found) == 0 {
			return &report.ExitError{Code: report.ExitModel, Path: dir,
				Err: fmt.Errorf("state: there is no state %s, and no restore, rebuild or backup of it left anything: "+
					"check --model", dir)}
		}
	}
	making, err := lock(dir, log)
	if err != nil {
		return err
	}
	defer making.Close() // nothing was written to it
	found, err := statedir.Leftovers(dir)
	if err != nil {
		return ingest.StateError(err, dir)
	}
	summary := report.LeftoversSummary{Model: model, State: dir, Count: len(found), DryRun: dryRun}
	var failed error
	for _, l := range found {
		if !dryRun {
			if err := l.Remove(); err != nil {
				failed = errors.Join(failed, ingest.StateError(err, l.Path))
				continue
			}
			summary.Removed++
		}
		summary.Bytes += l.Bytes
		if err := out.Emit("leftover", report.Leftover{Kind: l.Kind, Path: l.Path, Bytes: l.Bytes, Modified: report.Time(
			l.At)}); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return out.Emit("summary", summary)
}
