package format

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Input is an event in the order of the schema's fields. A nil slice means that all its fields are missing. What is
// missing contributes nothing; Predict, Explain and TopK refuse an event that lacks a field which is not optional
// (Schema.Optional), Score does not look.
type Input struct {
	Categorical []string  // "" is missing
	Numeric     []float64 // not finite is missing
	// order within a list does not matter, but its length does, and so may repetitions: see MultiValue. An empty list
	// is not missing
	Multi [][]string
}

// Check returns an error unless every slice is nil or as long as the schema's.
func (in *Input) Check(s *Schema) error {
	categorical, numeric, multi := len(in.Categorical), len(in.Numeric), len(in.Multi)
	switch {
	case categorical != len(s.Categorical) && in.Categorical != nil:
		return fmt.Errorf("%w: %d categorical fields, the schema has %d", disk.ErrInput, categorical, len(s.Categorical))
	case numeric != len(s.Numeric) && in.Numeric != nil:
		return fmt.Errorf("%w: %d numeric fields, the schema has %d", disk.ErrInput, numeric, len(s.Numeric))
	case multi != len(s.Multi) && in.Multi != nil:
		return fmt.Errorf("%w: %d multi fields, the schema has %d", disk.ErrInput, multi, len(s.Multi))
	}
	return nil
}

// missing returns the names of the fields that an event lacks, in the order of the schema.
func (in *Input) missing(s *Schema) (fields []string) {
	for f, name := range s.Categorical {
		if in.Categorical == nil || in.Categorical[f] == "" {
			fields = append(fields, name)
		}
	}
	for f := range s.Numeric {
		if in.Numeric == nil || !IsFinite(in.Numeric[f]) {
			fields = append(fields, s.Numeric[f].Name)
		}
	}
	if in.Multi == nil {
		fields = append(fields, s.Multi...)
	}
	return fields
}

// Absent is missing, with the optional lists that are empty.
func (in *Input) Absent(s *Schema) []string {
	fields := in.missing(s)
	for f := range in.Multi {
		if len(in.Multi[f]) == 0 && slices.Contains(s.Optional, s.Multi[f]) {
			fields = append(fields, s.Multi[f])
		}
	}
	return fields
}

// Complete returns an error that names a field which is not optional and which an event lacks. but is a field that it
// may lack.
func (in *Input) Complete(s *Schema, but string) error {
	if s.Optional == nil {
		return nil
	}
	for _, name := range in.missing(s) {
		if name != but && !s.IsOptional(name) {
			return MissingField(name)
		}
	}
	return nil
}

func MissingField(name string) error {
	return fmt.Errorf("%w: missing_field: the event has no field %q", disk.ErrInput, name)
}

// InputFromMap reads an event given as names and values, as encoding/json decodes it: names for categorical fields,
// numbers (of any of Go's kinds, or json.Number) for numeric ones, lists of names for multi fields. A name is a string
// or a whole number, which means its decimal text; of float64 those below 2^53 do. Fields that are absent or nil are
// missing; fields outside the schema are ignored. It returns ErrInput with the name of a field of another kind, or of
// one that is missing and not optional.
func (s *Schema) InputFromMap(event map[string]any) (Input, error) {
	in, err := s.InputOf(event)
	if err == nil {
		err = in.Complete(s, "")
	}
	for _, name := range s.Multi {
		if err == nil && event[name] == nil && !s.IsOptional(name) {
			err = MissingField(name)
		}
	}
	if err != nil {
		return Input{}, fmt.Errorf("snapshot: %w", err)
	}
	return in, nil
}

func (s *Schema) InputOf(event map[string]any) (Input, error) {
	in := Input{
		Categorical: make([]string, len(s.Categorical)),
		Numeric:     make([]float64, len(s.Numeric)),
		Multi:       make([][]string, len(s.Multi)),
	}
	for f, name := range s.Categorical {
		v := event[name]
		if v == nil {
			continue
		}
		text, ok := NameOf(v)
		if !ok {
			return in, fmt.Errorf("%w: field %q is categorical and takes a string or a whole number, not %T",
				disk.ErrInput, name, v)
		}
		in.Categorical[f] = text
	}
	for f, field := range s.Numeric {
		v, err := NumberOf(event[field.Name])
		if err != nil {
			return in, fmt.Errorf("%w: field %q is numeric and takes %w", disk.ErrInput, field.Name, err)
		}
		in.Numeric[f] = v
	}
	for f, name := range s.Multi {
		list, err := NamesOf(event[name])
		if err != nil {
			return in, fmt.Errorf("%w: field %q takes %w", disk.ErrInput, name, err)
		}
		in.Multi[f] = list
	}
	return in, nil
}

// maxWhole is where float64 begins to lack whole numbers: encoding/json reads one from there on as another, but for
// json.Number.
const maxWhole = 1 << 53

// NameOf returns the name that a value is: a string, or a whole number, which means its decimal text, as in events of a
// topic.
func NameOf(value any) (name string, ok bool) {
	if n, ok := value.(json.Number); ok {
		name = n.String()
		if name == "-0" {
			name = "0"
		}
		return name, !strings.ContainsAny(name, ".eE")
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), true
	case reflect.Float32, reflect.Float64:
		x := v.Float()
		return strconv.FormatInt(int64(x), 10), x == math.Trunc(x) && math.Abs(x) < maxWhole
	}
	return "", false
}

// NamesOf returns the names that a list has; nil has none. The error says what was expected.
func NamesOf(value any) (names []string, err error) {
	if value == nil {
		return nil, nil
	}
	if list, ok := value.([]string); ok {
		return slices.Clone(list), nil
	}
	list := reflect.ValueOf(value)
	if _, isBytes := value.([]byte); isBytes || list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, fmt.Errorf("a list of strings or whole numbers, not %T", value)
	}
	for i := range list.Len() {
		v := list.Index(i).Interface()
		name, ok := NameOf(v)
		if !ok {
			return nil, fmt.Errorf("a list of strings or whole numbers, not of %T", v)
		}
		names = append(names, name)
	}
	return names, nil
}

// NumberOf converts a value; nil is NaN, which means missing.
func NumberOf(value any) (float64, error) {
	var x float64
	switch v := value.(type) {
	case nil:
		return math.NaN(), nil
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return 0, fmt.Errorf("a number, not %q", v.String())
		}
		x = f
	default:
		kind := reflect.ValueOf(v)
		if !kind.CanConvert(reflect.TypeFor[float64]()) {
			return 0, fmt.Errorf("a number, not %T", v)
		}
		x = kind.Convert(reflect.TypeFor[float64]()).Float()
	}
	if !IsFinite(x) {
		return 0, fmt.Errorf("a finite number, not %g", x)
	}
	return x, nil
}

// ToMap is the inverse of InputFromMap; missing fields are left out.
func (s *Schema) ToMap(in *Input) map[string]any {
	event := make(map[string]any)
	for f, name := range in.Categorical {
		if name != "" {
			event[s.Categorical[f]] = name
		}
	}
	for f, v := range in.Numeric {
		if IsFinite(v) {
			event[s.Numeric[f].Name] = v
		}
	}
	for f, names := range in.Multi {
		if len(names) > 0 || !s.IsOptional(s.Multi[f]) {
			event[s.Multi[f]] = append([]string{}, names...)
		}
	}
	return event
}

// LabelledEvent is an event with its label, as the topic had it.
type LabelledEvent struct {
	Input
	Label   float64  // of regression, ordinal and binary labels; NaN is none
	Classes []string // of multiclass and multilabel ones
	Weight  float64  // how much it counts; 0 is 1
	Held    bool     // the version has learned from it: it is not behind the version's cut
}

// LabelledFromMap reads a labelled event as InputFromMap reads one without label, the label from the field that the
// schema names. It returns ErrInput, too, where the label is missing or of another kind than the task's. A binary label
// that has names is one of them, or 0 or 1.
func (s *Schema) LabelledFromMap(event map[string]any) (LabelledEvent, error) {
	in, err := s.InputFromMap(event)
	if err != nil {
		return LabelledEvent{}, err
	}
	e := LabelledEvent{Input: in}
	value := event[s.Label]
	if s.Task == Multiclass || s.Task == Multilabel {
		if value == nil {
			return LabelledEvent{}, fmt.Errorf("snapshot: %w: missing_label: the event has no %q", disk.ErrInput, s.Label)
		}
		if name, ok := NameOf(value); ok {
			e.Classes = []string{name}
		} else if e.Classes, err = NamesOf(value); err != nil {
			return LabelledEvent{}, fmt.Errorf("snapshot: %w: label %q takes names: %w", disk.ErrInput, s.Label, err)
		}
		return e, nil
	}
	if value == nil {
		return LabelledEvent{}, fmt.Errorf("snapshot: %w: missing_label: the event has no %q", disk.ErrInput, s.Label)
	}
	if name, ok := NameOf(value); ok && s.LabelNames() != nil {
		_, isText := value.(string)
		switch {
		case name == s.Positive:
			e.Label = 1
			return e, nil
		case name == s.Negative || isText && s.Negative == "":
			return e, nil
		case isText:
			return LabelledEvent{}, fmt.Errorf("snapshot: %w: label %q is %q, want %q or %q", disk.ErrInput, s.Label,
				name, s.Positive, s.Negative)
		}
	}
	if e.Label, err = NumberOf(value); err != nil {
		return LabelledEvent{}, fmt.Errorf("snapshot: %w: label %q takes %w", disk.ErrInput, s.Label, err)
	}
	return e, nil
}

// Query asks for the names of a categorical field that are predicted best given the rest of an event: for a user, the
// items.
type Query struct {
	Input   Input
	Over    string   // categorical field whose names are ranked; what Input has there does not matter
	K       int      // names wanted, at least 1; fewer are returned if there are not as many
	Exclude []string // names not to return; those that the vocabulary does not have are ignored
	Class   string   // of a multiclass or multilabel model: the class to rank by

	// Where has conditions on what tables of the version say of the names; names for which one does not hold are not
	// ranked, and cost nothing where a condition asks for names.
	Where []Condition
}

// Condition is one on a column of a table. A name without a value there does not fulfil it.
type Condition struct {
	Field string   // a column
	Any   []string // of names: the value, or one of the list, is one of these; nil asks for a number
	Min   *float64 // of a number: at least; nil is any
	Max   *float64 // at most
}

// maxAny bounds the names of a condition.
const maxAny = 1000

// Validate returns ErrInput for a condition that cannot be asked for.
func (w *Condition) Validate() error {
	finite := func(v *float64) bool { return v == nil || IsFinite(*v) }
	if w.Any != nil && (w.Min != nil || w.Max != nil) || len(w.Any) > maxAny || !finite(w.Min) || !finite(w.Max) ||
		w.Any == nil && w.Min == nil && w.Max == nil {
		return fmt.Errorf("%w: where: %q: want at most %d names, or finite min and max", disk.ErrInput, w.Field, maxAny)
	}
	return nil
}

// Item is a name of a ranking.
type Item struct {
	Name string
	// Value is what is ranked by: the prediction of a regression or of an ordinal label, the probability of 1 of a
	// binary one, that of Query.Class otherwise. Where the link has no probabilities it is the output. It has
	// what CoChoices add.
	Value float64
}
