package versions

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/diff"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// Diff compares two versions of a model: a and b are version numbers or aliases, of which ref has neither. Exit code 1
// if their predictions are not of the same kind.
func Diff(ref offline.SnapshotRef, a, b string, out *report.Emitter) error {
	if err := ref.Locate(); err != nil {
		return err
	}
	store, model := ref.Store, ref.Model
	t, err := ref.Load(true)
	if err != nil {
		return err
	}
	first, err := openAny(t, store, model, a)
	if err != nil {
		return err
	}
	second, err := openAny(t, store, model, b)
	if err != nil {
		return err
	}
	s, err := diff.Between(first, second, fitted.VersionOf)
	if err != nil {
		return report.Exit(report.ExitNo, err)
	}
	if err := heldOut(store, first, second, &s); err != nil {
		return err
	}
	return out.Emit("summary", s)
}

// openAny opens a version by its number or an alias.
func openAny(t snapshot.Trust, store, model, version string) (*snapshot.Model, error) {
	sel := snapshot.Selector{Alias: version}
	if n, err := strconv.ParseInt(version, 10, 64); err == nil {
		sel = snapshot.Selector{Version: n}
	}
	m, err := t.Open(store, model, sel)
	if err != nil {
		return nil, offline.StoreError(err, filepath.Join(store, model))
	}
	return m, nil
}

// heldOut compares the versions on the held-out events kept with the newer one, or else with the other; without any
// there is nothing to compare on.
func heldOut(store string, a, b *snapshot.Model, s *report.DiffSummary) error {
	newer, other := b, a
	if a.Manifest().Version > b.Manifest().Version {
		newer, other = a, b
	}
	events, err := keptHoldout(store, newer)
	if errors.Is(err, task.ErrNotKept) {
		events, err = keptHoldout(store, other)
	}
	if errors.Is(err, task.ErrNotKept) || err == nil && len(events) == 0 {
		return nil
	}
	if err != nil {
		return &report.ExitError{Code: report.ExitState, Err: err, Path: filepath.Join(store, s.Model)}
	}
	inputs := make([]snapshot.Input, len(events))
	for i := range events {
		inputs[i] = evaluate.InputOf(&events[i])
	}
	churn, err := diff.Churn(a, b, inputs)
	if err != nil {
		return report.Exit(report.ExitNo, err)
	}
	s.HeldOut = &churn
	for _, side := range []struct {
		version *snapshot.Model
		to      **report.Metrics
	}{{a, &s.A.HeldOut}, {b, &s.B.HeldOut}} {
		target, err := encode.NewTarget(offline.ModelOf(side.version), nil)
		if err != nil {
			return &report.ExitError{
				Code: report.ExitState,
				Err:  fmt.Errorf("offline: version %d: %w", side.version.Manifest().Version, err),
				Path: store,
			}
		}
		e := evaluate.NewEvaluation(side.version, target, nil)
		targets := make([]float64, target.Outputs())
		for i := range events {
			if target.Encode(targets, &events[i]) { // else a class that only the other version knows
				e.Add(&events[i])
			}
		}
		*side.to = e.All.Metrics()
	}
	return nil
}

// keptHoldout returns the held-out events kept with a version, without the crosses of their names, which versions make
// themselves. It returns task.ErrNotKept without any.
func keptHoldout(store string, version *snapshot.Model) ([]event.Event, error) {
	kept, err := openKept(store, version)
	if err != nil {
		return nil, err
	}
	events, err := kept.HeldOut()
	schema := kept.Model.Schema.Event()
	for i := range events {
		events[i].Categorical = events[i].Categorical[:schema.NumGiven()]
	}
	return events, err
}
