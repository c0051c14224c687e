package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// stateCmd are the verbs that work on the state of a daemon that is stopped.
type stateCmd struct {
	Inspect   inspectCmd   `cmd:"" help:"Print the state of a stopped daemon, or a published version."`
	Verify    verifyCmd    `cmd:"" help:"Prove a state against its topics."`
	Backup    backupCmd    `cmd:"" help:"Write the state of a stopped daemon to a file."`
	Restore   restoreCmd   `cmd:"" help:"Put a backup in the place of a state."`
	Rebuild   rebuildCmd   `cmd:"" help:"Read the log into a new state and put it in the place of the old one."`
	Forget    forgetCmd    `cmd:"" help:"Erase a subject from the state of a stopped daemon."`
	AcceptGap acceptGapCmd `cmd:"" help:"Declare offsets lost that a halted partition needs."`
}

// stateFlags name the state of one model: of a configuration, or by its directory, whose states know their models.
type stateFlags struct {
	ConfigFile  string `name:"config.file"  placeholder:"FILE" help:"Configuration file of the daemon."`
	StoragePath string `name:"storage.path" placeholder:"DIR"  help:"State directory, in place of storage.path; enough where no broker is asked."`
	Model       string `                    placeholder:"NAME" help:"Model, if there are several."`
}

// load reads the configuration and finds the model. Without a file the configuration is what the state has of it: no
// brokers, this model alone.
func (f *stateFlags) load() (*config.Config, *config.Model, error) {
	if f.ConfigFile == "" {
		return f.stored()
	}
	conf, err := loadConfig(f.ConfigFile, config.Exceptions{Listen: true})
	if err != nil {
		return nil, nil, err
	}
	if f.StoragePath != "" {
		if err := conf.SetStorage(f.StoragePath); err != nil {
			return nil, nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--storage.path"}
		}
	}
	model, err := conf.Model(f.Model)
	if err != nil {
		return nil, nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--model", Path: f.ConfigFile}
	}
	return conf, model, nil
}

// loadForBroker is load for a verb that asks the brokers.
func (f *stateFlags) loadForBroker() (*config.Config, *config.Model, error) {
	if f.ConfigFile == "" {
		return nil, nil, &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: errors.New("--config.file is missing: the configuration says where the brokers are")}
	}
	return f.load()
}

func (f *stateFlags) stored() (*config.Config, *config.Model, error) {
	if err := f.locate(); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(f.StoragePath, f.Model)
	model, err := config.ReadStored(dir)
	if err != nil {
		if errors.Is(err, config.ErrNoModelFile) {
			err = fmt.Errorf(
				"%s is no state that says what its settings are: check --storage.path and --model, or name the configuration "+
					"file (--config.file)",
				dir,
			)
		}
		return nil, nil, &report.ExitError{Code: report.ExitModel, Err: err, Path: dir}
	}
	model.Name = f.Model
	conf := &config.Config{Models: []config.Model{*model}}
	conf.Storage.Path = f.StoragePath
	return conf, &conf.Models[0], nil
}

// locate fills in directory and model, of the configuration if there is one, and reads nothing else.
func (f *stateFlags) locate() error {
	if f.ConfigFile != "" {
		conf, model, err := f.load()
		if err == nil {
			f.StoragePath, f.Model = conf.Storage.Path, model.Name
		}
		return err
	}
	if f.StoragePath == "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: errors.New("neither --config.file nor --storage.path is given: one has to say where the state is")}
	}
	if f.Model != "" {
		return nil
	}
	var err error
	f.Model, err = offline.OnlyModel(f.StoragePath, config.ModelFile)
	return err
}
