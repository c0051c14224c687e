package experiment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/offline/backtest"
	"github.com/refitd/refitd/daemon/report"
)

// pair is a figure over all events and over the last tenth. NaN is none.
type pair [2]float64

func (p pair) String() string {
	if math.IsNaN(p[0]) {
		return "–"
	}
	return fmt.Sprintf("%.4f / %.4f", p[0], p[1])
}

// streamRun is the result of a backtest on one stream.
type streamRun struct {
	metric          string // rmse or loss
	live, published pair
	ece             pair // live, published, over all events
	plain           pair // the better of the baselines
	cpu             float64
	events          float64
}

// Streams compares live and published with baselines and, where vw is installed, with the best of eight settings of
// Vowpal Wabbit, on the streams of a directory. It has NAME.yaml, as init writes it, and NAME-SEED.jsonl of each: see
// Parts. Figures are means over the seeds. Choices have no losses to compare: streams of task implicit are left out.
func Streams(ctx context.Context, o Options) (*Report, error) {
	streams, err := o.streams()
	if err != nil {
		return nil, err
	}
	table := Table{
		Title: fmt.Sprintf("%d streams: RMSE of numbers, else log loss; all events / last tenth", len(streams)),
		Header: []string{"stream", "live", "published", "ECE live / published", "baseline", "VW, best of 8", "setting",
			"CPU s per 1,000"},
	}
	var ahead struct{ live, published, of int }
	for _, s := range streams {
		o.Progress.Stage("streams of "+s.name, "backtests", int64(len(s.seeds)))
		var all, peer []pair // per seed: live, published, ece, plain; best of VW
		var setting string
		var cpu float64
		for _, seed := range s.seeds {
			run, err := o.streamRun(ctx, s.config, seed)
			if err != nil {
				return nil, err
			}
			vw, by, err := bestOfVW(ctx, s.config, seed)
			if err != nil {
				return nil, err
			}
			all, peer, setting = append(all, run.live, run.published, run.ece, run.plain), append(peer, vw), by
			cpu += 1000 * run.cpu / run.events / float64(len(s.seeds))
			o.Progress.Add(1)
		}
		live, published, ece, plain := meanOf(all, 0, 4), meanOf(all, 1, 4), meanOf(all, 2, 4), meanOf(all, 3, 4)
		vw := meanOf(peer, 0, 1)
		if !math.IsNaN(vw[0]) {
			ahead.of++
			if live[0] < vw[0] {
				ahead.live++
			}
			if published[0] < vw[0] {
				ahead.published++
			}
		}
		table.add(s.name, live, published, ece, plain, vw, setting, fmt.Sprintf("%.2f", cpu))
	}
	if ahead.of > 0 {
		table.Notes = []string{fmt.Sprintf("Ahead of the best of VW over all events: live on %d of %d, published on %d.",
			ahead.live, ahead.of, ahead.published)}
	}
	return &Report{Name: "streams", Tables: []Table{table}}, nil
}

// meanOf returns the mean of every so many pairs, from one of them on.
func meanOf(list []pair, from, step int) (mean pair) {
	n := float64(len(list) / step)
	for i := from; i < len(list); i += step {
		mean[0] += list[i][0] / n
		mean[1] += list[i][1] / n
	}
	return mean
}

// stream is one of a directory.
type stream struct {
	name, config string
	seeds        []string // files of events
}

// streams returns those of the directory that are chosen, by name.
func (o *Options) streams() (list []stream, err error) {
	configs, err := filepath.Glob(filepath.Join(o.Data, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	for _, path := range configs {
		s := stream{name: strings.TrimSuffix(filepath.Base(path), ".yaml"), config: path}
		if len(o.Sets) > 0 && !slices.Contains(o.Sets, s.name) {
			continue
		}
		if s.seeds, err = filepath.Glob(filepath.Join(o.Data, s.name+"-[0-9]*.jsonl")); err != nil {
			return nil, fmt.Errorf("paper: %w", err)
		}
		if len(s.seeds) == 0 {
			return nil, fmt.Errorf("%w: %s has no events %s-1.jsonl, %s-2.jsonl …", ErrNoData, o.Data, s.name, s.name)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no NAME.yaml of a stream in %s", ErrNoData, o.Data)
	}
	return list, nil
}

// modelOf returns the model of a configuration for a backtest.
func modelOf(path string) (*config.Model, error) {
	c, err := config.LoadWith(path, config.Exceptions{Offline: true, Memory: memory.Of})
	if err != nil {
		return nil, err
	}
	return c.Model("")
}

// backtested returns what a backtest of a file prints.
func (o *Options) backtested(ctx context.Context, path, data string, without ...string) ([]byte, error) {
	m, err := modelOf(path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := backtest.Run(ctx, backtest.Options{Model: m, Data: data, Order: dataset.FileOrder, Seed: 1, Without: without,
		Now: o.Now}, report.NewEmitter(&out, true)); err != nil {
		return nil, fmt.Errorf("%s without %q: %w", data, without, err)
	}
	return out.Bytes(), nil
}

// streamRun returns what a backtest of a file says.
func (o *Options) streamRun(ctx context.Context, path, data string) (*streamRun, error) {
	before := processorTime()
	out, err := o.backtested(ctx, path, data)
	if err != nil {
		return nil, err
	}
	run, err := runIn(out)
	if err != nil {
		return nil, err
	}
	run.cpu = processorTime() - before
	return run, nil
}

// runIn reads the summary that a backtest has printed, its last line.
func runIn(lines []byte) (*streamRun, error) {
	type roles map[string]map[string]any
	var summary struct {
		Events      float64 `json:"events"`
		Progressive struct {
			All       roles `json:"all"`
			Baselines roles `json:"baselines"`
		} `json:"progressive"`
		LastTenth struct {
			Live, Published map[string]any
			Baselines       roles
		} `json:"last_tenth"`
	}
	lines = bytes.TrimSpace(lines)
	if err := json.Unmarshal(lines[bytes.LastIndexByte(lines, '\n')+1:], &summary); err != nil {
		return nil, fmt.Errorf("paper: the summary of a backtest: %w", err)
	}
	figure := func(of map[string]any, metric string) float64 {
		if v, ok := of[metric].(float64); ok {
			return v
		}
		return math.NaN()
	}
	p, last := &summary.Progressive, &summary.LastTenth
	run := &streamRun{metric: "loss", events: summary.Events, plain: pair{math.NaN(), math.NaN()}}
	if _, ok := p.All["live"]["rmse"]; ok {
		run.metric = "rmse"
	}
	run.live = pair{figure(p.All["live"], run.metric), figure(last.Live, run.metric)}
	run.published = pair{figure(p.All["published"], run.metric), figure(last.Published, run.metric)}
	run.ece = pair{figure(p.All["live"], "ece"), figure(p.All["published"], "ece")}
	for name, of := range p.Baselines {
		if v := figure(of, run.metric); !math.IsNaN(v) && !(v >= run.plain[0]) {
			run.plain = pair{v, figure(last.Baselines[name], run.metric)}
		}
	}
	return run, nil
}

// processorTime returns the seconds that this process has used.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	of := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return cmp.Or(of(u.Utime)+of(u.Stime), math.NaN())
}
