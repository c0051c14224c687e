package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// InspectState emits STATE of a model whose daemon is stopped. dir is storage.path. Exit code 5 if the state is in
// use or damaged, 6 if it does not exist.
func InspectState(ctx context.Context, dir, model string, log *slog.Logger, out *report.Emitter) error {
	path := filepath.Join(dir, model)
	store, err := openState(ctx, dir, model, log)
	if err != nil {
		return err
	}
	state, err := store.State()
	var outcomes *report.Outcomes
	// A state of an earlier build need not have it.
	if m, readErr := config.ReadStored(path); err == nil && readErr == nil {
		outcomes, err = ingest.OutcomesOf(m, store, nil)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return &report.ExitError{Code: report.ExitState, Err: err, Path: path}
	}
	shown := ingest.StateOf(model, state)
	shown.Outcomes = outcomes
	return errors.Join(out.Emit("state", shown), out.Emit("summary", report.Empty{}))
}

// openState opens the state of a model whose daemon is stopped: exit code 5 if it is in use or damaged, 6 if it does
// not exist.
func openState(ctx context.Context, dir, model string, log *slog.Logger) (*sketch.Store, error) {
	path := filepath.Join(dir, model)
	store, err := sketch.OpenExisting(ctx, path, log)
	switch {
	case errors.Is(err, sketch.ErrNoState):
		return nil, &report.ExitError{Code: report.ExitModel, Path: path,
			Err: fmt.Errorf("%w: check --storage.path %s and --model %s", err, dir, model)}
	case err != nil:
		key, err := binding.Translate(err)
		return nil, &report.ExitError{Code: report.ExitState, Err: err, Path: path, Key: key}
	}
	return store, nil
}
