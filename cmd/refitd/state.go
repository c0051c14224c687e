package main

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// stateFlags name the state of one model of a configuration.
type stateFlags struct {
	ConfigFile  string `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file of the daemon."`
	StoragePath string `name:"storage.path" placeholder:"DIR" help:"State directory, in place of storage.path."`
	Model       string `placeholder:"NAME" help:"Model, if the file has several."`
}

// load reads the configuration and finds the model.
func (f *stateFlags) load() (*config.Config, *config.Model, error) {
	conf, err := loadConfig(f.ConfigFile, config.Exceptions{})
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
