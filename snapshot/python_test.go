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
)

// expectations are what the library says of versions in stores, for the package in python to say the same.
type expectations struct {
	Models   []expectedModel   `json:"models"`
	Refusals []expectedRefusal `json:"refusals"`
	Watch    expectedWatch     `json:"watch"`
}

// expectedModel is what a version says of events, tops over the field item, and histories.
type expectedModel struct {
	Store     string           `json:"store"`
	Model     string           `json:"model"`
	Events    []expectedScore  `json:"events"`
	Tops      []expectedTop    `json:"tops"`
	Explained []expectedTerms  `json:"explained"`
	Folds     []expectedFold   `json:"folds"`
	Unfolded  string           `json:"unfolded"` // name of the error of a history; empty for no error
	Form      string           `json:"form"`
	Gaps      []*Number        `json:"gaps"`
	GapKind   string           `json:"gap_kind"`
	GapLimit  string           `json:"gap_limit"`
	Example   []map[string]any `json:"example"` // such a history
}

// expectedScore is a prediction, or the name of the error in the package.
type expectedScore struct {
	Event  map[string]any `json:"event"`
	Error  string         `json:"error"`
	Label  any            `json:"label"`
	Ranked []string       `json:"ranked"`
	Prediction
}

type expectedTop struct {
	Event   map[string]any `json:"event"`
	K       int            `json:"k"`
	Exclude []string       `json:"exclude"`
	Class   string         `json:"class"`
	Items   []Item         `json:"items"`
}

type expectedTerms struct {
	Event map[string]any `json:"event"`
	Terms []Term         `json:"terms"`
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
	ErrNotFound:  "NotFoundError",
	ErrDigest:    "DigestError",
	ErrFormat:    "FormatError",
	ErrGolden:    "GoldenError",
	ErrSignature: "SignatureError",
	ErrExpired:   "ExpiredError",
	ErrOlder:     "OlderError",
	ErrName:      "BadNameError",
	ErrNoFoldIn:  "NoFoldInError",
	ErrChain:     "ChainError",
	ErrContents:  "ContentsError",
}

func pythonError(err error) string {
	for sentinel, name := range pythonErrors {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	switch { // after those, which may be caused by it
	case errors.Is(err, ErrInput):
		return "InputError"
	case err != nil:
		return "unexpected: " + err.Error()
	}
	return ""
}

// python runs Python in a copy of the package, with what environ adds, or skips the test where no Python can run it.
// The copy lets the cache of test results know the files.
func python(t *testing.T, needs string, environ []string, arguments ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import "+needs).CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 (3.9 or later) with %s is needed (%v): %s", needs, err, out)
	}
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("python")))
	cmd := exec.CommandContext(t.Context(), "python3", arguments...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// The package in python says of every kind of version what the library says, refuses what it refuses, and follows an
// alias as it does.
func TestPythonIsTheLibrary(t *testing.T) {
	dir := t.TempDir()
	want := expectations{Models: expectedModels(t, dir), Refusals: expectedRefusals(t), Watch: expectedMoves(t)}
	path := filepath.Join(dir, "expectations.json")
	b, err := json.Marshal(want)
	must(t, err)
	must(t, os.WriteFile(path, b, 0o644))
	python(t, "numpy", []string{"REFITD_EXPECTATIONS=" + path}, "-W", "error", "-m", "unittest", "tests.test_library")
	if t.Failed() {
		return
	}
	if p, err := readAccepted(want.Watch.StateFile, "m", Champion); exec.Command("python3", "-c", "import cryptography").
		Run() ==
		nil &&
		(err != nil || p.Version != 1 || p.Sequence == 0) {
		t.Errorf("the state file of the package's watcher is read as %+v, %v", p, err)
	}
}

// The package has types throughout.
func TestPythonIsTyped(t *testing.T) {
	python(t, "numpy, mypy, cryptography", nil, "-m", "mypy", "--cache-dir", t.TempDir(), "refitd_snapshot", "tests")
}

// expectedModels publishes versions of every kind.
func expectedModels(t *testing.T, dir string) (list []expectedModel) {
	t.Helper()
	n := tier.Size(300, 1000)
	publish := func(name string, c *Contents) (*Model, expectedModel) {
		name = strings.ToLower(name)
		_, err := NewStore(dir).Publish(t.Context(), name, c)
		must(t, err)
		m, err := Open(dir, name, Selector{Version: 1})
		must(t, err)
		x := m.Manifest()
		return m, expectedModel{
			Store:    dir,
			Model:    name,
			Form:     x.Form,
			Gaps:     []*Number{x.Gap, x.GapRelative, x.BasisGap, x.BasisGapRelative},
			GapKind:  x.GapKind,
			GapLimit: x.GapLimit,
			Example: []map[string]any{labelledMap(m.Schema(), &historyOf(c,
				"u1", 1)[0])},
		}
	}
	tasks := map[string]bool{}
	for _, s := range shapes {
		types := []string{F64}
		isNew := slices.Contains(newForms(), s)
		if !tasks[s.task] || isNew { // F32 of every task
			types = append(types, F32)
		}
		tasks[s.task] = true
		for _, tensors := range types {
			c := testContents(s)
			c.Tensors = tensors
			m, e := publish(s.String()+"-"+tensors, c)
			if e = e.of(t, m, n); isNew {
				e.rankedAndExplained(t, m)
			}
			list = append(list, e)
		}
		m, e := publish(s.String()+"-crosses", withCrosses(s))
		list = append(list, e.of(t, m, 50))
		m, e = publish(s.String()+"-limited", withLimit(testContents(s), 0.75))
		e = e.of(t, m, 50)
		e.rankedAndExplained(t, m)
		list = append(list, e)
	}
	for name, c := range oddContents() {
		m, e := publish(name, c)
		list = append(list, e.of(t, m, 50))
	}
	folds := foldShapes()
	for _, s := range []shape{{Ordinal, OrdinalLink, ANOVA, 3, true, ""}, {Regression, Identity, ANOVA, 0, true, ""},
		{Binary, Logistic, ANOVA, 0, true, ""}} {
		folds[s.String()+"-apart"] = foldable(s, false)
	}
	folds["many-rates"] = foldable(shape{Binary, Logistic, ANOVA, 2, true, ""}, true)
	user := &folds["many-rates"].FoldIn.Fields[0]
	user.Rates, user.Losses = []float64{1, 0.99, 0.97, 0.9, 0.5}, []float64{0, 1, 2, 0.5, 3}
	folds["range"] = foldable(shape{Regression, Identity, ANOVA, 2, true, ""}, true)
	folds["range"].FoldIn.LabelRange = []float64{-0.5, 0.5}
	folds["list-weights"] = foldable(shape{Binary, Logistic, ANOVA, 2, true, ""}, true)
	folds["list-weights"].Schema.MultiWeights = []string{WeightSqrt}
	folds["limited"] = withLimit(foldable(shape{Ordinal, OrdinalLink, ANOVA, 3, true, ""}, true), 0.75)
	folds["co-choices"] = withCoChoices(foldable(shape{Binary, Logistic, ANOVA, 2, true, ""}, true))
	for name, c := range folds {
		m, e := publish("fold-"+name, c)
		e = e.of(t, m, 50)
		for _, field := range []string{"", "item"} {
			history := append(historyOf(c, "u1", 15), historyOf(c, "u9", 12)...)
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
func oddContents() map[string]*Contents {
	escaped := testContents(small)
	escaped.Schema.Label, escaped.Schema.Numeric[0] = "y<&>\u2028\"\\\n", NumericField{
		Name:   "a\tge",
		Center: 1e21,
		Scale:  1e-7,
		Clip:   2.5e-9,
	}
	escaped.Schema.LabelMin, escaped.Schema.LabelMax = -0.000001, 123456789012345680000
	for i := range escaped.Golden {
		escaped.Golden[i].Outputs = nil
	}
	clipped := testContents(shapes[2])
	clipped.Schema.Numeric[0].Clip = 0.75
	cut := testContents(small)
	for i := range 1000 {
		cut.Meta.Cut = append(cut.Meta.Cut, Cut{"a-topic-of-some-length", int32(i), 1 << 40})
	}
	some := testContents(small)
	some.Schema.Optional, some.Golden = []string{"age", "tags"}, some.Golden[:2]
	none := testContents(small)
	none.Schema.Optional, none.Golden = []string{}, none.Golden[:1]
	for _, c := range []*Contents{clipped} {
		for i := range c.Golden {
			c.Golden[i].Outputs = nil
		}
	}
	numbered := testContents(small)
	numbered.Vocabulary = [][]string{{"1", "3", "5"}, {"1006", "7"}, {"-2", "7", "a"}}
	for i := range numbered.Golden {
		numbered.Golden[i].Outputs = nil
	}
	named, half := testContents(shape{Binary, Logistic, ANOVA, 2, true, ""}), foldable(
		shape{Binary, Logistic, ANOVA, 2, true, ""},
		true,
	)
	named.Schema.Positive, named.Schema.Negative = "UP", "DOWN"
	half.Schema.Positive = "2"
	gap := Number(0.25)
	for kind, c := range map[string]*Contents{"refit": some, "update": none, "swept": cut} { // of builds that said no form
		c.Meta.Kind, c.Meta.Gap, c.Meta.GapRelative, c.Meta.GapKind = kind, &gap, &gap, "certified"
		if c.Meta.GapLimit = "vectors"; kind == "swept" {
			c.Meta.Kind, c.Meta.Sweeps = "refit", 3
		}
	}
	return map[string]*Contents{
		"escaped":       escaped,
		"numbered":      numbered,
		"named":         named,
		"half-named":    half,
		"clipped":       clipped,
		"cut":           cut,
		"co-choices":    withCoChoices(testContents(shape{Binary, Logistic, ANOVA, 2, true, ""})),
		"list-weights":  withWeights(shapes[0], []string{WeightSqrt}),
		"list-means":    withWeights(shapes[0], []string{WeightMean}),
		"some-optional": some,
		"none-optional": none,
	}
}

// of adds what a version says of n random events and of odd ones.
func (e expectedModel) of(t *testing.T, m *Model, n int) expectedModel {
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
		must(t, err)
		x, err := m.Explain(&in)
		must(t, err)
		e.Explained = append(e.Explained, expectedTerms{event, x.Terms})
	}
	history, err := s.LabelledFromMap(e.Example[0])
	must(t, err)
	_, err = m.Fold([]LabelledEvent{history})
	e.Unfolded = pythonError(err)
	return e
}

// rankedAndExplained adds the items of every event that has a score, and the terms of every fifth, which take longest.
func (e *expectedModel) rankedAndExplained(t *testing.T, m *Model) {
	t.Helper()
	s := m.Schema()
	for i, score := range e.Events {
		if score.Error != "" {
			continue
		}
		in, err := s.InputFromMap(score.Event)
		must(t, err)
		if i%5 == 0 {
			x, err := m.Explain(&in)
			must(t, err)
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
func scoreOf(s *Schema, event map[string]any, predict func(*Input) (Prediction, error)) expectedScore {
	e := expectedScore{Event: event}
	in, err := s.InputFromMap(event)
	if err == nil {
		e.Prediction, err = predict(&in)
	}
	if err != nil {
		e.Prediction, e.Error = Prediction{}, pythonError(err)
		return e
	}
	e.Label, e.Ranked = e.Prediction.Label(), e.Prediction.Ranked()
	return e
}

// of adds the items; a ranking that is refused has none.
func (e expectedTop) of(t *testing.T, s *Schema, topK func([]Item, *Query, *Scratch) ([]Item, error)) expectedTop {
	t.Helper()
	whole := map[string]any{"item": "i1"}
	for k, v := range e.Event {
		whole[k] = v
	}
	in, err := s.InputFromMap(whole)
	must(t, err)
	e.Items, err = topK(nil, &Query{Input: in, Over: "item", K: e.K, Exclude: e.Exclude, Class: e.Class}, &Scratch{})
	if err != nil && !errors.Is(err, ErrInput) {
		t.Fatal(err)
	}
	if err != nil {
		e.Items = nil
	}
	return e
}

// foldOf returns what a version says with a history, by a field.
func foldOf(t *testing.T, m *Model, field string, history []LabelledEvent) expectedFold {
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
	over := new(Overlay)
	must(t, m.FoldInto(over, field, history))
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
func labelledMap(s *Schema, e *LabelledEvent) map[string]any {
	event := s.toMap(&e.Input)
	switch s.Task {
	case Multiclass:
		event[s.Label] = e.Classes[0]
	case Multilabel:
		event[s.Label] = e.Classes
	default:
		event[s.Label] = e.Label
	}
	return event
}
