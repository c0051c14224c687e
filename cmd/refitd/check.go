package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
)

type checkCmd struct {
	Config checkConfigCmd `cmd:"" help:"Check a configuration file and print the memory it may use."`
	Event  checkEventCmd  `cmd:"" help:"Show what becomes of a record of a topic."`
}

type checkConfigCmd struct {
	ConfigFile string `name:"config.file" placeholder:"FILE" help:"Configuration file."`
	// hidden: release 0.1 had check event here
	Record        eventFlags   `                                                                                                                                           embed:""`
	Schemas       subjectFlags `embed:""`
	Rate          float64      `                   placeholder:"N"    help:"Events a second that come in: say how many shards read them."`
	PrintDefaults bool         `                                      help:"Print every key with its default and a comment, as a file that passes this check."`
	PrintSchema   bool         `                                      help:"Print the JSON Schema of the configuration file, for editors and for programs that write one."`
}

// Run prints the summary. A bad file is exit code 2; in JSON its mistakes are in the summary, in text they are the
// error.
func (c *checkConfigCmd) Run(a *app) error {
	if c.PrintDefaults {
		return a.print(config.DefaultsYAML())
	}
	if c.PrintSchema {
		return a.print(configs.ConfigSchema)
	}
	if c.ConfigFile == "" {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  errors.New("--config.file is missing: name the configuration file"),
			Key:  "--config.file",
		}
	}
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 1) {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("--rate %g: want events a second, above 0", c.Rate),
			Key:  "--rate",
		}
	}
	conf, err := config.LoadWith(c.ConfigFile, config.Exceptions{Memory: memory.Of})
	bad, isBad := errors.AsType[*strictyaml.FileError](err)
	switch {
	case isBad && a.out.IsJSON():
		err = a.out.Emit("summary", report.CheckSummary{Models: []string{}, Errors: bad.Problems})
		return errors.Join(err, &report.ExitError{Code: report.ExitUsage, Reported: true})
	case err != nil:
		return configError(err, c.ConfigFile)
	}
	used := memory.Of(conf)
	summary := report.CheckSummary{OK: true, ConfigHash: conf.Hash(), Memory: &used, Errors: []strictyaml.Problem{}}
	for i := range conf.Models {
		m := &conf.Models[i]
		summary.Models = append(summary.Models, m.Name)
		if c.Rate > 0 {
			summary.Shards = append(summary.Shards,
				shard.Plan(m.Name, c.Rate, m.Sample.Size, time.Duration(m.Sample.HalfLife)))
		}
	}
	if c.Schemas.Subject != "" {
		loses, err := c.Schemas.check(conf, a)
		if err == nil && a.out.IsJSON() {
			err = a.out.Emit("summary", summary)
		}
		if err == nil && loses {
			err = &report.ExitError{Code: report.ExitNo, Reported: true}
		}
		return err
	}
	if c.Record.Event == "" {
		return a.out.Emit("summary", summary)
	}
	rejected, err := checkEvent(conf, &c.Record, a)
	if err != nil {
		return err
	}
	if a.out.IsJSON() { // in text the event is what was asked for, not the memory
		if err := a.out.Emit("summary", summary); err != nil {
			return err
		}
	}
	if !rejected {
		return nil
	}
	return &report.ExitError{Code: report.ExitNo, Reported: true}
}

// loadConfig is config.LoadWith with the exit code of a bad or missing file; memory_budget has to suffice.
func loadConfig(path string, allow config.Exceptions) (*config.Config, error) {
	allow.Memory = memory.Of
	conf, err := config.LoadWith(path, allow)
	if err != nil {
		return nil, configError(err, path)
	}
	return conf, nil
}

// configError names the file and, if there is just one mistake, its key.
func configError(err error, path string) error {
	out := &report.ExitError{Code: report.ExitUsage, Err: err, Path: path}
	if bad, ok := errors.AsType[*strictyaml.FileError](err); ok && len(bad.Problems) == 1 {
		out.Key = bad.Problems[0].Key
	}
	return out
}
