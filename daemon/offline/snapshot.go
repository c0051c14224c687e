package offline

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// SnapshotRef is the SNAPSHOT argument of the contract.
type SnapshotRef struct {
	Store   string
	Model   string
	Alias   string // empty is champion
	Version int64  // 0 chooses by alias
	// TrustedKeys are files with public keys: version and alias have to be signed by one of them. Without any, signatures are not looked at.
	TrustedKeys []string
}

// trust is what the version has to prove. An expired one may still be looked at, but not scored with.
func trust(keyFiles []string, allowExpired bool) (snapshot.Trust, error) {
	t := snapshot.Trust{AllowExpired: allowExpired}
	if len(keyFiles) == 0 {
		return t, nil
	}
	var err error
	if t.Keys, err = snapshot.LoadKeys(keyFiles...); err != nil {
		return t, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--trusted-key"}
	}
	return t, nil
}

func (r *SnapshotRef) selector() snapshot.Selector {
	return snapshot.Selector{Alias: r.Alias, Version: r.Version}
}

// open reads and verifies the version.
func (r *SnapshotRef) open() (*snapshot.Model, error) {
	t, err := trust(r.TrustedKeys, false)
	if err != nil {
		return nil, err
	}
	m, err := t.Open(r.Store, r.Model, r.selector())
	if err != nil {
		return nil, storeError(err, filepath.Join(r.Store, r.Model))
	}
	return m, nil
}

// storeError gives an error of a snapshot store its exit code: 6 if what was asked for is not there, 2 for a name that cannot be one,
// 5 for everything else, above all a version that is damaged or incomplete.
func storeError(err error, path string) error {
	code := report.ExitState
	switch {
	case errors.Is(err, snapshot.ErrName):
		code = report.ExitUsage
	case errors.Is(err, snapshot.ErrNotFound) && !errors.Is(err, fs.ErrNotExist): // else a file of the version is missing
		code = report.ExitModel
	case errors.Is(err, snapshot.ErrConflict): // somebody else was faster: the answer is no
		code = report.ExitNo
	}
	return &report.ExitError{Code: code, Err: err, Path: path}
}

// modelOf returns a model with the schema and the loss of a version, for decoding events and judging predictions.
func modelOf(version *snapshot.Model) *config.Model {
	m, manifest, s := config.DefaultModel(), version.Manifest(), version.Schema()
	m.Name, m.Train.Loss = manifest.Model, manifest.Loss
	m.Schema = config.Schema{Task: s.Task, Label: s.Label, Levels: s.Levels, Classes: s.Classes, Categorical: s.Categorical, Multi: s.Multi}
	if s.Task == snapshot.Regression && s.LabelMin < s.LabelMax {
		m.Schema.LabelMin, m.Schema.LabelMax = s.LabelMin, s.LabelMax
	}
	for _, f := range s.Numeric {
		m.Schema.Numeric = append(m.Schema.Numeric, f.Name)
	}
	return &m
}
