package ingest

import (
	"errors"

	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// StateError gives an error of the state in path its exit code: 2 if the configuration does not fit the state, 6 if
// the state does not exist, 5 for everything else. An error that has one keeps it.
func StateError(err error, path string) error {
	if _, ok := errors.AsType[*report.ExitError](err); ok {
		return err
	}
	e := &report.ExitError{Code: report.ExitState, Path: path}
	e.Key, e.Err = binding.Translate(err)
	switch {
	case errors.Is(err, sketch.ErrConfig):
		e.Code = report.ExitUsage
	case errors.Is(err, sketch.ErrNoState):
		e.Code = report.ExitModel
	}
	return e
}
