package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// Backup writes the state of a stopped daemon to one file, which replaces an older one of that name when it is complete and durable.
func Backup(ctx context.Context, dir, model, path string, log *slog.Logger, out *report.Emitter) error {
	return withStore(ctx, dir, log, func(store *sketch.Store) error { return backup(store, model, path, out) })
}

func backup(store *sketch.Store, model, path string, out *report.Emitter) error {
	var header *sketch.BackupHeader
	var written fs.FileInfo
	began := false
	err := durable.WriteFile(path, 0o600, func(w io.Writer) (err error) {
		began = true
		header, err = store.Backup(w, companions...)
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
		s.Rows = &report.SampleRows{Train: int64(rows[sketch.Train]), Holdout: int64(rows[sketch.Select] + rows[sketch.Gate])}
	}))
}

// Restore puts a backup in the place of the state in dir. The state there is kept beside it.
func Restore(ctx context.Context, dir, model, path, why string, log *slog.Logger, out *report.Emitter) error {
	beside := dir + ".restore"
	header, err := RestoreBeside(ctx, beside, path, log)
	if err != nil {
		return err
	}
	lock, err := sketch.LockDir(dir)
	if err == nil {
		defer lock.Close() // nothing was written to it
	} else if !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(ingest.StateError(err, dir), os.RemoveAll(beside))
	}
	kept, err := Replace(dir, beside, "restore", why, fmt.Sprintf("from %s, lineage %s", path, header.Lineage))
	if err != nil {
		return errors.Join(err, os.RemoveAll(beside))
	}
	return out.Emit("summary", summary(model, header, func(s *report.BackupSummary) { s.Path, s.State, s.Kept = path, dir, kept }))
}

// RestoreBeside makes the state of a backup in a directory that is not in use; what an earlier try left there is removed.
func RestoreBeside(ctx context.Context, beside, path string, log *slog.Logger) (*sketch.BackupHeader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("state: %w", err), Path: path}
	}
	defer f.Close()
	if err := Clear(beside); err != nil {
		return nil, err
	}
	header, err := sketch.Restore(ctx, beside, f, log, companions...)
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
