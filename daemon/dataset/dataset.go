// Package dataset reads files of labelled events for the offline verbs and of raw records for replay: MovieLens
// ratings, JSON Lines, LIBSVM, CSV, Parquet and plain lines, compressed with gzip, with zstd or not. It orders and
// splits what it read; it does not encode features.
package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// Order is the order of examples or records.
type Order string

// The orders. Time is stable: equal times stay in the order of the file.
const (
	FileOrder    Order = "file"
	TimeOrder    Order = "time"
	ShuffleOrder Order = "shuffle"
)

// Validate returns an error that names the flag unless o is a known order.
func (o Order) Validate() error {
	switch o {
	case FileOrder, TimeOrder, ShuffleOrder:
		return nil
	}
	return fmt.Errorf("dataset: unknown order %q: --order must be file, time or shuffle", string(o))
}

// Entry is one value of a sparse numeric example. Index counts from 0.
type Entry struct {
	Index int
	Value float64
}

// Example is one labelled event of a file. It owns its memory. Sparse holds the features of a LIBSVM line, by
// increasing index; the other formats have none and use the fields of the schema.
type Example struct {
	event.Event
	Sparse []Entry
	Line   int // in the file, from 1
}

// A DecodeFunc decodes one JSON event into ev, which it may fill with memory that it uses again. recordTime replaces
// a missing event time, in milliseconds since 1970. It returns why the value is no event, or nil.
type DecodeFunc func(ev *event.Event, value []byte, recordTime int64) *event.Rejection

// Options says how to read a file of examples.
type Options struct {
	Format Format
	Schema event.Schema // task, levels and classes decide which LIBSVM labels are valid
	Decode DecodeFunc   // for MovieLens, JSONL and CSV
	Columns
	// Progress, if not nil, gets now and then how many bytes of the file have been read, and how many it has, 0 if that
	// is not known.
	Progress func(read, size int64)
}

// Set is what was read.
type Set struct {
	Examples    []Example
	NumFeatures int // LIBSVM: largest index; 0 for the other formats
	HasTime     bool
	Skipped     Skipped
}

// maxFirstLines is how many line numbers are kept for each cause.
const maxFirstLines = 10

// Skipped counts the lines that hold no valid event, by cause.
type Skipped struct {
	Lines  int64
	Causes []SkippedCause // in the order of their first lines
	// Continued counts the lines of CSV that belong to the row before them: a cell in quotes has line ends. They are
	// not among Lines.
	Continued int64
	// LeftOut are the columns of a Parquet file that no field can be, with their types. Records lack them.
	LeftOut []string
}

// SkippedCause is one cause.
type SkippedCause struct {
	event.Rejection // of the first line
	Lines           int64
	First           []int // up to ten line numbers, from 1
}

// Add counts a line that a reader of the records does not take for an event.
func (s *Skipped) Add(r *event.Rejection, line int) { s.add(r, line) }

// addJSON is add for a line that should be JSON, of which the first of each cause is explained.
func (s *Skipped) addJSON(r *event.Rejection, text []byte, line int) {
	if !slices.ContainsFunc(s.Causes, func(c SkippedCause) bool { return c.Cause() == r.Cause() }) {
		r = explain(r, text)
	}
	s.add(r, line)
}

func (s *Skipped) add(r *event.Rejection, line int) {
	i := slices.IndexFunc(s.Causes, func(c SkippedCause) bool { return c.Cause() == r.Cause() })
	if i < 0 {
		i = len(s.Causes)
		s.Causes = append(s.Causes, SkippedCause{Rejection: *r})
	}
	c := &s.Causes[i]
	s.Lines++
	c.Lines++
	if len(c.First) < maxFirstLines {
		c.First = append(c.First, line)
	}
}

// String returns a sentence such as "3 lines skipped: label_range rating 2 times, first in line 7, not_json 1 time,
// first in line 12", or "" if none was.
func (s *Skipped) String() string {
	if s.Lines == 0 {
		return ""
	}
	causes := make([]string, len(s.Causes))
	for i, c := range s.Causes {
		causes[i] = fmt.Sprintf("%s %s, first in line %d", c.Cause(), count(c.Lines, "time"), c.First[0])
	}
	slices.Sort(causes)
	return fmt.Sprintf("%s skipped: %s", count(s.Lines, "line"), strings.Join(causes, ", "))
}

// count writes a number of things: 1 line, 2 lines.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Why is String where all lines were skipped: with what the first of them should have been, and what it was.
func (s *Skipped) Why() string {
	if s.Lines == 0 {
		return "it has no lines"
	}
	first := &s.Causes[0]
	return fmt.Sprintf("%s: in line %d expected %s, got %s", s, first.First[0], first.Expected, first.Got)
}

// The reasons of lines that are not of their file's format, in addition to those of package event.
const (
	notMovieLens   event.Reason = "not_movielens"
	notLIBSVM      event.Reason = "not_libsvm"
	notOneHot      event.Reason = "not_one_hot"
	notCSV         event.Reason = "not_csv"
	tooManyColumns event.Reason = "too_many_columns"
	tooFewColumns  event.Reason = "too_few_columns"
	aboveHeader    event.Reason = "above_header"
	headerAgain    event.Reason = "header_again"
	totals         event.Reason = "totals"
)

// lineShapes are the lines that those reasons ask for.
var lineShapes = map[event.Reason][2]string{
	notMovieLens:       {"user, item, rating and maybe seconds, separated by tabs, :: or commas", "another line"},
	notLIBSVM:          {"label index:value …, indices increasing from 1 to at most 100,000,000", "another line"},
	notOneHot:          {"values 1 in one-hot columns", "another value"},
	notCSV:             {"a line by RFC 4180", "another line"},
	tooManyColumns:     {"as many columns as the header", "more"},
	tooFewColumns:      {"as many columns as the header", "fewer"},
	aboveHeader:        {"the names of the columns", "a title or a comment"},
	headerAgain:        {"a row of values", "the names of the columns once more"},
	totals:             {"an event", "a last line of totals"},
	event.NotUTF8:      {"UTF-8", "other bytes"},
	event.NotJSON:      {"one JSON object", "something else"},
	event.NotObject:    {"one JSON object", "another value"},
	event.DuplicateKey: {"each name once in an object", "a name twice"},
	event.TooDeep:      {fmt.Sprintf("at most %d levels of nesting", event.DefaultLimits().MaxDepth), "more"},
}

// badLine returns the rejection of a line that is not of its file's format.
func badLine(r event.Reason) *event.Rejection {
	return &event.Rejection{Reason: r, Expected: lineShapes[r][0], Got: lineShapes[r][1]}
}

// ErrNoTime says that a file cannot be put into time order.
var ErrNoTime = errors.New(
	"dataset: --order time needs an event time in every line, and the file has none: use --order file or shuffle")

// Arrange puts the examples into the given order and then keeps the first limit of them; 0 keeps all.
func (s *Set) Arrange(order Order, seed uint64, limit int) error {
	if order == TimeOrder && !s.HasTime {
		return ErrNoTime
	}
	if err := arrange(s.Examples, order, seed, func(e *Example) int64 { return e.Time }); err != nil {
		return err
	}
	if limit > 0 {
		s.Examples = s.Examples[:min(limit, len(s.Examples))]
	}
	return nil
}

// ArrangeRecords puts records into the given order, the same one that Arrange gives to the examples of the same lines.
func ArrangeRecords(records []Record, order Order, seed uint64) error {
	if order == TimeOrder && slices.ContainsFunc(records, func(r Record) bool { return !r.HasTime }) {
		return ErrNoTime
	}
	return arrange(records, order, seed, func(r *Record) int64 { return r.Time })
}

// arrange shuffles by Fisher–Yates with a PCG generator seeded by seed and stream 0, so that the order depends on the
// number of elements and the seed alone.
func arrange[T any](list []T, order Order, seed uint64, at func(*T) int64) error {
	switch order {
	case FileOrder:
	case TimeOrder:
		slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(at(&a), at(&b)) })
	case ShuffleOrder:
		newRand(seed).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	default:
		return order.Validate()
	}
	return nil
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
