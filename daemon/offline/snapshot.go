package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/objects"
)

// SnapshotRef is the SNAPSHOT argument of the contract. An empty Alias without a Version is champion.
type SnapshotRef struct {
	Versions

	Alias   string `xor:"version" placeholder:"champion" help:"Version that this alias names; champion by default."`
	Version int64  `xor:"version" placeholder:"N"        help:"Version by its number."`

	Trust
}

// Versions say where the versions of a model are: in a store, under its name, or where a configuration says. A model
// that is the only one of either need not be named.
type Versions struct {
	Store      string `placeholder:"DIR"  help:"Directory of the snapshots, or URL of a bucket."`
	ConfigFile string `placeholder:"FILE" help:"Configuration file, in place of --store: it says where the snapshots are." name:"config.file"`
	Model      string `placeholder:"NAME" help:"Model, if there are several."`

	// Objects is the URL of the bucket that Store is a working copy of; Locate sets it.
	Objects string `kong:"-"`
	// Time is the field with the event time that the configuration says, and TimeUnit its unit; Locate sets them.
	Time     string `kong:"-"`
	TimeUnit string `kong:"-"`
}

// Locate fills in what is left out. An error is one of usage.
func (v *Versions) Locate() error {
	if v.ConfigFile != "" && v.Store != "" {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--store",
			Err:  errors.New("offline: --store and --config.file can't be used together"),
		}
	}
	if v.ConfigFile != "" {
		conf, err := config.LoadWith(v.ConfigFile, config.Exceptions{Listen: true})
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Path: v.ConfigFile}
		}
		m, err := conf.Model(v.Model)
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--model", Path: v.ConfigFile}
		}
		v.Store, v.Model, v.ConfigFile = m.Publish.Store, m.Name, ""
		v.Objects = m.Publish.Objects
		v.Time, v.TimeUnit = m.Schema.Time, m.Schema.TimeUnit
		return nil
	}
	if v.Store == "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--store",
			Err: errors.New(
				"offline: --store is missing: name the directory of the snapshots, or a configuration file (--config.file)",
			)}
	}
	if objects.IsURL(v.Store) {
		return v.checkout()
	}
	if v.Model != "" {
		return nil
	}
	var err error
	v.Model, err = OnlyModel(v.Store, "aliases")
	return err
}

// OnlyModel returns the name of the model in a directory of stores or states, which each have an entry of the given
// name. It is an error of usage if there are several, exit code 6 if no store has such an entry.
func OnlyModel(dir, entry string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", &report.ExitError{Code: report.ExitUsage, Path: dir, Err: fmt.Errorf("offline: %w", err)}
	}
	none := fmt.Sprintf("no model in %s: check the path", dir)
	if err != nil {
		none = fmt.Sprintf("there is no %s: check the path", dir)
	} else if _, err := os.Stat(filepath.Join(dir, entry)); err == nil {
		none = fmt.Sprintf("%s is the directory of one model: name the directory that it is in", dir)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, config.RestoreSuffix) || strings.HasSuffix(name, config.RebuildSuffix) ||
			strings.Contains(name, config.OldSuffix) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name, entry)); err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", &report.ExitError{Code: report.ExitModel, Path: dir, Err: errors.New("offline: " + none)}
	}
	if len(names) != 1 {
		return "", &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--model",
			Err: fmt.Errorf("offline: %s has %d models: name one of %q with --model",
				dir, len(names), names),
		}
	}
	return names[0], nil
}

// Trust says by whom version and alias have to be signed. Without keys signatures are not looked at.
type Trust struct {
	TrustedKeys []string `name:"trusted-key" sep:"none" placeholder:"FILE" help:"Refuse what no key in such a file (.pub of keys new) signed. Repeatable."`
}

// Load reads the keys. An expired version may still be looked at, but not scored with.
func (t *Trust) Load(allowExpired bool) (snapshot.Trust, error) {
	out := snapshot.Trust{AllowExpired: allowExpired}
	if len(t.TrustedKeys) == 0 {
		return out, nil
	}
	var err error
	if out.Keys, err = format.LoadKeys(t.TrustedKeys...); err != nil {
		return out, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--trusted-key"}
	}
	return out, nil
}

func (r *SnapshotRef) Selector() snapshot.Selector {
	return snapshot.Selector{Alias: r.Alias, Version: r.Version}
}

// Open reads and verifies the version.
func (r *SnapshotRef) Open() (*snapshot.Model, error) {
	if err := r.Locate(); err != nil {
		return nil, err
	}
	t, err := r.Load(false)
	if err != nil {
		return nil, err
	}
	m, err := t.Open(r.Store, r.Model, r.Selector())
	if err != nil {
		return nil, StoreError(err, filepath.Join(r.Store, r.Model))
	}
	return m, nil
}

// StoreError gives an error of a snapshot store its exit code: 6 if what was asked for is not there, 2 for a name that
// cannot be one, 5 for everything else, above all a version that is damaged or incomplete.
func StoreError(err error, path string) error {
	code := report.ExitState
	switch {
	case errors.Is(err, snapshot.ErrName),
		errors.Is(err, snapshot.ErrContents): // the store is not at fault for a model that says nothing
		code = report.ExitUsage
	case errors.Is(err, snapshot.ErrNotFound) && !errors.Is(err, fs.ErrNotExist): // else a file of the version is missing
		code = report.ExitModel
	case errors.Is(err, snapshot.ErrConflict): // somebody else was faster: the answer is no
		code = report.ExitNo
	}
	return &report.ExitError{Code: code, Err: err, Path: path}
}

// ModelOf returns a model with the schema and the loss of a version, for decoding events and judging predictions.
func ModelOf(version *snapshot.Model) *config.Model {
	m, manifest, s := config.DefaultModel(), version.Manifest(), version.Schema()
	m.Name, m.Train.Loss, m.Train.Algorithm = manifest.Model, manifest.Loss, config.AlgorithmWith(event.Task(s.Task),
		manifest.Loss)
	m.Schema = config.Schema{
		Task:        s.Task,
		Label:       s.Label,
		Levels:      s.Levels,
		Classes:     s.Classes,
		Positive:    s.Positive,
		Negative:    s.Negative,
		Categorical: s.Categorical,
		Multi:       s.Multi,
		Optional:    s.Optional,
	}
	if s.Task == format.Regression && s.LabelMin < s.LabelMax {
		m.Schema.LabelMin, m.Schema.LabelMax = s.LabelMin, s.LabelMax
	}
	for _, f := range s.Numeric {
		m.Schema.Numeric = append(m.Schema.Numeric, f.Name)
	}
	for _, d := range s.Derived {
		m.Schema.Derived = append(m.Schema.Derived,
			config.Derived{Name: d.Name, Kind: d.Kind, Of: d.Of, Field: d.Field, Unit: d.Unit, K: d.K})
		if d.Time != "" {
			m.Schema.Time, m.Schema.TimeUnit = d.Time, d.TimeUnit
		}
	}
	return &m
}
