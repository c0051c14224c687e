package scoring

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// FeaturesDigest returns "sha256:" and the SHA-256 of what of an event is scored, by which a label that comes later is
// joined with the score that was made of the same features. It is over the canonical JSON (RFC 8785) of an object with
// the features of the schema: names as strings, numbers as numbers, lists of names sorted and without repetitions;
// fields that the event lacks and empty lists are left out. Crosses follow from the others and are no part of it,
// derived fields are.
func FeaturesDigest(s *snapshot.Schema, in *snapshot.Input) (string, error) {
	var text bytes.Buffer
	object := features{Encoder: jsontext.NewEncoder(&text)}
	object.write(jsontext.BeginObject)
	for i, name := range in.Categorical {
		if name != "" {
			object.write(jsontext.String(s.Categorical[i]), jsontext.String(name))
		}
	}
	for i, v := range in.Numeric {
		if !math.IsNaN(v) {
			object.write(jsontext.String(s.Numeric[i].Name), jsontext.Float(v))
		}
	}
	for i, names := range in.Multi {
		if len(names) == 0 {
			continue
		}
		object.write(jsontext.String(s.Multi[i]), jsontext.BeginArray)
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			object.write(jsontext.String(name))
		}
		object.write(jsontext.EndArray)
	}
	object.write(jsontext.EndObject)
	canonical := jsontext.Value(bytes.TrimSpace(text.Bytes()))
	if object.err == nil {
		object.err = canonical.Canonicalize()
	}
	if object.err != nil {
		return "", fmt.Errorf("scoring: features of an event as JSON: %w", object.err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// features writes JSON until there is an error, which it keeps.
type features struct {
	*jsontext.Encoder
	err error
}

func (f *features) write(tokens ...jsontext.Token) {
	for _, t := range tokens {
		if f.err == nil {
			f.err = f.WriteToken(t)
		}
	}
}

// propensityOf returns the probability in a field of an event, nil if the event lacks it. The event has been decoded:
// it is an object without repeated names.
func propensityOf(value []byte, field string) (*report.Number, *event.Rejection) {
	d := jsontext.NewDecoder(bytes.NewReader(value), event.HalfPairs)
	if _, err := d.ReadToken(); err != nil {
		return nil, &event.Rejection{Reason: event.NotJSON}
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, &event.Rejection{Reason: event.NotJSON}
		}
		if name.String() != field {
			if err := d.SkipValue(); err != nil {
				return nil, &event.Rejection{Reason: event.NotJSON}
			}
			continue
		}
		const expected = "a probability: a number above 0, at most 1"
		t, err := d.ReadToken()
		switch {
		case err != nil:
			return nil, &event.Rejection{Reason: event.NotJSON}
		case t.Kind() == 'n':
			return nil, nil
		case t.Kind() != '0':
			return nil, &event.Rejection{
				Reason:   event.WrongType,
				Field:    field,
				Expected: expected,
				Got:      "something else",
			}
		}
		p, err := t.Float()
		if !(p > 0 && p <= 1) || err != nil {
			return nil, &event.Rejection{
				Reason:   event.NumberRange,
				Field:    field,
				Expected: expected,
				Got:      "another number",
			}
		}
		n := report.Number(p)
		return &n, nil
	}
	return nil, nil
}
