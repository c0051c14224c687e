package main

import (
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
)

// backtestCmd is backtest.
type backtestCmd struct {
	ConfigFile string         `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file."`
	Model      string         `placeholder:"NAME" help:"Model of the configuration; not needed if it has one only."`
	Data       string         `required:"" placeholder:"FILE" help:"Labelled events; gzip is detected."`
	Format     dataset.Format `required:"" enum:"movielens,jsonl,libsvm" help:"Format of the file: movielens, jsonl or libsvm."`
	Order      dataset.Order  `default:"file" enum:"file,time,shuffle" help:"Order of the events: file, time or shuffle."`
	Seed       uint64         `default:"1" help:"Seed of the shuffle, and of a sample without sample.seed."`
	Limit      int            `help:"Take this many events only."`
	Cold       bool           `help:"Start every refit from nothing, to see what the warm start is worth."`
	Store      string         `placeholder:"DIR" help:"Publish the versions there."`
}

// Run scores, learns and refits over the file and prints ticks, versions and the summary.
func (c *backtestCmd) Run(a *app) error {
	m, err := loadModel(c.ConfigFile, c.Model, config.Exceptions{})
	if err != nil {
		return err
	}
	return offline.Backtest(a.ctx, offline.BacktestOptions{Model: m, Data: c.Data, Format: c.Format, Order: c.Order, Seed: c.Seed,
		Limit: c.Limit, Cold: c.Cold, Store: c.Store, Now: time.Now}, a.out)
}
