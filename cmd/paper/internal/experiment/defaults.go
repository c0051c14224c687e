package experiment

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// defaultLoses is by how much another value has to be better, in the mean over streams, for the default to be wrong.
const defaultLoses = 0.003

// change is a key of a model and a value that is not its default.
type change struct{ key, value string }

// changes are what Defaults tries, each alone: what is thought to matter most comes first.
var changes = []change{
	{"train.first_events", "half"}, {"train.every_events", "twice"}, {"train.refit", "output"},
	{"train.fold_in.enabled", "false"}, {"publish.deltas.every", "0s"}, {"train.degree", "3"},
	{"train.feature_map", "none"}, {"train.max_basis", "10"}, {"train.variational_basis", "3"},
	{"sample.holdout.fraction", "0.2"}, {"publish.gate.tolerance", "0.02"}, {"sample.size", "1000"},
	{"train.linear", "ridge:5"}, {"train.sweeps", "8"}, {"sample.half_life", "8h"},
	{"sample.holdout.entities", "0"}, {"train.cap.share", "0"}, {"train.penalty", "l1l2"},
	{"train.variational_basis", "10"}, {"sample.holdout.fraction", "0.05"}, {"train.linear", "ridge:0.05"},
	{"publish.gate.tolerance", "0"}, {"train.lambda", "1"}, {"train.feature_map", "bins:16"},
	{"train.max_basis", "40"}, {"train.new_basis", "8"}, {"train.sweeps", "2"},
	{"publish.deltas.every", "10s"}, {"publish.update_every", "2s"}, {"publish.gate.min_rows", "50"},
}

// Defaults measures how the losses of streams change where one key of their configurations has another value. The
// directory of the data is that of Parts. A value of a stream that its configuration refuses is left out there.
func Defaults(ctx context.Context, o Options) (*Report, error) { return o.defaults(ctx, changes) }

func (o *Options) defaults(ctx context.Context, changes []change) (*Report, error) {
	streams, err := o.streams()
	if err != nil {
		return nil, err
	}
	runs, numbers := 0, Table{Name: "streams", Header: []string{"key", "value", "stream", "live", "published"}}
	for _, s := range streams {
		runs += len(s.seeds)
	}
	o.Progress.Stage("defaults", "backtests", int64(runs*(len(changes)+1)))
	main := Table{
		Title:  fmt.Sprintf("Losses with another value, in percent of those with the default, on %d streams", len(streams)),
		Header: []string{"key", "value", "live", "published", "streams", "most and least, live", "published"},
	}
	base := make([][]*streamRun, len(streams))
	for i, s := range streams {
		for _, seed := range s.seeds {
			run, err := o.streamRun(ctx, s.config, seed)
			if err != nil {
				return nil, err
			}
			base[i] = append(base[i], run)
			o.Progress.Add(1)
		}
	}
	dir, err := os.MkdirTemp("", "defaults")
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, c := range changes {
		var live, published shifts
		for i, s := range streams {
			path := filepath.Join(dir, filepath.Base(s.config))
			if err := c.write(path, s.config); err != nil {
				return nil, err
			}
			if _, err := modelOf(path); err != nil {
				o.Log.Info("refused", "stream", s.name, "key", c.key, "value", c.value, "error", err)
				continue
			}
			var by pair // logarithms of ratios
			for k, seed := range s.seeds {
				run, err := o.streamRun(ctx, path, seed)
				if err != nil {
					return nil, err
				}
				by[0] += math.Log(run.live[0]/base[i][k].live[0]) / float64(len(s.seeds))
				by[1] += math.Log(run.published[0]/base[i][k].published[0]) / float64(len(s.seeds))
				o.Progress.Add(1)
			}
			live.add(s.name, by[0])
			published.add(s.name, by[1])
			numbers.add(c.key, c.value, s.name, math.Expm1(by[0]), math.Expm1(by[1]))
		}
		main.add(c.key, c.value, live, published, len(live.of), live.ends(), published.ends())
		o.Log.Info("defaults", "key", c.key, "value", c.value, "live", live, "published", published)
		for i, of := range []*shifts{&live, &published} {
			if mean, deviation := of.mean(); mean < -max(defaultLoses, 2*deviation) {
				main.Notes = append(main.Notes, fmt.Sprintf("%s: %s is better than the default, %s.", c.key, c.value,
					[]string{"live", "published"}[i]))
			}
		}
	}
	return &Report{Name: "defaults", Tables: []Table{main}, Numbers: []Table{numbers}}, nil
}

// write writes a configuration with the change of its first model.
func (c *change) write(to, from string) error {
	src, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(src, &all); err != nil {
		return fmt.Errorf("paper: %s: %w", from, err)
	}
	models, _ := all["models"].([]any)
	if len(models) == 0 {
		return fmt.Errorf("paper: %s has no models", from)
	}
	at, _ := models[0].(map[string]any)
	path := strings.Split(c.key, ".")
	for _, name := range path[:len(path)-1] {
		next, _ := at[name].(map[string]any)
		if next == nil {
			next = make(map[string]any)
			at[name] = next
		}
		at = next
	}
	name, value := path[len(path)-1], any(nil)
	if err := yaml.Unmarshal([]byte(c.value), &value); err != nil {
		return fmt.Errorf("paper: %s: %w", c.value, err)
	}
	if before, ok := at[name].(uint64); ok && c.value == "half" {
		value = before / 2
	} else if ok && c.value == "twice" {
		value = before * 2
	}
	at[name] = value
	if src, err = yaml.Marshal(all); err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	return os.WriteFile(to, src, 0o600)
}

// shifts are how the losses of streams change: logarithms of ratios, in their order.
type shifts struct {
	of    []float64
	names []string
}

func (s *shifts) add(stream string, by float64) {
	if !math.IsNaN(by) && !math.IsInf(by, 0) {
		s.of, s.names = append(s.of, by), append(s.names, stream)
	}
}

// mean returns the mean of the ratios, less 1, and its standard error.
func (s *shifts) mean() (mean, deviation float64) {
	n := float64(len(s.of))
	for _, v := range s.of {
		mean += v / n
	}
	for _, v := range s.of {
		deviation += (v - mean) * (v - mean) / (n * (n - 1))
	}
	return math.Expm1(mean), math.Sqrt(deviation)
}

func (s shifts) String() string {
	if len(s.of) < 2 {
		return "–"
	}
	mean, deviation := s.mean()
	return fmt.Sprintf("%+.2f ± %.2f", 100*mean, 100*deviation)
}

// ends returns the largest and the least change, with their streams.
func (s *shifts) ends() string {
	if len(s.of) == 0 {
		return "–"
	}
	most, least := slices.Max(s.of), slices.Min(s.of)
	return fmt.Sprintf("%+.1f %s, %+.1f %s", 100*math.Expm1(most), s.names[slices.Index(s.of, most)],
		100*math.Expm1(least), s.names[slices.Index(s.of, least)])
}
