package format

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// CrossSign joins the names of the fields of a cross, and the names that an event has in them.
const CrossSign = "×"

// CrossName returns the name of the cross of fields, and the name of an event there: of user and item it is user×item,
// with names such as u1×i2.
// Names are joined and nothing else, so that other readers can do the same.
func CrossName(parts ...string) string { return strings.Join(parts, CrossSign) }

func (s *Schema) validateCrosses() error {
	for i, parts := range s.Cross {
		if len(parts) < 2 {
			return fmt.Errorf("schema.cross[%d] %q: a cross has at least two fields", i, parts)
		}
		for _, field := range parts {
			if !slices.Contains(s.Categorical, field) {
				return fmt.Errorf("schema.cross[%d]: %q is not a categorical field of the schema", i, field)
			}
		}
		if err := distinct(fmt.Sprintf("schema.cross[%d]", i), parts); err != nil {
			return err
		}
	}
	return nil
}

// The tasks of a schema.
const (
	Regression = "regression"
	Binary     = "binary"
	Multiclass = "multiclass"
	Multilabel = "multilabel"
	Ordinal    = "ordinal"
)

// Schema names the fields of an event, what is predicted, and how fields become columns. Columns are numbered in this
// order: the names of each categorical field, those of each cross, the names of each multi field, one column per
// numeric field, and one constant column if Augment is set.
type Schema struct {
	Task    string   `json:"task"`              // regression, binary, multiclass, multilabel or ordinal
	Label   string   `json:"label"`             // field that is predicted
	Levels  int      `json:"levels,omitempty"`  // L of an ordinal label 1..L, at least 2
	Classes []string `json:"classes,omitempty"` // of multiclass and multilabel, in the order of the outputs
	// of a binary label that is a name: the one that counts as 1; empty for 0 and 1
	Positive string `json:"positive,omitempty"`
	Negative string `json:"negative,omitempty"` // the other one; empty for any
	// range of a numeric label, for rmse and mae; LabelMin ≥ LabelMax for none
	LabelMin    float64  `json:"label_min"`
	LabelMax    float64  `json:"label_max"`
	Categorical []string `json:"categorical,omitempty"` // fields with one name: value 1 in the column of the name
	Multi       []string `json:"multi,omitempty"`       // fields with a list of names: MultiValue in the column of each

	// MultiWeights has WeightMean or WeightSqrt for each of Multi; nil is WeightMean for all. What has some is of
	// format 6.
	MultiWeights []string `json:"multi_weights,omitempty"`

	Numeric []NumericField `json:"numeric,omitempty"`
	Augment bool           `json:"augment,omitempty"` // a last column that is always 1

	// Cross lists sets of categorical fields. An event that has all of a set has one more name, CrossName of what it
	// has there, in a field whose own name is CrossName of theirs; events do not give it. What has crosses is of format
	// 4.
	Cross [][]string `json:"cross,omitempty"`

	// Optional names those of the fields that an event may lack: such a field then contributes nothing. An event that
	// lacks another one is refused with ErrInput. Nil, as in versions written before there was a choice, lets an event
	// lack any.
	Optional []string `json:"optional,omitzero"`

	FeatureMap *FeatureMap `json:"feature_map,omitempty"` // further columns of the numeric fields; nil for none

	// Derived says what the fields are that the trainer did not find in events but made of those before them. They are
	// optional fields like any other: an event is scored by what it has there.
	Derived []Derived `json:"derived,omitempty"`
}

// Derived says how a field of an event follows from earlier events. A caller that scores derives it in the same way,
// or leaves it out.
type Derived struct {
	Name string `json:"name"` // of a categorical field, or of a multi field where it is a list
	// previous_label: the label of the entity's event before, a class, a level, 0 or 1, or the bin of k from LabelMin
	// to LabelMax, from 0. time_bin: hour 0 to 23, weekday 1 to 7 from Monday, day or month of the event's time in UTC.
	// age: whole units since the entity's first event. count: of the entity's events before. Both are in bins: 0, 1,
	// 2-3, 4-7 and on. last: the names in Field of its last k events.
	Kind     string `json:"kind"`
	Of       string `json:"of,omitempty"`    // categorical field whose names are the entities; none for a time_bin
	Field    string `json:"field,omitempty"` // of last
	Unit     string `json:"unit,omitempty"`  // of time_bin and age
	K        int    `json:"k,omitempty"`
	Time     string `json:"time,omitempty"`      // of time_bin and age: the field with the event's time
	TimeUnit string `json:"time_unit,omitempty"` // of Time: s, ms or us
}

// NumericField is a number that becomes (value − Center) / Scale, within ±Clip. Scale is positive.
type NumericField struct {
	Name   string  `json:"name"`
	Center float64 `json:"center"`
	Scale  float64 `json:"scale"`
	Clip   float64 `json:"clip,omitempty"` // 0 for no limit, as in versions of format 1
}

// Scaled returns the value of the field's column for a finite number.
func (f *NumericField) Scaled(v float64) float64 {
	x := (v - f.Center) / f.Scale
	if f.Clip > 0 {
		x = min(max(x, -f.Clip), f.Clip)
	}
	return x
}

// What the names of a list of n count.
const (
	// 1/n, the usual choice for factorization machines (Rendle 2010, section 5.1): a list says the mean of what its
	// names say
	WeightMean = "mean"
	// 1/√n: the squares of a list's values add up to 1, as that of one name, and a name keeps more of its say in a long
	// list
	WeightSqrt = "sqrt"
)

// MultiValue is the value of each of the n different names of a list, unseen ones included, in a multi field of a
// schema with those MultiWeights: 1/n or 1/√n. It is 0 for n < 1. Events are decoded with each name once; where an
// Input repeats a name, the n of schemas without MultiWeights, of formats before 6, counts it each time.
func MultiValue(weights []string, field, n int) float64 {
	switch {
	case n < 1:
		return 0
	case len(weights) > 0 && weights[field] == WeightSqrt:
		return 1 / math.Sqrt(float64(n))
	}
	return 1 / float64(n)
}

// Named returns the fields of the vocabulary in the order of columns: categorical fields, crosses, multi fields. The
// list is a copy.
func (s *Schema) Named() []string {
	names := slices.Clone(s.Categorical)
	for _, parts := range s.Cross {
		names = append(names, CrossName(parts...))
	}
	return append(names, s.Multi...)
}

// LabelNames returns the names that a binary label has, in the order of 0 and 1: Negative, or "not " and Positive where
// any other name counts as 0; nil for labels without names.
func (s *Schema) LabelNames() []string {
	if s.Task != Binary || s.Positive == "" {
		return nil
	}
	return []string{cmp.Or(s.Negative, "not "+s.Positive), s.Positive}
}

// FirstMulti returns how many fields of Named come before the multi ones.
func (s *Schema) FirstMulti() int { return len(s.Categorical) + len(s.Cross) }

// NumExtra returns the number of columns that have no name in the vocabulary.
func (s *Schema) NumExtra() int {
	n := len(s.Numeric)
	if s.Augment {
		n++
	}
	return n
}

// validate says what is wrong; the caller adds ErrContents when writing and ErrFormat when reading.
func (s *Schema) validate() error {
	switch s.Task {
	case Regression, Binary:
	case Ordinal:
		if s.Levels < 2 || s.Levels > maxOutputs {
			return fmt.Errorf("schema.levels is %d, an ordinal label has 2 to %d", s.Levels, maxOutputs)
		}
	case Multiclass, Multilabel:
		if err := distinct("schema.classes", s.Classes); err != nil {
			return err
		}
	default:
		return fmt.Errorf("schema.task %q is not regression, binary, multiclass, multilabel or ordinal", s.Task)
	}
	if !IsFinite(s.LabelMin) || !IsFinite(s.LabelMax) {
		return fmt.Errorf("schema.label_min %g and label_max %g have to be finite", s.LabelMin, s.LabelMax)
	}
	fields := slices.Concat(s.Categorical, s.Multi)
	for _, f := range s.Numeric {
		fields = append(fields, f.Name)
	}
	if err := s.validateScales(); err != nil {
		return err
	}
	for _, name := range s.Optional {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("schema.optional: %q is not a field of the schema", name)
		}
	}
	if s.FeatureMap != nil {
		if err := s.FeatureMap.ValidateShape(len(s.Numeric)); err != nil {
			return err
		}
	}
	if err := s.validateCrosses(); err != nil {
		return err
	}
	for i, d := range s.Derived {
		if !slices.Contains(s.Categorical, d.Name) && !slices.Contains(s.Multi, d.Name) ||
			d.Of != "" && !slices.Contains(s.Categorical, d.Of) {
			return fmt.Errorf("schema.derived[%d] %q of %q: not fields of the schema", i, d.Name, d.Of)
		}
	}
	for _, parts := range s.Cross {
		fields = append(fields, CrossName(parts...))
	}
	return errors.Join(distinct("schema fields", fields), distinct("schema.optional", s.Optional))
}

// validateScales checks how numbers are scaled and lists are weighted.
func (s *Schema) validateScales() error {
	for _, f := range s.Numeric {
		if !IsFinite(f.Center) || !IsFinite(f.Scale) || f.Scale <= 0 {
			return fmt.Errorf("schema.numeric %q: center %g has to be finite and scale %g positive", f.Name, f.Center,
				f.Scale)
		}
		if !IsFinite(f.Clip) || f.Clip < 0 {
			return fmt.Errorf("schema.numeric %q: clip %g has to be finite and not negative", f.Name, f.Clip)
		}
	}
	if len(s.MultiWeights) > 0 && len(s.MultiWeights) != len(s.Multi) {
		return fmt.Errorf("schema.multi_weights: %d of %d multi fields", len(s.MultiWeights), len(s.Multi))
	}
	for i, weight := range s.MultiWeights {
		if weight != WeightMean && weight != WeightSqrt {
			return fmt.Errorf("schema.multi_weights[%d] %q is not %s or %s", i, weight, WeightMean, WeightSqrt)
		}
	}
	return nil
}

// IsOptional reports whether an event may lack a field.
func (s *Schema) IsOptional(field string) bool {
	return s.Optional == nil || slices.Contains(s.Optional, field)
}

// Digested returns the schema as the payload's digest has it: without what changes no score, which fields are optional
// and which derived.
func (s Schema) Digested() Schema {
	s.Optional, s.Derived = nil, nil
	return s
}

// The versions of the format by what they brought.
const (
	formatLimits  = 2 // of numbers
	formatMap     = 3 // of features
	formatCrosses = 4
	formatDegree  = 5 // 3 of the kernel
	formatWeights = 6 // of lists
	formatTrees   = 7
	formatTables  = 8
)

// formatOf returns the version of the format that a schema, a kernel of a degree, trees and tables need.
func formatOf(s *Schema, degree int, trees, tables bool) int {
	switch {
	case tables:
		return formatTables
	case trees:
		return formatTrees
	}
	if degree > quadratic {
		return max(formatDegree, s.format())
	}
	return s.format()
}

// format returns the version of the format that the schema needs: builds that read up to an older one do not know of
// all that it has.
func (s *Schema) format() int {
	if len(s.MultiWeights) > 0 {
		return formatWeights
	}
	if len(s.Cross) > 0 {
		return formatCrosses
	}
	if s.FeatureMap != nil {
		return formatMap
	}
	for _, f := range s.Numeric {
		if f.Clip > 0 {
			return formatLimits
		}
	}
	return 1
}

// distinct refuses empty, repeated and non-UTF-8 names: neither JSON nor a map could distinguish them.
func distinct(what string, names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case name == "":
			return fmt.Errorf("%s: an empty name", what)
		case !utf8.ValidString(name):
			return fmt.Errorf("%s: name %q is not UTF-8", what, name)
		case seen[name]:
			return fmt.Errorf("%s: name %q is there twice", what, name)
		}
		seen[name] = true
	}
	return nil
}

func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
