// Package event holds labelled events and decodes them from the values of records. It knows no Kafka, no models and no
// storage.
//
// A [Decoder] turns a value into an [Event], or says by a [Rejection] why it is none: [JSON], and [Mapped] for other
// places and formats.
package event

import "math"

// Task is what a model predicts.
type Task string

// The tasks of a schema. The label of an ordinal event is its level, 1..Levels; of a binary one 0 or 1.
const (
	Regression Task = "regression"
	Binary     Task = "binary"
	Multiclass Task = "multiclass"
	Multilabel Task = "multilabel"
	Ordinal    Task = "ordinal"
)

// Tasks are all of them.
var Tasks = []Task{Regression, Binary, Multiclass, Multilabel, Ordinal}

// HasClasses reports whether labels are names of classes, each of which is an output of the model.
func (t Task) HasClasses() bool { return t == Multiclass || t == Multilabel }

// IsNumeric reports whether predictions are numbers on the scale of the label, rather than classes.
func (t Task) IsNumeric() bool { return t == Regression || t == Ordinal }

// Schema says which fields of a JSON event mean what. Fields it does not name are ignored.
type Schema struct {
	Task   Task
	Label  string
	Levels int // ordinal: 2 or more
	// multiclass and multilabel: the allowed classes; empty accepts any, for files whose classes are not known yet
	Classes  []string
	Positive string // binary: the name of label 1 where labels are names; empty takes 0, 1, false and true
	Negative string // binary: the one name of label 0; empty takes any other than Positive
	// binary: every event is a choice, whose label is 1; Label, if not empty, names what kind of one it is
	Choices     bool
	LabelMin    float64 // regression: smallest and largest label accepted; both 0 accepts any number within ±MaxLabel
	LabelMax    float64
	Time        string   // field with the event time; empty uses the record's own time stamp
	TimeUnit    string   // s, ms, us or ns
	Weight      string   // optional field with a positive weight
	Identity    string   // optional field that identifies the event among duplicates
	Categorical []string // the names of the crosses come last
	Numeric     []string
	Multi       []string
	Vectors     []Vector // of tables alone
	// MultiWeights has for each of Multi what the names of a list count: see snapshot.Schema. Nil is the same for all,
	// 1/n.
	MultiWeights []string
	Optional     []string // those of the three that an event may lack
	Cross        []Cross  // the last of the categorical fields, which values do not have: see Cross
	// Derived are fields among Categorical and Multi, all of them optional, that a decoder does not read: Derive
	// fills them. A caller that takes them from values, as scoring does, leaves Derived empty.
	Derived []Derived

	// Joined are fields that a decoder does not read, either, all of them optional: they are looked up in tables of
	// entities when the event is learned from or scored. A caller that takes them from values leaves Joined empty.
	Joined []Joined

	// Flags lets true and false be names, of categorical fields and of elements of lists.
	Flags bool

	// Kinds has the weights of choices by what Label says of them, at least 0 and at most MaxKindWeight: events of
	// weight 0 are filtered.
	Kinds map[string]float64

	// Of has, by name of a field, the categorical field that it is said to be a function of; others may be, too.
	Of map[string]string
}

// MaxKindWeight is the largest weight of a kind of choices.
const MaxKindWeight = 1000

// MaxLabel is the largest magnitude of a label: a refit adds up squares of errors, and what is far above all other
// labels leaves them nothing.
const MaxLabel = 1e9

// AcceptsLabel reports whether a number may be the label of a regression, ordinal or binary event.
func (s *Schema) AcceptsLabel(v float64) bool {
	switch s.Task {
	case Binary:
		return v == 0 || v == 1
	case Ordinal:
		return v >= 1 && v <= float64(s.Levels) && v == math.Trunc(v)
	}
	return math.Abs(v) <= MaxLabel && (s.LabelMin == 0 && s.LabelMax == 0 || v >= s.LabelMin && v <= s.LabelMax)
}

// NamedLabel returns the label of a name. ok is false if the name is not Positive, and Negative is set to another
// name.
func (s *Schema) NamedLabel(name string) (label float64, ok bool) {
	if name == s.Positive {
		return 1, true
	}
	return 0, s.Negative == "" || name == s.Negative
}

// Event is one decoded event. Its slices are in the order of the schema's lists and belong to the caller of Decode
// until the next call. Of an optional field that it lacks it has "", NaN or an empty list, which contribute nothing.
type Event struct {
	Label       float64  // regression, ordinal, binary
	Classes     []string // multiclass: exactly one; multilabel: any number, no duplicates
	Time        int64    // milliseconds since 1970, UTC
	Weight      float64  // 1 when the schema names no weight
	Identity    string
	Categorical []string
	Numeric     []float64
	Multi       [][]string
}

// A Decoder turns values into events of one schema. It is not safe for concurrent use.
type Decoder interface {
	// Decode stores the event of value in ev and returns nil, or returns why value is none; ev is then undefined.
	// recordTime is the time stamp of the record in milliseconds, negative if it has none. ev's slices are reused; its
	// strings do not alias value.
	Decode(ev *Event, value []byte, recordTime int64) *Rejection
}
