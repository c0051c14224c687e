package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

const (
	defaultRegistryTimeout = 5 * time.Second        // an answer of a few KB from the same network
	defaultFetchMaxWait    = 500 * time.Millisecond // Kafka's own fetch.max.wait.ms
	defaultMaxFutureSkew   = 5 * time.Minute
)

// Model is one entry of models: what it reads, how its events look, and how it is sampled, trained, judged and
// published.
type Model struct {
	Name     string   `json:"name"` // letters, digits, '.', '_' and '-'; it names directories
	Input    Input    `json:"input"`
	Schema   Schema   `json:"schema"`
	Tables   []Table  `json:"tables,omitempty"`
	Sample   Sample   `json:"sample"`
	Train    Train    `json:"train"`
	Evaluate Evaluate `json:"evaluate"`
	Publish  Publish  `json:"publish"`
	Serve    Serve    `json:"serve"`
	Score    Score    `json:"score,omitzero"`
	Notify   Notify   `json:"notify,omitzero"`
	Shard    Shard    `json:"-"               yaml:"-"` // what the process is for it: Config.Role and Config.Shard
	Without  []string `json:"-"               yaml:"-"` // parts of the learner that a backtest leaves out, by cycle.Parts
}

// LeavesOut reports whether a backtest leaves out a part of the learner.
func (m *Model) LeavesOut(part string) bool { return slices.Contains(m.Without, part) }

// MaxEventBytes is the largest input.max_event_bytes: what the state can hold of one event.
const MaxEventBytes Size = 256 << 10

// Input names the topics and bounds what one event may be.
type Input struct {
	Topics    []string `json:"topics"`
	Format    string   `json:"format"`               // of values: one of event.Formats
	KeyFormat string   `json:"key_format,omitempty"` // of keys: the same; empty is json
	// .avsc, .proto or a descriptor set: the schema of all values without a registry, the reader's with one
	SchemaFile    string `json:"schema_file,omitempty"`
	Start         string `json:"start"`           // earliest or latest: where a partition without a ledger begins
	OnGap         string `json:"on_gap"`          // halt or record: what to do when the log starts after the next offset
	MaxEventBytes Size   `json:"max_event_bytes"` // larger events are rejected as too_large
	MaxIDBytes    Size   `json:"max_id_bytes"`    // longer names are rejected as id_too_long
	MaxListNames  int    `json:"max_list_names"`  // longer lists of a multi field are rejected as too_large
	// an event time further ahead of the record's own time stamp, or of the clock, is replaced
	MaxFutureSkew Duration `json:"max_future_skew"`

	Negatives  Negatives  `json:"negatives,omitzero"` // task implicit: what choices are compared with
	Mapping    Mapping    `json:"mapping,omitzero"`
	Outcomes   Outcomes   `json:"outcomes,omitzero"` // labels that come later, in other topics
	DeadLetter DeadLetter `json:"dead_letter"`

	Written      *event.Writer `json:"written,omitempty"       yaml:"-"` // what SchemaFile has
	FromRegistry bool          `json:"from_registry,omitempty" yaml:"-"` // schemas are those of kafka.schema_registry
}

// DeadLetter is where rejected records go.
type DeadLetter struct {
	Topic   string `json:"topic"`    // empty only counts them
	MaxRows int    `json:"max_rows"` // records that may wait to be sent; when there are so many, reading waits
}

// Schema says which fields of an event mean what; see event.Schema.
type Schema struct {
	Task        string   `json:"task"`
	Label       string   `json:"label"`
	Levels      int      `json:"levels"`
	Classes     []string `json:"classes"`
	Positive    string   `json:"positive,omitempty"` // binary: see event.Schema
	Negative    string   `json:"negative,omitempty"`
	LabelMin    float64  `json:"label_min"`
	LabelMax    float64  `json:"label_max"`
	Time        string   `json:"time"`
	TimeUnit    string   `json:"time_unit"`
	Weight      string   `json:"weight"`
	Identity    string   `json:"identity"`
	Categorical []string `json:"categorical"`
	Numeric     []string `json:"numeric"`
	Multi       []string `json:"multi"`

	// task implicit: what events weigh by their kind, which Label says
	EventWeights []EventWeight `json:"event_weights,omitempty"`

	// Cross has lists of categorical fields, each of which makes one more: see event.Cross.
	Cross [][]string `json:"cross,omitempty"`

	// Derived are fields that follow from the events before; reading a configuration adds their names to Categorical,
	// Multi and Optional.
	Derived []Derived `json:"derived,omitempty"`

	// Joined are fields that are columns of Model.Tables; reading a configuration adds their names to Categorical,
	// Numeric, Multi, Optional and Of, behind all others.
	Joined []Joined `json:"joined,omitempty" yaml:"-"`

	// LabelLater says that events have no label: see Input.Outcomes.
	LabelLater bool `json:"label_later,omitempty" yaml:"-"`

	// Optional are the names of those fields, sorted, that are written as Field with optional: true.
	Optional []string `json:"optional,omitempty" yaml:"-"`

	// Of has, by name of a field that is written as Field with of, the field that it is a function of.
	Of map[string]string `json:"of,omitempty" yaml:"-"`

	// ListWeights has, by name of a field of Multi that is written as Field with weight, that weight; once resolved,
	// those that are not format.WeightMean.
	ListWeights map[string]string `json:"list_weights,omitempty" yaml:"-"`

	vectors []Vector // of a model that Table.Model returns
}

// Field is an entry of Schema.Categorical, Numeric or Multi that says more than the name.
type Field struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"` // an event may lack it, and then learns nothing from it and is scored without it
	// categorical field whose name decides the value, as the age of a user; empty: found by counting
	Of     string `json:"of"`
	Weight string `json:"weight"` // of Multi alone: what each name of a list of n counts, mean (1/n) or sqrt (1/√n)
}

// Sample bounds the sample that training sees.
type Sample struct {
	Size     int      `json:"size"`      // rows
	MaxBytes Size     `json:"max_bytes"` // memory of those rows in a refit, by what is in them; 0 is OrdinaryRow for each
	Seed     *uint64  `json:"seed"`      // nil: drawn once and stored with the state
	HalfLife Duration `json:"half_life"` // of the inclusion weight, in event time; 0 never forgets
	Holdout  Holdout  `json:"holdout"`
	// shares of the rows by class of the label; the other classes share what is left
	Quotas []Quota `json:"quotas,omitempty"`
	Cap    Cap     `json:"cap,omitzero"`
}

// Quota is the share of the sample that the events of one class have.
type Quota struct {
	Class ClassName `json:"class"` // ordinal: a level; binary: 0 or 1; multiclass: a class
	Share float64   `json:"share"` // in (0, 1]
}

// Cap bounds the rows of one entity.
type Cap struct {
	By    string  `json:"by"`    // categorical field; empty bounds none
	Share float64 `json:"share"` // of the rows, in (0, 1)
}

// Holdout is the separate sample that training never sees.
type Holdout struct {
	Fraction float64 `json:"fraction"` // of events, in [0, 0.5]
	// categorical field whose entities are held out whole; empty holds out single events
	By       string   `json:"by"`
	HalfLife Duration `json:"half_life"` // at most the sample's; 0 is the sample's
	Size     int      `json:"size"`      // rows; 0 is fraction of sample.size
	// share of the entities that refits hold out whole for the gate, in [0, 0.2]
	Entities float64 `json:"entities,omitempty"`
}

// Train says when and how the model is fitted.
type Train struct {
	// longest time between refits while there are new events; 0 for none
	Every       Duration `json:"every"`
	EveryEvents int      `json:"every_events"` // events between refits; 0 for none
	// events before the first refit, after which come as many as before, up to EveryEvents; 0 is EveryEvents
	FirstEvents int      `json:"first_events,omitempty"`
	TimeBudget  Duration `json:"time_budget"`                 // of one refit; 0 for none
	MaxBasis    int      `json:"max_basis"`                   // k, largest number of basis vectors
	Variational Vectors  `json:"variational_basis,omitempty"` // auto, or how many of them the variational refit uses
	NewBasis    int      `json:"new_basis"`                   // basis vectors added per refit to a model that has some
	MaxFeatures int      `json:"max_features"`                // largest vocabulary, by count in the sample
	Loss        string   `json:"loss"`                        // auto, or one of Losses for the task
	Kernel      string   `json:"kernel"`                      // auto, anova, homogeneous
	// a constant feature: gives a homogeneous kernel linear terms and a bias
	Augment Switch `json:"augment"`
	Penalty string `json:"penalty"` // l1, l1l2, l1linf
	Lambda  Lambda `json:"lambda"`  // auto, or the strength per 10,000 rows of weight
	Linear  Linear `json:"linear"`  // ridge:STRENGTH or none
	Refit   string `json:"refit"`   // auto, output, full, line_search, variational
	Solver  string `json:"solver"`  // hybrid, fista, stochastic, svrg, newton
	Sweeps  int    `json:"sweeps"`  // variational sweeps per refit
	Seed    uint64 `json:"seed"`
	Threads int    `json:"threads"` // 0 is GOMAXPROCS; results do not depend on it
	FoldIn  FoldIn `json:"fold_in"`
	// auto, learn_all, or how much learning may be left before a model that is behind learns from a share of the events
	CatchUp CatchUp `json:"catch_up"`
	Cap     Cap     `json:"cap,omitzero"` // of what an entity counts in what is learned from event to event

	// auto, none, fourier:N, bins:N: further columns of the numeric fields
	FeatureMap FeatureMap `json:"feature_map,omitempty"`

	Algorithm string  `json:"algorithm,omitempty"` // one of Algorithms: what refits find their model by
	Degree    int     `json:"degree,omitempty"`    // 2 or 3: most features in a product
	TopK      TopK    `json:"top_k,omitempty"`     // auto, or how many margins a loss of the best k looks at
	Cost      string  `json:"cost,omitempty"`      // CSV file with what it costs to take one class for another
	Moreau    float64 `json:"moreau,omitempty"`    // smoothing of a loss of margins; 0 for none
	Features  string  `json:"features,omitempty"`  // raw or basis: what a support vector machine is learned over

	// Costs is what the file Cost has, a row for each class.
	Costs [][]float64 `json:"costs,omitempty" yaml:"-"`
}

// FoldIn learns from single events between refits.
type FoldIn struct {
	Enabled bool `json:"enabled"`
	// categorical fields whose entities forget a little at each of their events; losses are kept by the first
	By      []string `json:"by"`
	MaxRows int      `json:"max_rows"` // entities kept, least recently seen goes first
}

// Evaluate says how progressive losses are kept.
type Evaluate struct {
	Window     int    `json:"window"`      // events
	BaselineBy string `json:"baseline_by"` // categorical field of the item_mean baseline; empty is the second one
}

// Publish says where versions go and which of them consumers get.
type Publish struct {
	Store       string      `json:"store"`        // a directory, or a bucket, as objects.Open takes it
	UpdateEvery Duration    `json:"update_every"` // time between versions of kind update; 0 for none
	Deltas      Deltas      `json:"deltas,omitzero"`
	Vectors     VectorTable `json:"vectors,omitzero"`
	Keep        int         `json:"keep"`     // refits kept, and as many updates; those with an alias always are
	KeepFor     Duration    `json:"keep_for"` // versions created longer ago go too; 0 for no limit

	// ECDSA P-256 key in PEM that also signs versions by OpenSSF Model Signing; empty: none
	OMSKeyFile string `json:"oms_key_file,omitempty"`
	// Ed25519 key in PEM that signs versions and aliases; empty leaves them unsigned
	SigningKeyFile string `json:"signing_key_file"`
	// files of public keys whose signatures in the store are accepted, too
	TrustedKeys  []string `json:"trusted_keys,omitempty"`
	RenewEvery   Duration `json:"renew_every,omitempty"` // time between two confirmations of the champion
	ExpiresAfter Duration `json:"expires_after"`         // consumers refuse a version that is older; 0 for never
	// keep the sample of each refit with its version, so that it can be reproduced
	KeepSample bool `json:"keep_sample"`
	Gate       Gate `json:"gate"`
	// compacted topic that announces each champion to consumers; empty for none
	Topic     string `json:"topic"`
	InlineMax Size   `json:"inline_max"`        // largest version whose files travel in the topic, too; 0 for none
	Tensors   string `json:"tensors,omitempty"` // f64, or f32 for files of half the size, whose parameters are rounded

	// Objects is the bucket of Store, which is then its working copy; empty for a directory. It is no key.
	Objects string `json:"-" yaml:"-"`
}

// Deltas are what consumers get between updates.
type Deltas struct {
	Every    Duration `json:"every"`           // time between deltas; 0 for none
	MaxRows  int      `json:"max_rows"`        // of one delta; the others come with the next
	MaxBytes Size     `json:"max_bytes"`       // of the deltas of a chain, after which a whole version comes
	Topic    string   `json:"topic,omitempty"` // compacted topic that has them, too; empty for none
}

const tensorsF64 = "f64"

// defaultCap is Train.Cap.Share unless it is said.
const defaultCap = 0.01

// defaultEntities is Holdout.Entities unless it is said.
const defaultEntities = 0.02

// Gate decides whether a new version replaces the champion.
type Gate struct {
	Tolerance float64 `json:"tolerance"` // relative loss by which the challenger may be worse
	MinRows   int     `json:"min_rows"`  // gate rows from which they judge without the select rows
}

// DefaultModel returns a model with every key at its default. Name, topics, label and features have none.
func DefaultModel() Model {
	return Model{
		Input: Input{Format: "json", Start: "earliest", OnGap: "halt",
			MaxEventBytes: 64 << 10, MaxIDBytes: 256, MaxListNames: event.DefaultLimits().MaxMulti, MaxFutureSkew: Duration(
				defaultMaxFutureSkew),
			Mapping: Mapping{When: []string{}, Fields: []MappedField{}}, DeadLetter: DeadLetter{MaxRows: 10_000}},
		Schema: Schema{TimeUnit: "ms"},
		Sample: Sample{Size: 200_000, Holdout: Holdout{Fraction: 0.1, Entities: defaultEntities}},
		Train: Train{
			Every: Duration(30 * time.Second), EveryEvents: 0, TimeBudget: Duration(5 * time.Minute),
			MaxBasis: 20, NewBasis: 4, MaxFeatures: 200_000,
			Loss: Auto, Kernel: Auto, Augment: Switch(Auto), Penalty: "l1linf", Lambda: 0, Linear: 0.5,
			FeatureMap: Auto, Refit: Auto, Solver: "hybrid", Sweeps: 4, Seed: 1, Algorithm: ConditionalGradient, Degree: 2,
			Features: RawFeatures,
			FoldIn:   FoldIn{Enabled: true, MaxRows: 20_000}, Cap: Cap{Share: defaultCap}, CatchUp: AutoCatchUp,
		},
		Evaluate: Evaluate{Window: 20_000},
		Publish: Publish{
			Store:       "snapshots",
			UpdateEvery: Duration(10 * time.Second),
			RenewEvery:  Duration(5 * time.Minute),
			Keep:        20,
			Tensors:     tensorsF64,
			Deltas:      Deltas{MaxRows: 100_000, MaxBytes: 256 << 20},
			Gate:        Gate{Tolerance: 0.002, MinRows: 200},
		},
		Serve: Serve{MaxEvents: 1000, MaxItems: 1000},
		Score: Score{Start: "earliest", Transactions: Auto},
		Shard: Shard{Role: RoleAll},
	}
}

// Resolve replaces the automatic settings by what they stand for: loss, kernel, augment and refit by task and features,
// the held-out size and half-life by the sample's, the baseline and fold-in fields by the first categorical ones.
// Lambda and a nil seed stay.
func (m *Model) Resolve() {
	m.resolveImplicit()
	maps.DeleteFunc(m.Schema.ListWeights, func(name, weight string) bool { // as before there was a choice
		return weight == format.WeightMean && slices.Contains(m.Schema.Multi, name)
	})
	t := &m.Train
	a := t.algorithmOf()
	if a == nil {
		a = algorithms[0]
	}
	if losses := a.lossesOf(m.Schema.Learned()); t.Loss == Auto && len(losses) > 0 {
		t.Loss = losses[0]
	}
	if t.Kernel == Auto {
		t.Kernel = m.ownKernel()
	}
	if t.Augment == Switch(Auto) {
		t.Augment = t.ownAugment()
	}
	if t.Refit == Auto {
		t.Refit = a.refits[0]
		if m.variationalPossible() && slices.Contains(a.refits, "variational") {
			t.Refit = "variational"
		}
	}
	if t.FeatureMap.IsAuto() && (len(m.Schema.Numeric) == 0 || t.ConvexAlone()) {
		t.FeatureMap = ""
	}
	m.resolveSample()
	if c := m.Schema.Categorical; len(c) > 0 {
		if m.Evaluate.BaselineBy == "" {
			m.Evaluate.BaselineBy = m.Schema.ownBaseline()
		}
		if len(t.FoldIn.By) == 0 {
			t.FoldIn.By = slices.Clone(c)
		}
		if t.Cap.Share > 0 && t.Cap.By == "" {
			t.Cap.By = cmp.Or(m.Sample.Cap.By, t.FoldIn.By[0])
		}
	} else if t.Cap.By == "" {
		t.Cap.Share = 0 // there is nothing to count by
	}
}

// resolveSample takes the memory of the sample from its size, and size and half-life of the held-out rows from it.
func (m *Model) resolveSample() {
	if m.Sample.MaxBytes == 0 {
		m.Sample.MaxBytes = Size(m.Sample.Size) * m.OrdinaryRow()
	}
	h := &m.Sample.Holdout
	if h.Size == 0 && h.Fraction > 0 {
		h.Size = max(2, int(math.Ceil(h.Fraction*float64(m.Sample.Size)))) // one to choose on, one for the gate
	}
	if h.HalfLife == 0 {
		h.HalfLife = m.Sample.HalfLife
	}
}

// ownAugment returns what train.augment: auto means: products without a bias need a feature that is always 1.
func (t *Train) ownAugment() Switch {
	products := t.Algorithm != FrankWolfeSVM || t.Features == BasisFeatures // else it has a bias and no products
	if t.Kernel == "homogeneous" && products {
		return Switch("true")
	}
	return Switch("false")
}

// ownBaseline returns the field of the baseline where the configuration names none: the second categorical one that
// events have, or the only one.
func (s *Schema) ownBaseline() string {
	given, _ := s.GivenFields()
	if len(given) == 0 {
		given = s.Categorical
	}
	return given[min(1, len(given)-1)]
}

// ownKernel returns what train.kernel: auto means: that of factorization machines for one-hot data, of polynomial
// networks for dense numbers (Blondel et al. 2017, section 6).
func (m *Model) ownKernel() string {
	if len(m.Schema.Categorical)+len(m.Schema.Multi) > 0 {
		return solver.ANOVA.String()
	}
	return solver.Homogeneous.String()
}

// OrdinaryRow returns the memory of a row, rather more than less, whose names have up to 24 bytes and whose lists have
// up to 8. Where every single row has to keep below it (RowLimit) there is room for four times as much.
func (m *Model) OrdinaryRow() Size {
	s := &m.Schema
	row := Size(704 + 288*(len(s.Categorical)+len(s.Cross)) + 8*288*len(s.Multi) + 32*len(s.Numeric))
	if m.limitsRows() {
		row *= 4
	}
	return row
}

// limitsRows reports whether each row is limited, rather than all of them together: where a newer event takes the place
// of another, what fits depends on which came first.
func (m *Model) limitsRows() bool { return m.Schema.Identity != "" || m.Sample.Cap.By != "" }

// RowLimit returns the memory that one row may take, 0 if it is for the others to make room.
func (m *Model) RowLimit() Size {
	if !m.limitsRows() {
		return 0
	}
	return m.Sample.MaxBytes / Size(max(1, m.Sample.Size))
}

// variationalPossible reports whether the variational refit applies, which is to multilinear models.
func (m *Model) variationalPossible() bool { return m.Train.Kernel == "anova" }

// Outputs returns m, the number of outputs of the model, or 0 if it is not known before the labels are seen (classes
// not listed).
func (s *Schema) Outputs() int {
	switch task := s.Learned(); {
	case task == event.Ordinal:
		return s.Levels - 1
	case task.HasClasses():
		return len(s.Classes)
	}
	return 1
}

// LabelName returns a name that a decoder reads as a binary label of a schema with Positive.
func (s *Schema) LabelName(label float64) string {
	if label == 1 {
		return s.Positive
	}
	return cmp.Or(s.Negative, "not "+s.Positive)
}

// Names returns the categorical fields, crosses last.
func (s *Schema) Names() []string {
	names := slices.Clip(s.Categorical)
	for _, parts := range s.Cross {
		names = append(names, event.CrossName(parts...))
	}
	return names
}

// multiWeights returns the weights of the fields of Multi, nil if they are those of schemas without any.
func (s *Schema) multiWeights() (weights []string) {
	if len(s.ListWeights) == 0 {
		return nil
	}
	for _, name := range s.Multi {
		weights = append(weights, cmp.Or(s.ListWeights[name], format.WeightMean))
	}
	return weights
}

// Event returns the schema in the decoder's terms.
func (s *Schema) Event() event.Schema {
	var crosses []event.Cross
	for _, parts := range s.Cross {
		var cross event.Cross
		for _, name := range parts {
			cross = append(cross, slices.Index(s.Categorical, name))
		}
		crosses = append(crosses, cross)
	}
	label := s.Label
	if s.LabelLater {
		label = ""
	}
	return event.Schema{
		Task: s.Learned(), Choices: s.Task == Implicit, Label: label, Levels: s.Levels, Classes: s.Classes,
		Positive: s.Positive, Negative: s.Negative,
		LabelMin: s.LabelMin, LabelMax: s.LabelMax,
		Time: s.Time, TimeUnit: s.TimeUnit, Weight: s.Weight, Identity: s.Identity,
		Categorical: s.Names(), Numeric: s.Numeric, Multi: s.Multi, MultiWeights: s.multiWeights(), Optional: s.Optional,
		Cross: crosses, Of: s.Of,
		Derived: s.derivedFields(), Joined: s.joinedFields(), Kinds: s.kinds(), Vectors: s.eventVectors(),
	}
}

func (s *Schema) eventVectors() (out []event.Vector) {
	for _, v := range s.vectors {
		out = append(out, event.Vector(v))
	}
	return out
}

// Hash returns the digest of everything the model's versions depend on: the resolved model without when it is trained
// and published, what is kept of it, the places it is published to, where its scores are written, the limits of
// requests for it and its threads, which change no result. It has the form sha256:<hex>.
func (m *Model) Hash() string {
	c := *m
	c.Train.Every, c.Train.EveryEvents, c.Train.FirstEvents, c.Train.TimeBudget = 0, 0, 0, 0
	c.Publish.UpdateEvery, c.Publish.Keep, c.Publish.KeepFor, c.Publish.ExpiresAfter, c.Publish.Gate = 0, 0, 0, 0, Gate{}
	return c.hashWithSchedule()
}

// MadeFor reports whether a version with that hash was made for the settings of the model: by its Hash, or by the one
// of builds that counted when it is trained and published, too.
func (m *Model) MadeFor(hash string) bool { return hash == m.Hash() || hash == m.hashWithSchedule() }

func (m *Model) hashWithSchedule() string {
	c := *m
	c.Publish.Store, c.Publish.SigningKeyFile, c.Publish.KeepSample, c.Train.Threads = "", "", false, 0
	c.Publish.OMSKeyFile, c.Publish.TrustedKeys, c.Publish.RenewEvery = "", nil, 0
	c.Publish.Topic, c.Publish.InlineMax, c.Publish.Deltas, c.Serve, c.Score, c.Notify = "", 0, Deltas{}, Serve{}, Score{},
		Notify{}
	c.Publish.Vectors = VectorTable{}
	c.Train.Cap = Cap{} // which changes no row, and nothing that a refit continues from
	if c.Publish.Tensors == tensorsF64 {
		c.Publish.Tensors = "" // as before there was a choice
	}
	if c.Train.FeatureMap.IsAuto() {
		c.Train.FeatureMap = "" // as well
	}
	if c.Train.Algorithm == ConditionalGradient {
		c.Train.Algorithm = "" // as well
	}
	if c.Train.Features == RawFeatures {
		c.Train.Features = "" // as well
	}
	if c.Train.Degree == 2 {
		c.Train.Degree = 0 // as well
	}
	if c.Train.Cost = ""; c.Train.TopK == scalar.UsualTopK { // what the file says counts; auto was this number
		c.Train.TopK = 0
	}
	switch h := &c.Sample.Holdout; h.Entities {
	case defaultEntities:
		h.Entities = 0 // as well
	case 0:
		h.Entities = -1
	}
	return hashOf(c)
}

// SampleHash returns the digest of what the state directory depends on: name, input, schema and sample. A state written
// under another one must not be continued. Where rejected records go is no part of it.
func (m *Model) SampleHash() string {
	in := m.Input
	in.DeadLetter, in.Negatives = DeadLetter{}, Negatives{}
	in.SchemaFile = ""                             // what it has counts
	in.Outcomes.Window, in.Outcomes.Default = 0, 0 // which change no row
	if in.Outcomes.Reward != RewardLast {          // as long as it is not this one, as little
		in.Outcomes.Reward = ""
	}
	schema := m.Schema
	schema.Of, schema.ListWeights = nil, nil // which change no row
	sample := m.Sample
	sample.Holdout.Entities = 0 // nor does this
	return hashOf(Model{Name: m.Name, Input: in, Schema: schema, Tables: m.Tables, Sample: sample})
}

// Hash returns the digest of all models, in the form sha256:<hex>. Brokers, paths and secrets are not part of it.
func (c *Config) Hash() string {
	if len(c.Models) == 1 {
		return c.Models[0].Hash()
	}
	hashes := make([]string, len(c.Models))
	for i := range c.Models {
		hashes[i] = c.Models[i].Hash()
	}
	return hashOf(hashes)
}

// hashOf digests the JSON form of v: field order is fixed by the types and numbers are written shortest.
func hashOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(
			"config: model is not representable as JSON: " + err.Error(),
		) // validation rejects the only cause, a number that is not finite
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
