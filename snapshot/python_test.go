package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/format/where"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// expectations are what the library says of versions in stores, for the package in python to say the same.
type expectations struct {
	Models   []expectedModel   `json:"models"`
	Refusals []expectedRefusal `json:"refusals"`
	Watch    expectedWatch     `json:"watch"`
}

// expectedModel is what a version says of events, tops over the field item, and histories.
type expectedModel struct {
	Store     string                    `json:"store"`
	Model     string                    `json:"model"`
	Events    []expectedScore           `json:"events"`
	Tops      []expectedTop             `json:"tops"`
	Explained []expectedTerms           `json:"explained"`
	Folds     []expectedFold            `json:"folds"`
	Unfolded  string                    `json:"unfolded"` // name of the error of a history; empty for no error
	Form      string                    `json:"form"`
	Gaps      []*format.Number          `json:"gaps"`
	GapKind   string                    `json:"gap_kind"`
	GapLimit  string                    `json:"gap_limit"`
	Example   []map[string]any          `json:"example"` // such a history
	Known     map[string]map[string]any `json:"known"`   // what tables say of items
}

// expectedScore is a prediction, or the name of the error in the package.
type expectedScore struct {
	Event  map[string]any `json:"event"`
	Error  string         `json:"error"`
	Label  any            `json:"label"`
	Ranked []string       `json:"ranked"`
	answer.Prediction
}

type expectedTop struct {
	Event   map[string]any `json:"event"`
	K       int            `json:"k"`
	Exclude []string       `json:"exclude"`
	Class   string         `json:"class"`
	Where   map[string]any `json:"where"`
	Items   []format.Item  `json:"items"`
}

type expectedTerms struct {
	Event map[string]any `json:"event"`
	Terms []scorer.Term  `json:"terms"`
}

type expectedFold struct {
	Field   string           `json:"field"`
	History []map[string]any `json:"history"`
	Weights []float64        `json:"weights"`
	Held    int              `json:"held"`
	Events  []expectedScore  `json:"events"`
	Tops    []expectedTop    `json:"tops"`
}

// pythonErrors names the errors of the library as the package does.
var pythonErrors = map[error]string{
	disk.ErrNotFound:   "NotFoundError",
	disk.ErrDigest:     "DigestError",
	disk.ErrFormat:     "FormatError",
	disk.ErrGolden:     "GoldenError",
	disk.ErrSignature:  "SignatureError",
	disk.ErrExpired:    "ExpiredError",
	disk.ErrOlder:      "OlderError",
	disk.ErrName:       "BadNameError",
	scorer.ErrNoFoldIn: "NoFoldInError",
	disk.ErrChain:      "ChainError",
	disk.ErrContents:   "ContentsError",
}

func pythonError(err error) string {
	if errors.Is(err, disk.ErrFormat) { // and not what was published, where something else is in the place of a file
		return "FormatError"
	}
	for sentinel, name := range pythonErrors {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	switch { // after those, which may be caused by it
	case errors.Is(err, disk.ErrInput):
		return "InputError"
	case err != nil:
		return "unexpected: " + err.Error()
	}
	return ""
}

// The package in python says of every kind of version what the library says, refuses what it refuses, and follows an
// alias as it does.
func TestPythonIsTheLibrary(t *testing.T) {
	snapshottest.NeedPython(t, "numpy")
	dir := t.TempDir()
	want := expectations{Models: expectedModels(t, dir), Refusals: expectedRefusals(t), Watch: expectedMoves(t)}
	path := filepath.Join(dir, "expectations.json")
	b, err := json.Marshal(want)
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(path, b, 0o644))
	golden, err := filepath.Abs("testdata/v1")
	snapshottest.Must(t, err)
	snapshottest.Python(t, "numpy", []string{"REFITD_EXPECTATIONS=" + path, "REFITD_STORE=" + golden}, "-W", "error",
		"-m", "unittest", "-v", "tests.test_library", "tests.test_tables")
	if t.Failed() {
		return
	}
	if p, err := readAccepted(want.Watch.StateFile, "m", pointer.Champion); exec.Command("python3", "-c",
		"import cryptography").
		Run() ==
		nil &&
		(err != nil || p.Version != 1 || p.Sequence == 0) {
		t.Errorf("the state file of the package's watcher is read as %+v, %v", p, err)
	}
}

// expectedModels publishes versions of every kind.
func expectedModels(t *testing.T, dir string) (list []expectedModel) {
	t.Helper()
	n := tier.Size(300, 1000)
	publishAs := func(name string, c *format.Contents) (*scorer.Model, expectedModel) {
		name = strings.ToLower(name)
		_, err := publish.NewStore(dir).Publish(t.Context(), name, c)
		snapshottest.Must(t, err)
		m, err := Open(dir, name, verify.Selector{Version: 1})
		snapshottest.Must(t, err)
		x := m.Manifest()
		return m, expectedModel{
			Store:    dir,
			Model:    name,
			Form:     x.Form,
			Gaps:     []*format.Number{x.Gap, x.GapRelative, x.BasisGap, x.BasisGapRelative},
			GapKind:  x.GapKind,
			GapLimit: x.GapLimit,
			Example: []map[string]any{labelledMap(m.Schema(), &snapshottest.HistoryOf(c,
				"u1", 1)[0])},
		}
	}
	tasks := map[string]bool{}
	for _, s := range snapshottest.Shapes {
		types := []string{format.F64}
		isNew := slices.Contains(snapshottest.NewForms(), s)
		if !tasks[s.Task] || isNew { // F32 of every task
			types = append(types, format.F32)
		}
		tasks[s.Task] = true
		for _, tensors := range types {
			c := snapshottest.TestContents(s)
			c.Tensors = tensors
			m, e := publishAs(s.String()+"-"+tensors, c)
			if e = e.of(t, m, n); isNew {
				e.rankedAndExplained(t, m)
			}
			list = append(list, e)
		}
		m, e := publishAs(s.String()+"-crosses", snapshottest.WithCrosses(s))
		list = append(list, e.of(t, m, 50))
		m, e = publishAs(s.String()+"-limited", snapshottest.WithLimit(snapshottest.TestContents(s), 0.75))
		e = e.of(t, m, 50)
		e.rankedAndExplained(t, m)
		list = append(list, e)
		m, e = publishAs(s.String()+"-trees", snapshottest.WithTrees(snapshottest.TestContents(s)))
		e = e.of(t, m, 50)
		e.rankedAndExplained(t, m)
		list = append(list, e)
		m, e = publishAs(s.String()+"-tables", withTables(snapshottest.TestContents(s)))
		list = append(list, e.tabled(t, m))
	}
	for name, c := range map[string]*format.Contents{"catalogue": catalogue(),
		"filters":      filters(),
		"trees-tables": withTables(snapshottest.WithTrees(snapshottest.TestContents(snapshottest.Small)))} {
		m, e := publishAs(name, c)
		list = append(list, e.tabled(t, m))
	}
	for name, c := range oddContents() {
		m, e := publishAs(name, c)
		list = append(list, e.of(t, m, 50))
	}
	folds := snapshottest.FoldShapes()
	for _, s := range []snapshottest.Shape{{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA, K: 3,
		Linear: true, Mapped: ""}, {Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA, K: 0, Linear: true,
		Mapped: ""},
		{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA, K: 0, Linear: true, Mapped: ""}} {
		folds[s.String()+"-apart"] = snapshottest.Foldable(s, false)
	}
	folds["many-rates"] = snapshottest.Foldable(snapshottest.Shape{Task: format.Binary, Link: format.Logistic,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}, true)
	user := &folds["many-rates"].FoldIn.Fields[0]
	user.Rates, user.Losses = []float64{1, 0.99, 0.97, 0.9, 0.5}, []float64{0, 1, 2, 0.5, 3}
	folds["range"] = snapshottest.Foldable(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}, true)
	folds["range"].FoldIn.LabelRange = []float64{-0.5, 0.5}
	folds["list-weights"] = snapshottest.Foldable(snapshottest.Shape{Task: format.Binary, Link: format.Logistic,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}, true)
	folds["list-weights"].Schema.MultiWeights = []string{format.WeightSqrt}
	folds["limited"] = snapshottest.WithLimit(snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal,
		Link: format.OrdinalLink, Kernel: format.ANOVA, K: 3, Linear: true, Mapped: ""}, true), 0.75)
	folds["co-choices"] = withCoChoices(snapshottest.Foldable(snapshottest.Shape{Task: format.Binary,
		Link: format.Logistic, Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}, true))
	folds["tables"] = withTables(withCoChoices(snapshottest.Foldable(snapshottest.Shape{Task: format.Binary,
		Link: format.Logistic, Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}, true)))
	for name, c := range folds {
		m, e := publishAs("fold-"+name, c)
		e = e.of(t, m, 50)
		for _, field := range []string{"", "item"} {
			history := append(snapshottest.HistoryOf(c, "u1", 15), snapshottest.HistoryOf(c, "u9", 12)...)
			e.Folds = append(e.Folds, foldOf(t, m, field, history))
			for i := range 18 { // of the entity that the version does not know, too
				history[i].Held = true
			}
			e.Folds = append(e.Folds, foldOf(t, m, field, history))
		}
		list = append(list, e)
	}
	return list
}

// oddContents are versions whose names, numbers and sizes are unusual.
func oddContents() map[string]*format.Contents {
	escaped := snapshottest.TestContents(snapshottest.Small)
	escaped.Schema.Label, escaped.Schema.Numeric[0] = "y<&>\u2028\"\\\n", format.NumericField{
		Name:   "a\tge",
		Center: 1e21,
		Scale:  1e-7,
		Clip:   2.5e-9,
	}
	escaped.Schema.LabelMin, escaped.Schema.LabelMax = -0.000001, 123456789012345680000
	for i := range escaped.Golden {
		escaped.Golden[i].Outputs = nil
	}
	clipped := snapshottest.TestContents(snapshottest.Shapes[2])
	clipped.Schema.Numeric[0].Clip = 0.75
	cut := snapshottest.TestContents(snapshottest.Small)
	for i := range 1000 {
		cut.Meta.Cut = append(cut.Meta.Cut, format.Cut{Topic: "a-topic-of-some-length", Partition: int32(i), Next: 1 << 40})
	}
	some := snapshottest.TestContents(snapshottest.Small)
	some.Schema.Optional, some.Golden = []string{"age", "tags"}, some.Golden[:2]
	none := snapshottest.TestContents(snapshottest.Small)
	none.Schema.Optional, none.Golden = []string{}, none.Golden[:1]
	for _, c := range []*format.Contents{clipped} {
		for i := range c.Golden {
			c.Golden[i].Outputs = nil
		}
	}
	numbered := snapshottest.TestContents(snapshottest.Small)
	numbered.Vocabulary = [][]string{{"1", "3", "5"}, {"1006", "7"}, {"-2", "7", "a"}}
	for i := range numbered.Golden {
		numbered.Golden[i].Outputs = nil
	}
	named, half := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}), snapshottest.Foldable(
		snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""},
		true,
	)
	named.Schema.Positive, named.Schema.Negative = "UP", "DOWN"
	half.Schema.Positive = "2"
	gap := format.Number(0.25)
	// of builds that said no form
	for kind, c := range map[string]*format.Contents{"refit": some, "update": none, "swept": cut} {
		c.Meta.Kind, c.Meta.Gap, c.Meta.GapRelative, c.Meta.GapKind = kind, &gap, &gap, "certified"
		if c.Meta.GapLimit = "vectors"; kind == "swept" {
			c.Meta.Kind, c.Meta.Sweeps = "refit", 3
		}
	}
	return map[string]*format.Contents{
		"escaped":    escaped,
		"numbered":   numbered,
		"named":      named,
		"half-named": half,
		"clipped":    clipped,
		"cut":        cut,
		"co-choices": withCoChoices(snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic,
			Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""})),
		"list-weights":  withWeights(snapshottest.Shapes[0], []string{format.WeightSqrt}),
		"list-means":    withWeights(snapshottest.Shapes[0], []string{format.WeightMean}),
		"some-optional": some,
		"none-optional": none,
	}
}

// of adds what a version says of n random events and of odd ones.
func (e expectedModel) of(t *testing.T, m *scorer.Model, n int) expectedModel {
	t.Helper()
	s := m.Schema()
	number := s.Numeric[0].Name
	rng := rand.New(rand.NewPCG(2, 3))
	name := func(names ...string) string { return names[rng.IntN(len(names))] }
	for range n {
		event := map[string]any{
			"user":  name("u1", "u2", "u3", "u9", ""),
			"item":  name("i1", "i2", "i9"),
			number:  40 + 30*rng.NormFloat64(),
			"other": true,
		}
		tags := []string{}
		for range rng.IntN(5) {
			tags = append(tags, name("a", "b", "zzz", "naïve \"<\\\u2028"))
		}
		event["tags"] = tags
		if missing := name("user", "item", number, "tags", "-", "-", "-", "-"); rng.IntN(2) == 0 {
			delete(event, missing)
		} else if missing != "-" {
			event[missing] = nil
		}
		e.Events = append(e.Events, scoreOf(m.Schema(), event, m.Predict))
	}
	for _, odd := range []map[string]any{{}, {"user": 3}, {"user": 5, "item": 1006, "tags": []any{7, "a"}}, {"user": 1.5},
		{"user": true},
		{"tags": "a"}, {"tags": 7}, {"tags": []any{1.5}}, {"tags": []any{nil}},
		{"tags": longList()}, {number: "1"}, {number: true}, {number: 1e308}, {number: -5}} {
		e.Events = append(e.Events, scoreOf(s, odd, m.Predict))
	}
	for i, class := range append([]string{""}, s.Classes...) {
		top := expectedTop{
			Event: map[string]any{"user": "u1", number: 30.0, "tags": []string{"a"}},
			K:     i + 1,
			Class: class,
		}
		if i == 1 {
			top.Exclude = []string{"i1", "nobody"}
		}
		e.Tops = append(e.Tops, top.of(t, m.Schema(), m.TopK))
	}
	for _, event := range []map[string]any{{"user": "u1", "item": "i2", number: 31.0, "tags": []string{"a", "b"}},
		{"user": "u9", "item": "i1", number: 60.0, "tags": []string{}}} {
		in, err := s.InputFromMap(event)
		snapshottest.Must(t, err)
		x, err := m.Explain(&in)
		snapshottest.Must(t, err)
		e.Explained = append(e.Explained, expectedTerms{event, x.Terms})
	}
	history, err := s.LabelledFromMap(e.Example[0])
	snapshottest.Must(t, err)
	_, err = m.Fold([]format.LabelledEvent{history})
	e.Unfolded = pythonError(err)
	return e
}

// rankedAndExplained adds the items of every event that has a score, and the terms of every fifth, which take longest.
func (e *expectedModel) rankedAndExplained(t *testing.T, m *scorer.Model) {
	t.Helper()
	s := m.Schema()
	for i, score := range e.Events {
		if score.Error != "" {
			continue
		}
		in, err := s.InputFromMap(score.Event)
		snapshottest.Must(t, err)
		if i%5 == 0 {
			x, err := m.Explain(&in)
			snapshottest.Must(t, err)
			e.Explained = append(e.Explained, expectedTerms{score.Event, x.Terms})
		}
		top := expectedTop{Event: score.Event, K: 1 + i%3}
		if len(s.Classes) > 0 {
			top.Class = s.Classes[i%len(s.Classes)]
		}
		e.Tops = append(e.Tops, top.of(t, s, m.TopK))
	}
}

// scoreOf returns what predict says of an event.
func scoreOf(s *format.Schema, event map[string]any, predict func(*format.Input) (answer.Prediction,
	error)) expectedScore {
	e := expectedScore{Event: event}
	in, err := s.InputFromMap(event)
	if err == nil {
		e.Prediction, err = predict(&in)
	}
	if err != nil {
		e.Prediction, e.Error = answer.Prediction{}, pythonError(err)
		return e
	}
	e.Label, e.Ranked = e.Prediction.Label(), e.Prediction.Ranked()
	return e
}

// of adds the items; a ranking that is refused has none.
func (e expectedTop) of(t *testing.T, s *format.Schema, topK func([]format.Item, *format.Query, *scorer.Scratch) (
	[]format.Item, error)) expectedTop {
	t.Helper()
	whole := map[string]any{"item": "i1"}
	for k, v := range e.Event {
		whole[k] = v
	}
	in, err := s.InputFromMap(whole)
	snapshottest.Must(t, err)
	where, err := where.FromMap(e.Where)
	if err == nil {
		q := &format.Query{Input: in, Over: "item", K: e.K, Exclude: e.Exclude, Class: e.Class, Where: where}
		e.Items, err = topK([]format.Item{}, q, &scorer.Scratch{})
	}
	if err != nil && !errors.Is(err, disk.ErrInput) {
		t.Fatal(err)
	}
	if err != nil {
		e.Items = nil
	}
	return e
}

// foldOf returns what a version says with a history, by a field.
func foldOf(t *testing.T, m *scorer.Model, field string, history []format.LabelledEvent) expectedFold {
	t.Helper()
	e := expectedFold{Field: field}
	for i := range history {
		if history[i].Held {
			e.Held = i + 1
		}
	}
	s := m.Schema()
	for i := range history {
		e.History = append(e.History, labelledMap(s, &history[i]))
		e.Weights = append(e.Weights, cmp.Or(history[i].Weight, 1))
	}
	over := new(scorer.Overlay)
	snapshottest.Must(t, m.FoldInto(over, field, history))
	for i := range 20 {
		event := map[string]any{
			"user":            fmt.Sprintf("u%d", 1+i%9),
			"item":            fmt.Sprintf("i%d", 1+i%3),
			s.Numeric[0].Name: 30.0 + float64(i),
			"tags":            []string{"a", "b"}[:i%3],
		}
		e.Events = append(e.Events, scoreOf(s, event, over.Predict))
	}
	top := expectedTop{Event: map[string]any{"user": "u9", s.Numeric[0].Name: 30.0, "tags": []string{"a"}}, K: 2}
	if len(s.Classes) > 0 {
		top.Class = s.Classes[1]
	}
	e.Tops = []expectedTop{top.of(t, s, over.TopK)}
	return e
}

// labelledMap is the inverse of LabelledFromMap, but for the weight.
func labelledMap(s *format.Schema, e *format.LabelledEvent) map[string]any {
	event := s.ToMap(&e.Input)
	switch s.Task {
	case format.Multiclass:
		event[s.Label] = e.Classes[0]
	case format.Multilabel:
		event[s.Label] = e.Classes
	default:
		event[s.Label] = e.Label
	}
	return event
}

// The package has types throughout.
func TestPythonIsTyped(t *testing.T) {
	snapshottest.Python(t, "numpy, mypy, cryptography", nil, "-m", "mypy", "--cache-dir", t.TempDir(),
		"-p", "refitd_snapshot", "-p", "tests")
}
