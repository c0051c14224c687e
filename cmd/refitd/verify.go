package main

import (
	"path/filepath"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/verify"
)

// verifyCmd is verify.
type verifyCmd struct {
	ConfigFile  string `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file the daemon ran with."`
	StoragePath string `name:"storage.path" placeholder:"DIR" help:"State directory, in place of storage.path."`
	Model       string `placeholder:"NAME" help:"Model, if the file has several."`
	Offline     bool   `help:"Check the state directory alone, without the brokers."`
}

// Run prints one line for each partition and the verdict. Anything but a proof is exit code 1.
func (c *verifyCmd) Run(a *app) error {
	conf, err := loadConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	if c.StoragePath != "" {
		if conf.Storage.Path, err = filepath.Abs(c.StoragePath); err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--storage.path"}
		}
	}
	model, err := conf.Model(c.Model)
	if err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--model", Path: c.ConfigFile}
	}
	o := verify.Options{Model: model, Dir: conf.StatePath(model), Kafka: &conf.Kafka, Log: a.log}
	if c.Offline {
		o.Kafka = nil
	}
	result, err := verify.Run(a.ctx, o)
	if err != nil {
		return err
	}
	for _, p := range result.Partitions {
		if err := a.out.Emit("partition", p); err != nil {
			return err
		}
	}
	if err := a.out.Emit("summary", result.Summary); err != nil {
		return err
	}
	if !result.Summary.OK {
		return &report.ExitError{Code: report.ExitNo, Reported: true}
	}
	return nil
}
