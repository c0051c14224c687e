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

	RecordTime string `default:"now" enum:"now,event" help:"Time stamp of the records: now or event."`
}

func (c *replayCmd) Run(a *app) error {
	o := c.Options
	switch {
	case c.ConfigFile != "":
		var err error
		if o.For, err = loadModel(c.ConfigFile, c.Model, config.Exceptions{Offline: true}); err != nil {
			return err
		}
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
