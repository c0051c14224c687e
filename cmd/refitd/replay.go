package main

import (
	"errors"
	"io/fs"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/cmd/refitd/internal/replay"
	"github.com/refitd/refitd/daemon/report"
)

type replayCmd struct {
	replay.Options

	RecordTime string `default:"now" enum:"now,event" help:"Time stamp of the records: now or event."`
}

func (c *replayCmd) Run(a *app) error {
	transport := &kafka.Transport{ClientID: "refitd-replay"}
	defer transport.CloseIdleConnections()
	o := c.Options
	o.EventTime, o.Transport, o.Log = c.RecordTime == "event", transport, a.log
	o.Progress = a.progress("replay")
	defer o.Progress.Stop()
	summary, err := replay.Run(a.ctx, o)
	switch {
	case errors.Is(err, replay.ErrBroker):
		return &report.ExitError{Code: report.ExitBroker, Err: err, Key: "--bootstrap-servers", Topic: c.Topic}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: c.Path}
	case err != nil:
		return &report.ExitError{Code: report.ExitUsage, Err: err, Path: c.Path}
	}
	return a.out.Emit("summary", summary)
}
