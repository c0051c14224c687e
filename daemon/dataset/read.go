package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/refitd/refitd/consumer/event"
)

// Read reads a file of labelled events into memory. Lines that hold no valid event are counted by reason and skipped;
// empty lines are not counted. An error means that the file cannot be read at all.
func Read(path string, o Options) (*Set, error) {
	s := &Set{HasTime: o.Schema.Time != ""}
	kind := formatKind(o.Format)
	switch {
	case kind == nil:
		return nil, fmt.Errorf("dataset: unknown format %q: --format must be %s", string(o.Format), formatText(false))
	case kind.takesLine == nil:
		return nil, fmt.Errorf("dataset: --format %s is for replay only: use %s", o.Format, formatText(false))
	case kind.isJSON && o.Decode == nil:
		return nil, fmt.Errorf("dataset: format %s needs a decoder", o.Format)
	}
	add := kind.takesLine(s, o)
	take := func(line []byte, number int) error {
		line = bytes.Trim(line, " \r")
		if len(line) == 0 || isRatingsHeader(o.Format, line, number) {
			return nil
		}
		if r := add(line, number); r != nil && o.Format == JSONL {
			s.Skipped.addJSON(r, line, number)
		} else if r != nil {
			s.Skipped.add(r, number)
		}
		return nil
	}
	var err error
	if kind.readsRows != nil {
		err = kind.readsRows(s, path, &o, take)
	} else {
		err = scanLines(path, o.Progress, take)
	}
	if err != nil {
		return nil, err
	}
	if len(s.Examples) == 0 {
		return nil, fmt.Errorf("dataset: %s holds no valid event as --format %s: %s", path, o.Format, s.Skipped.Why())
	}
	return s, nil
}

// scanTable calls take with the JSON form of each row of a table, if it could be opened, and counts rows that have
// none.
func (s *Set) scanTable(path string, table *Table, err error, take func(value []byte, line int) error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	s.HasTime = slices.ContainsFunc(table.cells, func(c tableCell) bool { return c.kind == timeCell })
	err = each(path, table.Next, &s.Skipped, take)
	if table.rows != nil {
		s.Skipped.Continued = table.rows.csv.continued
	}
	return err
}

// halfStarLevels is the number of levels of half stars: MovieLens ratings are counted in halves for a model that has as
// many.
const halfStarLevels = 10

// countsHalves reports whether MovieLens ratings are counted in halves for a model of the schema.
func countsHalves(s *event.Schema) bool { return s.Task == event.Ordinal && s.Levels == halfStarLevels }

// jsonTaker decodes JSON events, and MovieLens ratings and rows of CSV by way of their JSON form, so that all follow
// the schema's rules.
func jsonTaker(s *Set, o Options) func([]byte, int) *event.Rejection {
	var ev event.Event
	var value []byte
	names := make(map[string]string)
	return func(line []byte, number int) *event.Rejection {
		value = line
		if o.Format == MovieLens {
			rating, ok := parseRating(line)
			if !ok {
				return badLine(notMovieLens)
			}
			if countsHalves(&o.Schema) {
				rating.inHalves()
			}
			value = rating.appendJSON(nil)
			if !rating.hasTime {
				s.HasTime = false
			}
		}
		if r := o.Decode(&ev, value, 0); r != nil {
			return r
		}
		s.Examples = append(s.Examples, Example{Event: own(&ev, names), Line: number})
		return nil
	}
}

// own copies an event out of the decoder's memory. Names are shared between events: a file has far fewer names than
// events.
func own(ev *event.Event, names map[string]string) event.Event {
	intern := func(list []string) []string {
		if list == nil {
			return nil
		}
		out := make([]string, len(list))
		for i, name := range list {
			shared, ok := names[name]
			if !ok {
				shared = strings.Clone(name)
				names[shared] = shared
			}
			out[i] = shared
		}
		return out
	}
	out := *ev
	out.Identity = strings.Clone(ev.Identity)
	out.Classes = intern(ev.Classes)
	out.Categorical = intern(ev.Categorical)
	out.Numeric = slices.Clone(ev.Numeric)
	if ev.Multi != nil {
		out.Multi = make([][]string, len(ev.Multi))
		for i, list := range ev.Multi {
			out.Multi[i] = intern(list)
		}
	}
	return out
}

// maxIndex bounds a LIBSVM column: the model needs memory for each of them.
const maxIndex = 100_000_000

// libsvmAdder reads "label index:value …". Indices count from 1 in the file; they increase.
func (s *Set) libsvmAdder(o Options) func([]byte, int) *event.Rejection {
	classes := make(map[string]string)
	return func(line []byte, number int) *event.Rejection {
		fields := bytes.Fields(line)
		ex := Example{Line: number, Event: event.Event{Weight: 1}}
		if r := setLabel(&ex.Event, string(fields[0]), &o.Schema, classes); r != nil {
			return r
		}
		ex.Sparse = make([]Entry, 0, len(fields)-1)
		last := 0
		for _, field := range fields[1:] {
			if field[0] == '#' {
				break // the rest of the line is a comment
			}
			index, value, ok := bytes.Cut(field, []byte{':'})
			j, err := strconv.Atoi(view(index))
			if !ok || err != nil || j <= last || j > maxIndex {
				return badLine(notLIBSVM)
			}
			v, err := strconv.ParseFloat(view(value), 64)
			if err != nil {
				return badLine(notLIBSVM)
			}
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return &event.Rejection{Reason: event.NotFinite, Expected: "finite values", Got: "NaN or an infinity"}
			}
			last = j
			if v != 0 {
				ex.Sparse = append(ex.Sparse, Entry{j - 1, v})
			}
		}
		s.NumFeatures = max(s.NumFeatures, last)
		s.Examples = append(s.Examples, ex)
		return nil
	}
}

// setLabel reads the first column of a LIBSVM line by the rules of the task. Binary labels may also be -1 and +1, the
// format's usual form; multi-label ones are separated by commas.
func setLabel(ev *event.Event, text string, schema *event.Schema, classes map[string]string) *event.Rejection {
	reject := func(r event.Reason, expected, got string) *event.Rejection {
		return &event.Rejection{Reason: r, Field: schema.Label, Expected: expected, Got: got}
	}
	if schema.Task.HasClasses() {
		list := []string{text}
		if schema.Task == event.Multilabel {
			list = strings.Split(text, ",")
		}
		for i, class := range list {
			if len(schema.Classes) > 0 && !slices.Contains(schema.Classes, class) {
				return reject(event.LabelUnknown, "one of the classes of the schema", "another class")
			}
			if _, ok := classes[class]; !ok {
				classes[class] = class
			}
			list[i] = classes[class]
		}
		ev.Classes = list
		return nil
	}
	if schema.Positive != "" {
		label, ok := schema.NamedLabel(text)
		if ev.Label = label; !ok {
			return reject(event.LabelUnknown, schema.ExpectedLabel(), "another name")
		}
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return reject(event.WrongType, "a number", "text")
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return reject(event.NotFinite, "a finite number", "NaN or an infinity")
	}
	if schema.Task == event.Binary && v == -1 {
		v = 0
	}
	if !schema.AcceptsLabel(v) {
		return reject(event.LabelRange, schema.ExpectedLabel(), "another number")
	}
	ev.Label = v
	return nil
}

// view returns the bytes as a string without a copy; it is used for parsing only and does not outlive b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
