package guess

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// What makes a key of two columns, and a window of delays. Chosen by hand.
const (
	keyUnlike   = 0.9  // of the events that have one, the share of different values of a key at least
	keyShared   = 0.05 // of the outcomes, those with the key of an event at least
	keyRows     = 10   // and as many
	keyOften    = 5    // outcomes of one key in the mean, at most: names of something else come often
	keyReversed = 2    // by how much more the files have to be joined the other way round to be taken for exchanged
	windowShare = 0.99 // of the outcomes, those whose delay a window covers
	windowRoom  = 1.25 // times that delay
	manyOfOne   = 0.01 // of the keys with outcomes, those with several, from which on amounts are added up
)

// windows are those that are guessed.
var windows = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
	72 * time.Hour, 168 * time.Hour, 720 * time.Hour, 366 * 24 * time.Hour}

// joined is what was found of events and their outcomes.
type joined struct {
	*guess // of the outcomes: their sample, format and time

	config.Outcomes
	source, key         string // the file or topic of the outcomes; what messages call it
	matched, several    int    // outcomes with an event, keys with several
	keyWhy, windowWhy   string
	labelWhy, rewardWhy string
}

// pair is two columns that may be a key, with how many outcomes they join.
type pair struct {
	event, outcome *dataset.Column
	matched        int
	score          float64
}

// pairOf returns the columns by which rows of others name rows that differ in theirs; the columns are nil for none.
func pairOf(columns, others []*dataset.Column) (best pair) {
	for _, of := range others {
		if of.Lists+of.Nested+of.Pointed > 0 || of.Times > 0 && of.Times == of.Present ||
			of.Distinct()*keyOften < min(of.Present, dataset.MaxProfileValues) {
			continue
		}
		values := of.Values()
		for _, c := range columns {
			if c.Lists+c.Nested+c.Pointed > 0 || c.Distinct() < keyRows ||
				float64(c.Distinct()) < keyUnlike*float64(min(c.Present, dataset.MaxProfileValues)) {
				continue
			}
			p := pair{event: c, outcome: of}
			for _, v := range values {
				if c.Count(v) > 0 {
					p.matched += of.Count(v)
				}
			}
			// Small numbers of something else are among those of any key, and come often.
			p.score = float64(p.matched) / float64(of.Present) * float64(of.Distinct()) / float64(of.Present)
			if p.matched >= keyRows && float64(p.matched) >= keyShared*float64(of.Present) && p.score > best.score {
				best = p
			}
		}
	}
	return best
}

// guessJoined guesses the schema of events whose labels come in others, and how they are joined.
func guessJoined(p *dataset.Profile, sample *Sample, of *dataset.Profile, with *Sample, o *Options) (*guess, error) {
	sample.settle(p.Columns)
	with.settle(of.Columns)
	g := &guess{format: p.Format, rows: p.Rows, total: p.Total, labelled: p.Rows, sample: sample}
	j := &joined{guess: &guess{format: of.Format, rows: of.Rows, total: of.Total, sample: with},
		source: cmp.Or(o.Outcomes, o.OutcomesTopic), key: o.outcomesFlag()}
	columns, others := g.columns(p), j.columns(of)
	refuse := func(text string, arguments ...any) (*guess, error) {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: j.key, Err: fmt.Errorf("offline: "+text, arguments...)}
	}
	if a, b := cmp.Or(sample.Format, event.FormatJSON), cmp.Or(with.Format, event.FormatJSON); a != b {
		return refuse("events are in %s and outcomes in %s: all topics of a model have one input.format", a, b)
	}
	key, reversed := pairOf(columns, others), pairOf(others, columns)
	switch {
	case reversed.score > keyReversed*key.score:
		return refuse("%s of the other file names %s of %s, so that these are the events: exchange both files",
			quoted(reversed.outcome.Name), quoted(reversed.event.Name), j.source)
	case key.event == nil:
		return refuse("no column of %s has values of a column of the events that differs in every row: outcomes name their "+
			"event by its id", j.source)
	}
	at, comes := g.likelyTime(columns, key.event), j.likelyTime(topLevel(others), key.outcome)
	if at == nil && o.Topic == "" || at != nil && comes == nil {
		return refuse("a column of times is needed in both: an outcome counts within a window after its event")
	}
	g.schema.Identity = key.event.Name
	g.read(key.event, false)
	g.addAll(columns, key.event)
	g.fields = append(g.fields, report.InitField{Name: key.event.Name, Use: "identity", Why: "outcomes name it"})
	if len(g.schema.Categorical)+len(g.schema.Numeric)+len(g.schema.Multi) == 0 {
		return refuse("other than the key and the time the events have no column to learn from")
	}
	j.matched = key.matched
	j.Key = config.OutcomeKey{Impression: key.event.Name, Outcome: PlaceOf(pathOf(key.outcome), "", false)}
	j.keyWhy = fmt.Sprintf("%d of %d values are among those of %s, which differ", key.matched, key.outcome.Present,
		quoted(key.event.Name))
	if at != nil { // else what counts is when records were written
		unit := timeUnit(comes)
		if comes.Name != g.schema.Time {
			j.Time = comes.Name
		}
		if of := g.schema.TimeUnit; unit != "" && timeUnit(at) != "" && unit != of {
			return refuse("times of the events are in %s, those of %s in %s: one time_unit counts for both", unitWords[of],
				j.source, unitWords[unit])
		}
	}
	j.findWindow(key, at, comes)
	if err := g.laterLabel(j, topLevel(others), key.outcome, comes, o.Label); err != nil {
		return nil, err
	}
	g.joined = j
	g.findFunctions(columns)
	return g, nil
}

// topLevel returns the columns that a key of input.outcomes can name, which is no path.
func topLevel(columns []*dataset.Column) []*dataset.Column {
	return slices.DeleteFunc(slices.Clone(columns), func(c *dataset.Column) bool { return c.Path != nil })
}

// findWindow guesses the window by the delays of the first outcomes of the events that are looked at.
func (j *joined) findWindow(key pair, at, comes *dataset.Column) {
	j.Window = config.Duration(24 * time.Hour)
	j.windowWhy = "guessed without times: how long after its event an outcome counts"
	if at == nil || comes == nil {
		return
	}
	events, byName := make(map[string]float64), key.event.HeadValues()
	times := at.HeadTimes(cmp.Or(timeUnit(at), "ms"))
	for i, v := range key.event.Head() {
		if k := at.Head(); v >= 0 && i < len(k) && k[i] >= 0 {
			events[byName[v]] = times[k[i]]
		}
	}
	first, count := make(map[string]float64), make(map[string]int)
	names, times := key.outcome.HeadValues(), comes.HeadTimes(cmp.Or(timeUnit(comes), "ms"))
	for i, v := range key.outcome.Head() {
		k := comes.Head()
		if v < 0 || i >= len(k) || k[i] < 0 {
			continue
		}
		name := names[v]
		if shown, ok := events[name]; ok {
			delay := max(0, times[k[i]]-shown)
			if count[name]++; count[name] == 1 || delay < first[name] {
				first[name] = delay
			}
		}
	}
	delays := make([]float64, 0, len(first))
	for name, delay := range first {
		if delays = append(delays, delay); count[name] > 1 {
			j.several++
		}
	}
	if len(delays) == 0 {
		return
	}
	slices.Sort(delays)
	most := delays[min(len(delays)-1, int(windowShare*float64(len(delays))))]
	of := time.Duration(most * float64(time.Millisecond))
	i := slices.IndexFunc(windows, func(w time.Duration) bool { return float64(w) >= windowRoom*float64(of) })
	if i < 0 {
		i = len(windows) - 1
	}
	j.Window = config.Duration(windows[i])
	j.windowWhy = fmt.Sprintf("%g %% of %d outcomes came within %s of their event", 100*windowShare, len(delays),
		of.Round(max(time.Millisecond, of/1000).Round(time.Millisecond)))
}

// laterLabel guesses the label that outcomes make, and what it is without one.
func (g *guess) laterLabel(j *joined, others []*dataset.Column, key, comes *dataset.Column, asked string) error {
	isValue := func(c *dataset.Column) bool {
		return c != key && c != comes && (c.Numbers == c.Present || c.Booleans == c.Present) && c.Quoted == 0 && c.Present > 0
	}
	rest := slices.DeleteFunc(slices.Clone(others), func(c *dataset.Column) bool {
		return !isValue(c) || asked != "" && c.Name != asked
	})
	of := likelyLabel(rest)
	for _, c := range rest {
		if of == nil && (asked != "" || nameOfQuantity(ownName(c)) || slices.Contains(ofRewards, strings.ToLower(c.Name))) {
			of = c
		}
	}
	s := &g.schema
	switch {
	case of == nil && asked != "":
		return &report.ExitError{Code: report.ExitUsage, Key: "--label",
			Err: fmt.Errorf("offline: %s has no column %s of numbers, which says what an outcome is worth", j.source,
				quoted(asked))}
	case of == nil:
		s.Task, s.Label, g.labelWhy = string(event.Binary), g.freeName(strings.ReplaceAll(j.labelName(), "-", "_")),
			"an event has an outcome within the window, or has none"
		return nil
	case of.Booleans == of.Present || of.Whole == of.Present && of.Min >= 0 && of.Max <= 1:
		s.Task, g.labelWhy = string(event.Binary), "it is 0 or 1; an event without an outcome counts as 0"
	default:
		s.Task = string(event.Regression)
		g.labelWhy = fmt.Sprintf("numbers from %g to %g; an event without an outcome counts as 0", of.Min, of.Max)
	}
	s.Label, j.Label, j.labelWhy = g.freeName(of.Name), of.Name, g.labelWhy
	if n := float64(j.several); s.Task == string(event.Regression) && n > 0 && n >= manyOfOne*float64(j.matched) {
		j.Reward, j.rewardWhy = config.RewardSum, fmt.Sprintf("%d events have several outcomes", j.several)
	}
	return nil
}

// ofRewards are names of what an outcome is worth, other than those of labels and quantities.
var ofRewards = []string{"value", "reward", "gain", "profit"}

// labelName is the name of a label that no column has: that of the outcomes.
func (j *joined) labelName() string {
	if j.format != "" && strings.ContainsAny(j.source, `/\.`) {
		return nameOf(j.source)
	}
	return asName(j.source)
}

// freeName is a name for the label that no field of the events has: both may have a price.
func (g *guess) freeName(name string) string {
	for slices.ContainsFunc(g.fields, func(f report.InitField) bool { return f.Name == name }) {
		name += "_label"
	}
	return name
}

// write writes input.outcomes.
func (j *joined) write(y *yamlText, topic string) {
	y.line("      outcomes:  # made of the first %d outcomes of %s", j.rows, filepath.Base(j.source))
	y.line("        topics: [%s]", quoted(topic))
	y.line("        key: {impression: %s, outcome: %s}  # %s", quoted(j.Key.Impression), quoted(j.Key.Outcome), j.keyWhy)
	if j.Time != "" {
		y.line("        time: %s", quoted(j.Time))
	}
	if j.Label != "" {
		y.line("        label: %s  # %s", quoted(j.Label), j.labelWhy)
	}
	if j.Reward != "" {
		y.line("        reward: %s  # %s", j.Reward, j.rewardWhy)
	}
	window := strings.TrimSuffix(strings.TrimSuffix(j.Window.Std().String(), "0s"), "0m")
	y.line("        window: %s  # %s", window, j.windowWhy)
	y.line("        default: 0  # label of an event whose window is over without an outcome")
}

// report is what a summary says of it.
func (j *joined) report() *report.InitOutcomes {
	if j == nil {
		return nil
	}
	return &report.InitOutcomes{Data: j.source, Rows: int64(j.rows), Event: j.Key.Impression, Outcome: j.Key.Outcome,
		Matched: int64(j.matched), Why: j.keyWhy, Window: j.Window.Std().String(), WindowWhy: j.windowWhy,
		Label: j.Label, Reward: cmp.Or(j.Reward, config.RewardFirst)}
}

// outcomesFlag is the flag that names the outcomes.
func (o *Options) outcomesFlag() string {
	if o.Topic != "" {
		return "--outcomes-topic"
	}
	return "--outcomes"
}

// outcomes looks at the outcomes; nil without.
func (o *Options) outcomes() (*dataset.Profile, *Sample, error) {
	switch {
	case o.Outcomes == "" && o.OutcomesTopic == "":
		return nil, nil, nil
	case o.Outcomes != "" && o.Topic != "" || o.OutcomesTopic != "" && o.Topic == "":
		return nil, nil, offline.Usage("--outcomes", "--outcomes goes with --data, and --outcomes-topic with --topic")
	case o.Task != "":
		return nil, nil, offline.Usage("--task", "--task %s is of a log without a label: leave it out", o.Task)
	}
	of := *o
	of.Data, of.Topic, of.Format, of.Look = o.Outcomes, o.OutcomesTopic, "", o.LookOutcomes
	profile, sample, err := of.profile()
	if e, ok := errors.AsType[*report.ExitError](err); ok && (e.Key == "--data" || e.Key == "--topic") {
		e.Key = o.outcomesFlag()
	}
	return profile, sample, err
}
