package offline

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// comparedNames is how many names a choice is compared with for the area under the curve.
const comparedNames = 20

// rankEvaluation ranks the names of a field for each entity that has chosen some of them, by the version, and sees where those are. Of each entity that
// is: recall@10, the share of its names that are among the first ten, of ten if it has more; nDCG@10 with gain 1 and discount log2(rank+1); and the area
// under the curve, the share of names drawn uniformly among the others that are behind one of its own. Figures are means over entities.
type rankEvaluation struct {
	version   *snapshot.Model
	over      string
	field, by int // over and the entity, of the schema
	names     []string
	scratch   snapshot.Scratch
	outputs   []float64
}

// ranked is what is known of one entity.
type ranked struct {
	event  event.Event // the last one
	chosen []string    // each once
	seen   []string    // not to be ranked
}

// newRankEvaluation returns an error for fields that cannot be ranked.
func newRankEvaluation(version *snapshot.Model, s *config.Schema, over, by string) (*rankEvaluation, error) {
	e := &rankEvaluation{version: version, over: over, field: slices.Index(s.Categorical, over), by: slices.Index(s.Categorical, by),
		outputs: make([]float64, version.NumOutputs())}
	switch {
	case e.field < 0:
		return nil, usage("--rank", "--rank %s is not a categorical field of the model: it has %q", over, s.Categorical)
	case version.Schema().Task != snapshot.Binary:
		return nil, usage("--rank", "--rank is for versions of task implicit or binary: this one is of task %s", version.Schema().Task)
	case e.by < 0 || e.by == e.field:
		return nil, usage("--group", "--rank %s needs another categorical field whose names choose: --group, one of %q", over, s.Categorical)
	}
	e.names = version.Contents().Vocabulary[e.field]
	return e, nil
}

func usage(key, format string, arguments ...any) error {
	return &report.ExitError{Code: report.ExitUsage, Key: key, Err: fmt.Errorf("offline: "+format, arguments...)}
}

// entities gathers the choices of each entity, in the order of their first events; seen, if not nil, has what they chose before.
func (e *rankEvaluation) entities(set, seen *dataset.Set) []*ranked {
	byName := make(map[string]*ranked)
	var list []*ranked
	for i := range set.Examples {
		ev := &set.Examples[i].Event
		r := byName[ev.Categorical[e.by]]
		if r == nil {
			r = new(ranked)
			byName[ev.Categorical[e.by]] = r
			list = append(list, r)
		}
		r.event = *ev
		if name := ev.Categorical[e.field]; !slices.Contains(r.chosen, name) {
			r.chosen = append(r.chosen, name)
		}
	}
	if seen == nil {
		return list
	}
	for i := range seen.Examples {
		ev := &seen.Examples[i].Event
		if r := byName[ev.Categorical[e.by]]; r != nil && !slices.Contains(r.chosen, ev.Categorical[e.field]) {
			r.seen = append(r.seen, ev.Categorical[e.field])
		}
	}
	return list
}

// metrics are those of all entities. N is their number.
func (e *rankEvaluation) metrics(list []*ranked, meter *progress.Meter) (*report.Metrics, error) {
	var recall, gain, area float64
	compared := 0
	var items []snapshot.Item
	var err error
	meter.Stage("ranking", "entities", int64(len(list)))
	for _, r := range list {
		meter.Add(1)
		in := inputOf(&r.event)
		items, err = e.version.TopK(items[:0], &snapshot.Query{Input: in, Over: e.over, K: choices.Listed, Exclude: r.seen}, &e.scratch)
		if err != nil {
			return nil, err
		}
		found, got, best := 0, 0.0, 0.0
		for at, item := range items {
			if slices.Contains(r.chosen, item.Name) {
				found++
				got += 1 / math.Log2(float64(at)+2)
			}
		}
		most := min(choices.Listed, len(r.chosen))
		for at := range most {
			best += 1 / math.Log2(float64(at)+2)
		}
		recall, gain = recall+float64(found)/float64(most), gain+got/best
		if a, ok := e.area(r, &in); ok {
			area += a
			compared++
		}
	}
	m := &report.Metrics{N: int64(len(list))}
	if n := float64(len(list)); n > 0 {
		m.Recall10, m.NDCG10 = report.Some(recall/n), report.Some(gain/n)
	}
	if compared > 0 {
		m.AUC = report.Some(area / float64(compared))
	}
	return m, nil
}

// area returns the area under the curve of one entity; ok is false if there is nothing to compare its names with.
func (e *rankEvaluation) area(r *ranked, in *snapshot.Input) (share float64, ok bool) {
	h := fnv.New64a()
	h.Write([]byte(in.Categorical[e.by]))
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	in.Categorical = slices.Clone(in.Categorical)
	score := func(name string) float64 {
		in.Categorical[e.field] = name
		e.version.Score(e.outputs, in, &e.scratch)
		return e.outputs[0]
	}
	won, n := 0.0, 0
	for _, name := range r.chosen {
		own := score(name)
		for range min(comparedNames, len(e.names)) {
			other := e.names[rng.IntN(len(e.names))]
			if slices.Contains(r.chosen, other) || slices.Contains(r.seen, other) {
				continue
			}
			switch s := score(other); {
			case own > s:
				won++
			case own == s:
				won += 0.5
			}
			n++
		}
	}
	return won / float64(n), n > 0
}

// evalRanking is Eval of choices. The file of those that were seen has a format of its own.
func evalRanking(o *EvalOptions, seenFormat dataset.Format, m *config.Model, version *snapshot.Model, set *dataset.Set) (*report.Metrics, error) {
	e, err := newRankEvaluation(version, &m.Schema, o.Rank, o.Group)
	if err != nil {
		return nil, err
	}
	var seen *dataset.Set
	if o.Seen != "" {
		if seen, err = readSet(m, o.Seen, seenFormat, o.Table, "--seen", o.Progress); err != nil {
			return nil, err
		}
	}
	return e.metrics(e.entities(set, seen), o.Progress)
}
