package main

import (
	"errors"
	"io/fs"

	"github.com/refitd/refitd/cmd/refitd/internal/replay"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

type replayCmd struct {
	ConfigFile string `name:"config.file" placeholder:"FILE" help:"Configuration of the model that reads the records."`
	Model      string `                   placeholder:"NAME" help:"Model of the configuration; not needed if it has one only."`

	replay.Options
	Schemas registryFlags `embed:""`

	RecordTime string `default:"now" enum:"now,event" help:"Time stamp of the records: now or event."`
}

func (c *replayCmd) Run(a *app) error {
	o := c.Options
	switch {
	case c.ConfigFile != "":
		conf, err := loadConfig(c.ConfigFile, config.Exceptions{Offline: true, Listen: true})
		if err != nil {
			return err
		}
		if o.For, err = modelOf(conf, c.Model); err != nil {
			return err
		}
		if o.Kafka, err = c.registry(conf); err != nil {
			return err
		}
	case c.Schemas.Registry != "":
		return &report.ExitError{Code: report.ExitUsage, Key: "--registry",
			Err: errors.New("--registry is that of --as, which needs --config.file")}
	case c.Model != "":
		return &report.ExitError{Code: report.ExitUsage, Key: "--model",
			Err: errors.New("--model names a model of --config.file")}
	}
	o.EventTime, o.Log = c.RecordTime == "event", a.log
	o.Progress = a.progress("replay")
	defer o.Progress.Stop()
	summary, err := replay.Run(a.ctx, o)
	var known *report.ExitError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, replay.ErrBroker):
		return &report.ExitError{Code: report.ExitBroker, Err: err, Key: "--bootstrap-servers", Topic: c.Topic}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: c.Path}
	case err != nil:
		return &report.ExitError{Code: report.ExitUsage, Err: err, Path: c.Path}
	}
	return a.out.Emit("summary", summary)
}

// registry returns the configuration of Kafka with the registry that the flags name, if they name one, and with none
// where a file has the schema.
func (c *replayCmd) registry(conf *config.Config) (*config.Kafka, error) {
	k := conf.Kafka
	switch r, err := c.Schemas.settings(); {
	case err != nil:
		return nil, err
	case r.URL != "" && c.SchemaFile != "":
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--schema-file",
			Err: errors.New("--schema-file is for records without a registry: give it or --registry")}
	case r.URL != "" || c.SchemaFile != "":
		k.SchemaRegistry = r
	}
	return &k, nil
}
