package model

import (
	"fmt"

	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// Failure returns why a run up to the log ends came to nothing, with its exit code, nil if it did not: the store took
// no version, nothing was applied, the last refit failed, or the gate let none through. It is nil of a model that
// another process trains, and of one whose refits are off while consumers have a version. Call it when Run has
// returned.
func (m *Model) Failure() *report.ExitError {
	if !m.role.Trains() {
		return nil
	}
	fail := func(code int, format string, args ...any) *report.ExitError {
		return &report.ExitError{Code: code, Err: fmt.Errorf("model "+m.name+": "+format, args...)}
	}
	trouble := m.versions.Trouble()
	if trouble != nil && trouble.Cause == part.CauseStore {
		err := fail(report.ExitState, "%s", trouble.Text)
		err.Key, err.Path = "publish.store", m.state.Settings.Publish.Store
		return err
	}
	applied, rejected, rows := int64(0), int64(0), 0
	for _, l := range m.state.Store.Ledger() {
		applied, rejected = applied+l.Applied, rejected+l.Rejected
	}
	counts, _ := m.state.Store.Size()
	for _, n := range counts {
		rows += n
	}
	failure, off := m.trainer.Failure(), m.trainer.Disabled()
	_, _, champion := m.versions.Tally()
	judged := m.versions.Judged()
	switch {
	case applied == 0 && rejected > 0:
		return fail(report.ExitNo, "nothing was applied: %s read and rejected, rejected_by_reason says why",
			report.Count(rejected, "record"))
	case applied == 0:
		return fail(report.ExitNo, "nothing was applied: no record was read")
	case trouble != nil:
		return fail(report.ExitNo, "%s", trouble.Text)
	case failure != "" && m.trainer.Refitted() != nil:
		return fail(report.ExitNo, "the last refit failed: %s", failure)
	case failure != "":
		return fail(report.ExitNo, "no refit succeeded: %s", failure)
	case champion == nil && judged != nil:
		return fail(report.ExitNo, "the gate let no version through: %s", judged.Reason)
	case m.trainer.Refitted() != nil, off != "" && champion != nil:
		return nil
	case off != "":
		return fail(report.ExitNo, "no refit was made: %s", off)
	}
	return fail(report.ExitNo, "no refit was made: %s to train on, %d held out",
		report.Count(counts[sketch.Train], "event"), rows-counts[sketch.Train])
}
