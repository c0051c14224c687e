package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/statedir"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// Backup writes the state of a stopped daemon to one file, which replaces an older one of that name when it is complete
// and durable.
func Backup(ctx context.Context, dir, model, path string, meter *progress.Meter, log *slog.Logger,
	out *report.Emitter) error {
	meter.Stage("opening the state", "", 0)
	return withStore(sketch.WithProgress(ctx, meter.Pass), dir, log, func(store *sketch.Store) error {
		meter.Stage("checking and writing", "", 0)
		if err := statedir.NoteBackup(dir, path); err != nil {
			return ingest.StateError(err, dir)
		}
		return backup(store, model, path, out)
	})
}

func backup(store *sketch.Store, model, path string, out *report.Emitter) error {
	var header *sketch.BackupHeader
	var written fs.FileInfo
	began := false
	err := durable.WriteFile(path, 0o600, func(w io.Writer) (err error) {
		began = true
		if err := statedir.Hold(w); err != nil {
			return err
		}
		header, err = store.Backup(w, sideFiles...)
		return err
	})
	if err == nil {
		written, err = os.Stat(path)
	}
	if err != nil && !began { // it cannot be made there
		return &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("state: %w", err), Key: "--output", Path: path}
	}
	if err != nil {
		return ingest.StateError(err, path)
	}
	rows, _ := store.Size()
	return out.Emit("summary", summary(model, header, func(s *report.BackupSummary) {
		s.Path, s.Bytes = path, written.Size()
		s.Rows = &report.SampleRows{
			Train:   int64(rows[sketch.Train]),
			Holdout: int64(rows[sketch.Select] + rows[sketch.Gate]),
		}
	}))
}

// Restore puts a backup in the place of the state of model in dir. The state there is kept under another
// name.
func Restore(ctx context.Context, dir string, model *config.Model, path, why string, meter *progress.Meter,
	log *slog.Logger, out *report.Emitter) error {
	making, err := lock(dir, log)
	if err != nil {
		return err
	}
	defer making.Close() // nothing was written to it
	held, err := sketch.LockDir(dir)
	if err == nil {
		defer held.Close() // nothing was written to it
	} else if !errors.Is(err, fs.ErrNotExist) {
		return ingest.StateError(err, dir)
	}
	staging := dir + config.RestoreSuffix
	header, err := RestoreTo(ctx, dir, staging, path, meter, log)
	if err != nil {
		return err
	}
	meter.Stage("opening the state", "", 0)
	err = withStore(sketch.WithProgress(ctx, meter.Pass), staging, log, func(store *sketch.Store) error {
		return recall(ctx, &ingest.Forgotten{Dir: dir, Model: model, Log: log}, store, staging)
	})
	kept := ""
	if err == nil {
		kept, err = Replace(dir, staging, "restore", why, fmt.Sprintf("from %s, lineage %s", path, header.Lineage))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(staging))
	}
	return out.Emit("summary",
		summary(model.Name, header, func(s *report.BackupSummary) { s.Path, s.State, s.Kept = path, dir, kept }))
}

// lock finishes a replacement that was interrupted and keeps others from making another one. The error carries its exit
// code.
func lock(dir string, log *slog.Logger) (*sketch.Lock, error) {
	err := statedir.Finish(dir, log)
	if err == nil {
		var making *sketch.Lock
		if making, err = statedir.Lock(dir); err == nil {
			return making, nil
		}
	}
	return nil, ingest.StateError(err, dir)
}

// RestoreTo makes the state of a backup in staging, which is to replace dir. It removes what an earlier try left in
// staging. The caller holds statedir.Lock.
func RestoreTo(ctx context.Context, dir, staging, path string, meter *progress.Meter, log *slog.Logger) (
	*sketch.BackupHeader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("state: %w", err), Path: path}
	}
	defer f.Close()
	if err := statedir.Claim(dir, staging); err != nil {
		return nil, ingest.StateError(err, staging)
	}
	meter.Stage("reading the backup", "bytes", 0)
	if st, err := f.Stat(); err == nil {
		meter.Stage("reading the backup", "bytes", st.Size())
	}
	header, err := sketch.Restore(sketch.WithProgress(ctx, func(unit string, done, total int64) {
		if done == 0 {
			meter.Stage("checking the state", unit, total)
		}
		meter.Pass(unit, done, total)
	}), staging, meter.Reader(f), log, sideFiles...)
	if err != nil {
		return nil, ingest.StateError(fmt.Errorf("state: %s: %w", path, err), path)
	}
	return header, nil
}

func summary(model string, h *sketch.BackupHeader, fill func(*report.BackupSummary)) report.BackupSummary {
	s := report.BackupSummary{Model: model, Lineage: h.Lineage, Format: h.Format, Partitions: []report.Cut{}}
	for _, p := range h.Positions {
		s.Partitions = append(s.Partitions, report.Cut{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
	fill(&s)
	return s
}
