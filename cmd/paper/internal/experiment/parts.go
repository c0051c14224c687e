package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/cycle"
)

// partPays is the gain on the losses of a stream, in the mean of its seeds, for which a part of the learner is kept.
const partPays = 0.003

// partRun is the result of a backtest: what of its losses is compared.
type partRun map[string]float64

// Parts measures what each part of the learner is worth: by how much the losses of streams rise without it, in the
// mean of their seeds. The directory of the data has NAME.yaml, the configuration of a stream, and NAME-SEED.jsonl, its
// events with one seed. The streams can be chosen as sets are.
func Parts(ctx context.Context, o Options) (*Report, error) {
	streams, err := o.streams()
	if err != nil {
		return nil, err
	}
	parts := cycle.Parts()
	gains := make(map[string]map[string]partRun, len(parts)) // of a part, on a stream
	for _, part := range parts {
		gains[part] = make(map[string]partRun)
	}
	numbers := Table{Name: "streams", Header: []string{"part", "stream", "loss", "gain"}}
	for _, s := range streams {
		o.Progress.Stage("streams of "+s.name, "backtests", int64(len(s.seeds)*(len(parts)+1)))
		of, err := o.gainsOf(ctx, s.config, s.seeds, parts)
		if err != nil {
			return nil, err
		}
		for part, gain := range of {
			gains[part][s.name] = gain
		}
	}
	main := Table{
		Title:  fmt.Sprintf("What parts of the learner gain on %d streams, in percent of a loss", len(streams)),
		Header: []string{"part", "most, live", "on", "most, published", "on", "streams where it pays", "least"},
	}
	for _, part := range parts {
		row := worthOf(gains[part])
		main.add(part, percent(row.live), row.liveOn, percent(row.published), row.publishedOn, row.pays, percent(row.least))
		for _, stream := range slices.Sorted(maps.Keys(gains[part])) {
			for _, loss := range slices.Sorted(maps.Keys(gains[part][stream])) {
				numbers.add(part, stream, loss, gains[part][stream][loss])
			}
		}
	}
	return &Report{Name: "parts", Tables: []Table{main}, Numbers: []Table{numbers}}, nil
}

// gainsOf returns by how much the losses of a stream rise without each part, in the mean of its seeds.
func (o *Options) gainsOf(ctx context.Context, path string, seeds, parts []string) (map[string]partRun, error) {
	gains := make(map[string]partRun, len(parts))
	for _, part := range parts {
		gains[part] = make(partRun)
	}
	for _, seed := range seeds {
		with, err := o.backtest(ctx, path, seed)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			without, err := o.backtest(ctx, path, seed, part)
			if err != nil {
				return nil, err
			}
			for loss, v := range with {
				gains[part][loss] += (without[loss]/v - 1) / float64(len(seeds))
			}
		}
	}
	return gains, nil
}

// partWorth is a row of the table.
type partWorth struct {
	live, published     float64 // largest gains
	liveOn, publishedOn string
	pays                int
	least               float64 // smallest gain, of any loss
}

// worthOf returns the row of a part, given its gains by stream.
func worthOf(gains map[string]partRun) partWorth {
	w := partWorth{live: math.Inf(-1), published: math.Inf(-1), least: math.Inf(1)}
	for _, stream := range slices.Sorted(maps.Keys(gains)) {
		pays := false
		for loss, gain := range gains[stream] {
			pays, w.least = pays || gain >= partPays, min(w.least, gain)
			if isLive := strings.HasPrefix(loss, "live"); isLive && gain > w.live {
				w.live, w.liveOn = gain, stream
			} else if !isLive && gain > w.published {
				w.published, w.publishedOn = gain, stream
			}
		}
		if pays {
			w.pays++
		}
	}
	return w
}

func percent(share float64) string { return fmt.Sprintf("%.2f", 100*share) }

// backtest returns the losses of a backtest without some parts: those of live and published, and RMSE of numbers.
func (o *Options) backtest(ctx context.Context, path, data string, without ...string) (partRun, error) {
	out, err := o.backtested(ctx, path, data, without...)
	if err != nil {
		return nil, err
	}
	o.Progress.Add(1)
	return lossesIn(out)
}

// lossesIn returns the losses of the summary that a backtest has printed, its last line.
func lossesIn(lines []byte) (partRun, error) {
	lines = bytes.TrimSpace(lines)
	var summary struct {
		Progressive struct {
			All map[string]map[string]any `json:"all"`
		} `json:"progressive"`
	}
	if err := json.Unmarshal(lines[bytes.LastIndexByte(lines, '\n')+1:], &summary); err != nil {
		return nil, fmt.Errorf("paper: the summary of a backtest: %w", err)
	}
	run := make(partRun)
	for _, who := range []string{"live", "published"} {
		for _, loss := range []string{"loss", "rmse"} {
			if v, ok := summary.Progressive.All[who][loss].(float64); ok {
				run[who+" "+loss] = v
			}
		}
	}
	return run, nil
}
