package snapshot

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Input is an event in the order of the schema's fields. A nil slice means that all its fields are missing. What is missing contributes nothing;
// Predict, Explain and TopK refuse an event that lacks a field which is not optional (Schema.Optional), Score does not look.
type Input struct {
	Categorical []string   // "" is missing
	Numeric     []float64  // not finite is missing
	Multi       [][]string // order within a list does not matter, but its length does, and so may repetitions: see MultiValue. An empty list is not missing
}

// check returns an error unless every slice is nil or as long as the schema's.
func (in *Input) check(s *Schema) error {
	categorical, numeric, multi := len(in.Categorical), len(in.Numeric), len(in.Multi)
	switch {
	case categorical != len(s.Categorical) && in.Categorical != nil:
		return fmt.Errorf("%w: %d categorical fields, the schema has %d", ErrInput, categorical, len(s.Categorical))
	case numeric != len(s.Numeric) && in.Numeric != nil:
		return fmt.Errorf("%w: %d numeric fields, the schema has %d", ErrInput, numeric, len(s.Numeric))
	case multi != len(s.Multi) && in.Multi != nil:
		return fmt.Errorf("%w: %d multi fields, the schema has %d", ErrInput, multi, len(s.Multi))
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
		if in.Numeric == nil || !isFinite(in.Numeric[f]) {
			fields = append(fields, s.Numeric[f].Name)
		}
	}
	if in.Multi == nil {
		fields = append(fields, s.Multi...)
	}
	return fields
}

// absent is missing, with the optional lists that are empty.
func (in *Input) absent(s *Schema) []string {
	fields := in.missing(s)
	for f := range in.Multi {
		if len(in.Multi[f]) == 0 && slices.Contains(s.Optional, s.Multi[f]) {
			fields = append(fields, s.Multi[f])
		}
	}
	return fields
}

// complete returns an error that names a field which is not optional and which an event lacks. but is a field that it may lack.
func (in *Input) complete(s *Schema, but string) error {
	if s.Optional == nil {
		return nil
	}
	for _, name := range in.missing(s) {
		if name != but && !s.IsOptional(name) {
			return missingField(name)
		}
	}
	return nil
}

func missingField(name string) error {
	return fmt.Errorf("%w: missing_field: the event has no field %q", ErrInput, name)
}

// InputFromMap reads an event given as names and values, as encoding/json decodes it: strings for categorical fields, numbers (any of Go's
// common kinds, or json.Number) for numeric ones, lists of strings for multi fields. Fields that are absent or nil are missing; fields
// outside the schema are ignored. It returns ErrInput with the name of a field of another kind, or of one that is missing and not optional.
func (s *Schema) InputFromMap(event map[string]any) (Input, error) {
	in, err := s.inputFromMap(event)
	if err == nil {
		err = in.complete(s, "")
	}
	for _, name := range s.Multi {
		if err == nil && event[name] == nil && !s.IsOptional(name) {
			err = missingField(name)
		}
	}
	if err != nil {
		return Input{}, fmt.Errorf("snapshot: %w", err)
	}
	return in, nil
}

func (s *Schema) inputFromMap(event map[string]any) (Input, error) {
	in := Input{Categorical: make([]string, len(s.Categorical)), Numeric: make([]float64, len(s.Numeric)), Multi: make([][]string, len(s.Multi))}
	for f, name := range s.Categorical {
		switch v := event[name].(type) {
		case nil:
		case string:
			in.Categorical[f] = v
		default:
			return in, fmt.Errorf("%w: field %q is categorical and takes a string, not %T", ErrInput, name, v)
		}
	}
	for f, field := range s.Numeric {
		v, err := number(event[field.Name])
		if err != nil {
			return in, fmt.Errorf("%w: field %q is numeric and takes %w", ErrInput, field.Name, err)
		}
		in.Numeric[f] = v
	}
	for f, name := range s.Multi {
		switch list := event[name].(type) {
		case nil:
		case []string:
			in.Multi[f] = slices.Clone(list)
		case []any:
			for _, v := range list {
				text, ok := v.(string)
				if !ok {
					return in, fmt.Errorf("%w: field %q takes a list of strings, not of %T", ErrInput, name, v)
				}
				in.Multi[f] = append(in.Multi[f], text)
			}
		default:
			return in, fmt.Errorf("%w: field %q takes a list of strings, not %T", ErrInput, name, list)
		}
	}
	return in, nil
}

// number converts a value; nil is NaN, which means missing.
func number(value any) (float64, error) {
	var x float64
	switch v := value.(type) {
	case nil:
		return math.NaN(), nil
	case float64:
		x = v
	case float32:
		x = float64(v)
	case int:
		x = float64(v)
	case int32:
		x = float64(v)
	case int64:
		x = float64(v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return 0, fmt.Errorf("a number, not %q", v.String())
		}
		x = f
	default:
		return 0, fmt.Errorf("a number, not %T", v)
	}
	if !isFinite(x) {
		return 0, fmt.Errorf("a finite number, not %g", x)
	}
	return x, nil
}

// toMap is the inverse of InputFromMap; missing fields are left out.
func (s *Schema) toMap(in *Input) map[string]any {
	event := make(map[string]any)
	for f, name := range in.Categorical {
		if name != "" {
			event[s.Categorical[f]] = name
		}
	}
	for f, v := range in.Numeric {
		if isFinite(v) {
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
