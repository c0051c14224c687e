package fitted

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// Contents returns what a version publishes: the model, its vocabulary and schema, and golden pairs. Version numbers
// and digests are the store's to give.
func (ch *Fitted) Contents(m *config.Model) *format.Contents {
	v, t, model := ch.Vocabulary, ch.Target, ch.WithPopularity()
	c := &format.Contents{
		Schema: snapshot.Schema{
			Task:         string(m.Schema.Learned()),
			Label:        m.Schema.LabelField(),
			Levels:       m.Schema.Levels,
			Classes:      t.Classes,
			Positive:     m.Schema.Positive,
			Negative:     m.Schema.Negative,
			LabelMin:     t.Low,
			LabelMax:     t.High,
			Categorical:  m.Schema.Categorical,
			Cross:        v.Crosses(),
			Multi:        m.Schema.Multi,
			MultiWeights: v.Schema.MultiWeights,
			Numeric:      v.Numeric,
			Optional:     append([]string{}, m.Schema.Optional...),
			Augment:      v.Augment,
		},
		Kernel: model.Kernel.String(), Degree: model.Kernel.Degree(), Link: t.Link, NumFeatures: model.NumFeatures,
		NumOutputs: model.NumOutputs,
		NumBasis:   model.NumBasis, Basis: model.Basis, Weights: model.Weights, Linear: model.Linear, Bias: model.Bias,
		Vocabulary: v.Names,
		Trees:      v.Trees,
	}
	c.Schema.Derived = DerivedFields(&m.Schema)
	c.Tables = slices.Concat(versionTables(ch.Tables), ch.Properties)
	for _, t := range ch.Properties { // an event may lack what the version knows
		c.Schema.Optional = append(c.Schema.Optional, t.Columns()...)
	}
	if ch.Popular != nil {
		c.CoChoices = ch.Popular.CoChoices.contents(v.Schema, ch.Popular.Field, v)
	}
	if c.FoldIn, c.NoFoldIn = ch.foldIn(m); ch.PopularOnly {
		c.FoldIn, c.NoFoldIn = nil, "the version lists names by their popularity alone: what was learned of who chooses "+
			"did not make lists better"
	}
	if model.Map != nil {
		c.Schema.FeatureMap, c.MapWeights = v.Map, model.Map
	}
	scorer := NewScorer(model, v)
	scorer.Limit = ch.OutputLimit()
	for i := range ch.Golden {
		ev := &ch.Golden[i]
		if ch.Tables != nil { // readers know of its entities what the version does
			ev = rows.CopyOf(ev)
			ch.Tables.Join(ev)
		}
		outputs := make([]float64, model.NumOutputs)
		scorer.Outputs(outputs, ev)
		c.Golden = append(c.Golden, format.Golden{Input: InputOf(v.Schema, ev), Outputs: outputs})
	}
	x := &ch.Version
	var gateSlices []format.GateSlice
	for _, s := range x.GateSlices {
		gateSlices = append(
			gateSlices,
			format.GateSlice{
				Field:    s.Field,
				Known:    s.Known,
				N:        s.N,
				Loss:     number(s.Loss),
				Baseline: number(s.Baseline),
			},
		)
	}
	c.Meta = format.Meta{
		GateSlices: gateSlices,
		Kind:       x.Kind, Parent: x.Parent, Status: x.Status, Loss: t.Name(), Lambda: format.Number(x.Lambda),
		Objective: format.Number(
			x.Objective,
		), Form: x.Form, Gap: number(x.Gap), GapRelative: number(x.GapRelative), GapKind: x.GapKind, GapLimit: x.GapLimit,
		BasisGap: number(x.BasisGap), BasisGapRelative: number(x.BasisGapRelative), NuclearNorm: number(x.NuclearNorm),
		Solver: x.Solver, StochasticEpochs: x.StochasticEpochs, FISTAIterations: x.FISTAIterations, Sweeps: x.Sweeps,
		HeldOutSweeps: x.HeldOutSweeps,
		OutputLimit:   number(x.OutputLimit),
		Precisions:    x.Precisions, Evidence: number(x.Evidence), Warm: x.Warm, Rows: x.Rows, TrainSeconds: format.Number(
			x.TrainSeconds),
		Select: metrics(
			x.Select,
		), Gate: metrics(x.Gate), ChampionGate: metrics(x.ChampionGate), Decision: x.Decision, Reason: x.Reason,
		Events: ch.Events, Lineage: ch.Lineage, SampleDigest: ch.Sample, CutShort: ch.CutShort,
		HorizonEvents: x.HorizonEvents,
		MainEffects:   x.MainEffects, ConfigHash: m.Hash(), Seed: &m.Train.Seed,
	}
	if o := ch.Observed; o != nil {
		c.Meta.Progressive, c.Meta.Live = metrics(o.Window.Published), metrics(o.Window.Live)
		for _, p := range o.Parts {
			c.Meta.Parts = append(
				c.Meta.Parts,
				format.Part{
					Name:       p.Name,
					Weight:     format.Number(p.Weight),
					Loss:       number(p.Loss),
					InVersions: p.InVersions,
				},
			)
		}
	}
	if ch.Watermark > 0 {
		c.Meta.Watermark = time.UnixMilli(ch.Watermark)
	}
	for _, p := range x.Cut {
		c.Meta.Cut = append(c.Meta.Cut, format.Cut{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
	return c
}

// WithPopularity returns the model as versions hold it.
func (ch *Fitted) WithPopularity() *solver.Model {
	model := ch.Model
	if ch.PopularOnly {
		model = PopularAlone(model)
	}
	return ch.Popular.on(model, ch.Vocabulary)
}

// DerivedFields returns what a version says of the derived fields of a schema.
func DerivedFields(s *config.Schema) (out []format.Derived) {
	for _, d := range s.Derived {
		of := format.Derived{Name: d.Name, Kind: d.Kind, Of: d.Of, Field: d.Field, Unit: d.Unit, K: d.K}
		if k := event.KindOf(event.Kind(d.Kind)); k != nil && k.NeedsTime {
			of.Time, of.TimeUnit = s.Time, s.TimeUnit
		}
		out = append(out, of)
	}
	return out
}

// InputOf returns what a consumer gives of an event: its fields but for the crosses. It shares their memory.
func InputOf(s *event.Schema, ev *event.Event) snapshot.Input {
	return snapshot.Input{Categorical: ev.Categorical[:s.NumGiven()], Numeric: ev.Numeric, Multi: ev.Multi}
}

// number returns a figure as manifests have it; nil stays nil, which they leave out.
func number(n *report.Number) *format.Number {
	if n == nil {
		return nil
	}
	v := format.Number(*n)
	return &v
}

// reported is the inverse of number.
func reported(n *format.Number) *report.Number {
	if n == nil {
		return nil
	}
	return report.Some(float64(*n))
}

// metrics returns figures as manifests have them.
func metrics(m *report.Metrics) *format.Metrics {
	if m == nil {
		return nil
	}
	return &format.Metrics{
		N:        m.N,
		Loss:     number(m.Loss),
		RMSE:     number(m.RMSE),
		MAE:      number(m.MAE),
		Accuracy: number(m.Accuracy),
		NDCG1:    number(m.NDCG1),
		NDCG5:    number(m.NDCG5),
	}
}

// Checkpoint is what the daemon keeps of a champion in addition to its snapshot, so that a restart continues from it.
type Checkpoint struct {
	Format    int
	Version   int64
	Lambda    float64
	Posterior *posterior.State
	Global    float64 // Global to Frequencies: BaselineMeans
	ByName    map[string]float64
	Majority  int
	// Frequencies are of classes; nil in what earlier builds kept.
	Frequencies   []float64
	Horizon       int              // an index of HalfLives
	Convex        *solver.Model    // of the convex stage, where the posterior has groups
	Gaussian      *posterior.State // that of GaussianTarget, nil of other labels
	Map           *format.FeatureMap
	MapRidge      float64          // of weights on Map
	Clean         *posterior.State // Posterior before it learned from held-out rows, nil if it has not
	CleanGaussian *posterior.State // Gaussian before that
	HeldOut       HeldOutNames     // entities that neither learned from
	Link          *encode.LevelLink
	Dual          *RowDual        // nil of algorithms that keep none
	Scale         float64         // of the outputs of an algorithm of margins
	Factor        float64         // of temperature scaling
	Precisions    PrecisionChoice // nothing in what earlier builds kept: both ways are compared
	Popular       *PopularWeights // that its snapshot adds to the model; nil for none
	PopularOnly   bool
	Vectors       []*vectors.Prior
}

// CheckpointFormat defines the file: a reader refuses later ones. Of format 1 the posteriors are in the first message.
const CheckpointFormat = 2

// keptState is the message of one posterior, nil for none. gob holds a message in memory while it is written: all of
// them in one took several times as much as they do.
type keptState struct{ State *posterior.State }

// states are where the posteriors of a checkpoint go, in the order of their messages.
func (k *Checkpoint) states() []**posterior.State {
	return []**posterior.State{&k.Posterior, &k.Gaussian, &k.Clean, &k.CleanGaussian}
}

// WriteCheckpoint writes the part of a champion that its snapshot does not hold: precisions, covariances and baselines.
func (ch *Fitted) WriteCheckpoint(w io.Writer) error {
	k := Checkpoint{
		Format:   CheckpointFormat,
		Version:  ch.Version.Version,
		Lambda:   ch.Lambda,
		Horizon:  ch.Horizon,
		Map:      ch.Vocabulary.Map,
		MapRidge: ch.MapRidge,
	}
	if ch.Posterior != nil && ch.Posterior.Group != nil {
		k.Convex = ch.Convex
	}
	k.HeldOut, k.Link, k.Precisions, k.Dual, k.Scale = ch.HeldOut, ch.Link, ch.Precisions, ch.Dual, ch.Scale
	k.Factor, k.Vectors = ch.Factor, ch.Vectors
	k.Popular, k.PopularOnly = ch.Popular, ch.PopularOnly
	if ch.Means != nil {
		k.Global, k.ByName, k.Majority, k.Frequencies = ch.Means.Global, ch.Means.ByName, ch.Means.Majority,
			ch.Means.Frequencies
	}
	states := []*posterior.State{ch.Posterior, ch.Gaussian, nil, nil}
	if ch.WithoutHoldout != nil {
		states[2], states[3] = ch.WithoutHoldout.Posterior, ch.WithoutHoldout.Gaussian
	}
	to := gob.NewEncoder(w)
	err := to.Encode(&k)
	for _, s := range states {
		err = cmp.Or(err, to.Encode(keptState{s}))
	}
	if err != nil {
		return fmt.Errorf("cycle: keep version %d: %w", ch.Version.Version, err)
	}
	return nil
}

// Restore builds a champion from its snapshot and from what WriteCheckpoint wrote of it. The error says what does not
// fit; the caller then starts without a champion, and the next refit makes one.
func Restore(m *config.Model, model *snapshot.Model, keep []byte) (*Fitted, error) {
	var k Checkpoint
	from := gob.NewDecoder(bytes.NewReader(keep))
	if err := from.Decode(&k); err != nil {
		return nil, fmt.Errorf("cycle: kept posterior: %w", err)
	}
	if k.Format == CheckpointFormat {
		for _, s := range k.states() {
			var kept keptState
			if err := from.Decode(&kept); err != nil {
				return nil, fmt.Errorf("cycle: kept posterior: %w", err)
			}
			*s = kept.State
		}
	}
	return revive(m, model, &k)
}

// revive is Restore of a decoded checkpoint. Each part that does not fit is an error, but for the link of numbers to
// levels, without which updates of levels begin with the next refit.
func revive(m *config.Model, model *snapshot.Model, k *Checkpoint) (*Fitted, error) {
	manifest, c := model.Manifest(), model.Contents()
	if k.Format < 1 || k.Format > CheckpointFormat {
		return nil, fmt.Errorf("cycle: kept posterior of format %d, this build reads 1 to %d: %w", k.Format, CheckpointFormat,
			ErrOtherBuild)
	}
	if k.Version != manifest.Version {
		return nil, fmt.Errorf("cycle: kept posterior of version %d, the champion is version %d", k.Version,
			manifest.Version)
	}
	if !m.MadeFor(manifest.ConfigHash) {
		return nil, fmt.Errorf("cycle: champion version %d: %w", manifest.Version, ErrOtherSettings)
	}
	ch, err := FromSnapshot(m, model)
	if err != nil {
		return nil, err
	}
	for _, s := range k.states() {
		p := *s
		if p == nil {
			continue
		}
		// Fields of features are those of the snapshot: the checkpoint does not repeat them.
		p.Field = ch.Vocabulary.Field
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("cycle: kept posterior of version %d for %d features: %w", k.Version, c.NumFeatures,
				err)
		}
	}
	if ch.HeldOut, ch.Precisions = k.HeldOut, k.Precisions; k.Link != nil &&
		len(k.Link.Threshold) == ch.Target.Outputs() {
		ch.Link = k.Link
	}
	ch.Lambda, ch.Posterior, ch.Gaussian, ch.Convex, ch.Horizon = k.Lambda, k.Posterior, k.Gaussian, k.Convex, min(
		max(k.Horizon, 0), len(HalfLives)-1)
	ch.Dual, ch.Scale, ch.Factor, ch.Vectors = k.Dual, k.Scale, k.Factor, k.Vectors
	if k.Clean != nil {
		ch.WithoutHoldout = &WithoutHoldout{k.Clean, k.CleanGaussian}
	}
	if ch.Means, err = CheckpointMeans(ch.Target, k); err != nil {
		return nil, fmt.Errorf("cycle: kept baselines of version %d: %w", k.Version, err)
	}
	ch.MapRidge = k.MapRidge
	ch.Popular, ch.PopularOnly = k.Popular, k.PopularOnly
	// Versions hold the model with popularity added; a refit continues from the model without.
	ch.Model = ch.Popular.Off(ch.Model, ch.Vocabulary)
	if ch.Vocabulary.Map == nil {
		ch.Vocabulary.Map = k.Map // the model has no weights on it, the next one may have
	}
	return ch, nil
}

// CheckpointMeans returns the baselines that were kept.
func CheckpointMeans(t *encode.Target, k *Checkpoint) (*BaselineMeans, error) {
	m := &BaselineMeans{Global: k.Global, ByName: k.ByName, Majority: k.Majority}
	if n := len(k.Frequencies); n == t.Outputs() && !t.IsNumeric() {
		m.Frequencies = k.Frequencies
	} else if n > 0 {
		return nil, fmt.Errorf("frequencies of %d classes, the model has %d", n, t.Outputs())
	}
	if m.Majority < 0 || m.Majority >= max(2, t.Outputs()) {
		return nil, fmt.Errorf("class %d is most frequent, the model has %d", m.Majority, t.Outputs())
	}
	m.predict(t)
	return m, nil
}

// ErrOtherBuild is returned for what another build has kept of a champion: the next refit makes one.
var ErrOtherBuild = errors.New("another build has kept it")

// ErrOtherSettings is returned for a champion that was trained with another configuration: the model begins anew.
var ErrOtherSettings = errors.New("trained with another configuration")

// FromSnapshot builds a champion that can score from a snapshot alone.
func FromSnapshot(m *config.Model, model *snapshot.Model) (*Fitted, error) {
	manifest, c := model.Manifest(), model.Contents()
	target, err := encode.NewTarget(m, c.Schema.Classes)
	if err != nil {
		return nil, err
	}
	if target.Outputs() != c.NumOutputs || target.Link != c.Link {
		return nil, fmt.Errorf(
			"cycle: snapshot version %d has %d outputs with link %s, the configuration asks for %d with %s",
			manifest.Version, c.NumOutputs, c.Link, target.Outputs(), target.Link)
	}
	schema := m.Schema.Event()
	v, ok := encode.VocabularyOf(&schema, c)
	if !ok || !sameFields(&m.Schema, &c.Schema) {
		return nil, fmt.Errorf("cycle: snapshot version %d has other fields than the configuration", manifest.Version)
	}
	kernel, err := solver.KernelOf(c.Kernel, c.Degree)
	if err != nil {
		return nil, fmt.Errorf("cycle: snapshot version %d: %w", manifest.Version, err)
	}
	ch := &Fitted{
		Vocabulary: v,
		Target:     target,
		Sample:     manifest.SampleDigest,
		Lineage:    manifest.Lineage,
		Events:     manifest.Events,
		// A manifest has λ for RowsPerLambda rows, a model the absolute one.
		Lambda: float64(manifest.Lambda) * float64(manifest.Rows) / RowsPerLambda,
		Model: &solver.Model{Kernel: kernel, NumFeatures: c.NumFeatures, NumOutputs: c.NumOutputs, NumBasis: c.NumBasis,
			Basis: c.Basis, Weights: c.Weights, Linear: c.Linear, Bias: c.Bias, Map: c.MapWeights},
	}
	for _, g := range c.Golden {
		ev := event.Event{Categorical: slices.Clip(g.Input.Categorical), Numeric: g.Input.Numeric, Multi: g.Input.Multi}
		// Crosses are made of their parts: golden pairs have given fields only.
		schema.Complete(&ev)
		ch.Golden = append(ch.Golden, ev)
	}
	if !manifest.Watermark.IsZero() {
		ch.Watermark = manifest.Watermark.UnixMilli()
	}
	ch.Version, ch.Tables, ch.Properties = VersionOf(&manifest), TablesOf(m, c), propertiesOf(c)
	return ch, nil
}

// sameFields reports whether the fields of a version are those of a schema, in their order.
func sameFields(s *config.Schema, of *snapshot.Schema) bool {
	return slices.Equal(s.Categorical, of.Categorical) && slices.Equal(s.Multi, of.Multi) &&
		slices.EqualFunc(s.Numeric, of.Numeric, func(name string, n format.NumericField) bool { return name == n.Name })
}

// VersionOf returns what a manifest says of its version, but for the metrics.
func VersionOf(m *snapshot.Manifest) report.Version {
	v := report.Version{
		Model:            m.Model,
		Version:          m.Version,
		Kind:             m.Kind,
		Parent:           m.Parent,
		Status:           m.Status,
		K:                m.NumBasis,
		Lambda:           report.Number(m.Lambda),
		Rows:             m.Rows,
		Features:         m.NumFeatures,
		Outputs:          m.NumOutputs,
		Objective:        report.Number(m.Objective),
		Form:             m.Form,
		Gap:              reported(m.Gap),
		GapRelative:      reported(m.GapRelative),
		GapKind:          m.GapKind,
		GapLimit:         m.GapLimit,
		BasisGap:         reported(m.BasisGap),
		BasisGapRelative: reported(m.BasisGapRelative),
		NuclearNorm:      reported(m.NuclearNorm),
		Decision:         m.Decision,
		Reason:           m.Reason,
		PayloadDigest:    m.PayloadDigest,
		Solver:           m.Solver,
		Warm:             m.Warm,
		Sweeps:           m.Sweeps,
		HeldOutSweeps:    m.HeldOutSweeps,
		Precisions:       m.Precisions,
		OutputLimit:      reported(m.OutputLimit),
		Evidence:         reported(m.Evidence),
		HorizonEvents:    m.HorizonEvents,
		MainEffects:      m.MainEffects,
		FeatureMap:       encode.MapText(m.Schema.FeatureMap),
	}
	for _, p := range m.Cut {
		v.Cut = append(v.Cut, report.Cut{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
	return v
}
