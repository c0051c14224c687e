package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/cmd/refitd/internal/replay"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// replayCmd is replay.
type replayCmd struct {
	Data             string        `required:"" placeholder:"FILE" help:"File to send; gzip is detected."`
	Format           string        `required:"" enum:"movielens,jsonl,libsvm,csv,lines" help:"Format of the file: movielens, jsonl, libsvm, csv (with a header) or lines (each line is one record, byte for byte)."`
	BootstrapServers []string      `required:"" placeholder:"HOST:PORT" help:"Brokers, separated by commas."`
	Topic            string        `required:"" help:"Topic; it is created if absent."`
	Partitions       int           `default:"4" help:"Partitions of a topic that is created."`
	Key              string        `default:"user" help:"Field whose value is the key of the record and picks its partition."`
	Order            dataset.Order `default:"file" enum:"file,time,shuffle" help:"Order of the records: file, time or shuffle."`
	Seed             uint64        `default:"1" help:"Seed of the shuffle."`
	Rate             float64       `help:"Records per second; unlimited if not given."`
	Speedup          float64       `help:"Send by event times, this many times faster than they passed."`
	Limit            int64         `help:"Send this many records only."`
	RecordTime       string        `default:"now" enum:"now,event" help:"Time stamp of the records: now or event."`
}

// Run sends the file and prints the summary.
func (c *replayCmd) Run(a *app) error {
	transport := &kafka.Transport{ClientID: "refitd-replay"}
	defer transport.CloseIdleConnections()
	o := replay.Options{
		Path: c.Data, Format: dataset.Format(c.Format), BootstrapServers: c.BootstrapServers, Topic: c.Topic, Partitions: c.Partitions,
		Key: c.Key, Order: c.Order, Seed: c.Seed, Rate: c.Rate, Speedup: c.Speedup, Limit: c.Limit, EventTime: c.RecordTime == "event",
		Transport: transport, Log: a.log,
	}
	if !a.out.IsJSON() {
		o.Progress, o.Terminal = a.stderr, isTerminal(a.stderr)
	}
	summary, err := replay.Run(a.ctx, o)
	switch {
	case errors.Is(err, replay.ErrBroker):
		return &report.ExitError{Code: report.ExitBroker, Err: err, Key: "--bootstrap-servers", Topic: c.Topic}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: c.Data}
	case err != nil:
		return &report.ExitError{Code: report.ExitUsage, Err: err, Path: c.Data}
	}
	return a.out.Emit("summary", summary)
}

// isTerminal reports whether what is written to w is seen by a person at once.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
