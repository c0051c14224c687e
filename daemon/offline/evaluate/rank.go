package evaluate

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// comparedNames is how many names a choice is compared with for the area under the curve.
const comparedNames = 20

// rankEvaluation ranks the names of a field for each entity that has chosen some of them, by the version, and sees
// where those are. Of each entity that is: recall@10, the share of its names that are among the first ten, of ten if
// it has more; nDCG@10 with gain 1 and discount log2(rank+1); and the area under the curve, the share of names drawn
// uniformly among the others that are behind one that it has chosen. Figures are means over entities.
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
	e := &rankEvaluation{
		version: version,
		over:    over,
		field:   slices.Index(s.Categorical, over),
		by:      slices.Index(s.Categorical, by),
		outputs: make([]float64, version.NumOutputs()),
	}
	switch {
	case e.field < 0:
		return nil, offline.Usage("--rank", "--rank %s is not a categorical field of the model: it has %q", over,
			s.Categorical)
	case version.Schema().Task != format.Binary:
		return nil, offline.Usage("--rank", "--rank is for versions of task implicit or binary: this one is of task %s",
			version.Schema().Task)
	case e.by < 0 || e.by == e.field:
		return nil, offline.Usage("--group",
			"--rank %s needs another categorical field whose names choose: --group, one of %q", over, s.Categorical)
	}
	e.names = version.Contents().Vocabulary[e.field]
	return e, nil
}

// entities gathers the choices of each entity, in the order of their first events; seen, if not nil, has what they
// chose before.
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

// A ranker ranks the names for one entity.
type ranker interface {
	// first appends the names that come first, without those that r has seen.
	first(dst []string, r *ranked) ([]string, error)
	// scoring returns what the names are ranked by.
	scoring(r *ranked) func(name string) float64
}

func (e *rankEvaluation) first(dst []string, r *ranked) ([]string, error) {
	items, err := e.version.TopK(nil,
		&snapshot.Query{Input: InputOf(&r.event), Over: e.over, K: choices.Listed, Exclude: r.seen}, &e.scratch)
	for _, item := range items {
		dst = append(dst, item.Name)
	}
	return dst, err
}

func (e *rankEvaluation) scoring(r *ranked) func(name string) float64 {
	in := InputOf(&r.event)
	in.Categorical = slices.Clone(in.Categorical)
	return func(name string) float64 {
		in.Categorical[e.field] = name
		e.version.Score(e.outputs, &in, &e.scratch)
		return e.outputs[0]
	}
}

// popularity ranks names by how often they were chosen, those alike by name.
type popularity struct {
	counts map[string]int
	names  []string // most often chosen first
}

func (e *rankEvaluation) popularity(seen *dataset.Set) *popularity {
	p := &popularity{counts: make(map[string]int)}
	for i := range seen.Examples {
		p.counts[seen.Examples[i].Event.Categorical[e.field]]++
	}
	p.names = slices.SortedFunc(maps.Keys(p.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.counts[b], p.counts[a]), cmp.Compare(a, b))
	})
	return p
}

func (p *popularity) first(dst []string, r *ranked) ([]string, error) {
	for _, name := range p.names {
		if len(dst) == choices.Listed {
			break
		}
		if !slices.Contains(r.seen, name) {
			dst = append(dst, name)
		}
	}
	return dst, nil
}

func (p *popularity) scoring(*ranked) func(name string) float64 {
	return func(name string) float64 { return float64(p.counts[name]) }
}

// metrics are those of all entities by one ranker. N is their number.
func (e *rankEvaluation) metrics(by ranker, list []*ranked, meter *progress.Meter) (*report.Metrics, error) {
	var recall, gain, area float64
	compared := 0
	var names []string
	var err error
	meter.Stage("ranking", "entities", int64(len(list)))
	for _, r := range list {
		meter.Add(1)
		if names, err = by.first(names[:0], r); err != nil {
			return nil, err
		}
		found, got, best := 0, 0.0, 0.0
		for at, name := range names {
			if slices.Contains(r.chosen, name) {
				found++
				got += 1 / math.Log2(float64(at)+2)
			}
		}
		most := min(choices.Listed, len(r.chosen))
		for at := range most {
			best += 1 / math.Log2(float64(at)+2)
		}
		recall, gain = recall+float64(found)/float64(most), gain+got/best
		if a, ok := e.area(r, by.scoring(r)); ok {
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
func (e *rankEvaluation) area(r *ranked, score func(name string) float64) (share float64, ok bool) {
	h := fnv.New64a()
	h.Write([]byte(r.event.Categorical[e.by]))
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
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

// evalRanking is Eval of choices, popular that by how often names were chosen before, nil if that is not said. The
// file of those that were seen may have another format.
func evalRanking(o *Options, seenFormat dataset.Format, m *config.Model, version *snapshot.Model,
	set *dataset.Set) (all, popular *report.Metrics,
	err error) {
	e, err := newRankEvaluation(version, &m.Schema, o.Rank, o.Group)
	if err != nil {
		return nil, nil, err
	}
	var seen *dataset.Set
	if o.Seen != "" {
		if seen, err = offline.ReadSet(m, o.Seen, seenFormat, o.Table, "--seen", o.Progress); err != nil {
			return nil, nil, err
		}
	}
	list := e.entities(set, seen)
	if all, err = e.metrics(e, list, o.Progress); err != nil || seen == nil {
		return all, nil, err
	}
	popular, err = e.metrics(e.popularity(seen), list, o.Progress)
	return all, popular, err
}
