package dataset

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// Format is the format of a file.
type Format string

// The names of the formats that other parts of the program know.
const (
	MovieLens Format = "movielens"
	HalfStars Format = "half-stars"
	JSONL     Format = "jsonl"
	LIBSVM    Format = "libsvm"
	CSV       Format = "csv"
	Parquet   Format = "parquet"
	Lines     Format = "lines"
)

// Formats are all of them. To add one, write its row here, and what it reads in a file of this package. Flags, messages
// and configs/docs/components.md follow. In a file whose first line is of no format there is CSV.
var Formats = []FormatKind{
	{
		Name:      MovieLens,
		Doc:       "user, item, rating and optionally seconds since 1970, separated by tabs, `::` or commas",
		begins:    beginsRating,
		isJSON:    true,
		takesLine: jsonTaker,
		records: func(_ string, f *Fields) (recordReader, error) {
			return ratingReader(MovieLens, f, f.Schema != nil && countsHalves(f.Schema))
		},
	},
	{
		Name:    HalfStars,
		Doc:     "the same, with stars of 0.5 to 5 as levels 1 to 10; `replay` only",
		records: func(_ string, f *Fields) (recordReader, error) { return ratingReader(HalfStars, f, true) },
	},
	{
		Name:      JSONL,
		Doc:       "one event a line, in JSON",
		begins:    func(line []byte) bool { return line[0] == '{' || line[0] == '[' }, // lists are refused by that name
		isJSON:    true,
		takesLine: jsonTaker,
		records:   jsonReader,
	},
	{
		Name:      LIBSVM,
		Doc:       "`label index:value …`, indices increasing from 1",
		begins:    beginsSparse,
		takesLine: (*Set).libsvmAdder,
		records: func(path string, f *Fields) (recordReader, error) {
			t, err := newSparseTable(path, f.Schema)
			if err != nil {
				return nil, err
			}
			return func(line []byte) (Record, event.Reason) { return t.record(line, f.Key) }, nil
		},
	},
	{
		Name:      CSV,
		Doc:       "RFC 4180, with a header or without",
		isJSON:    true,
		takesLine: jsonTaker,
		readsRows: func(s *Set, path string, o *Options, take lineTaker) error {
			return openText(path, o.Progress, func(r io.Reader) error {
				table, err := NewTable(r, &o.Schema, o.Columns, true)
				return s.scanTable(path, table, err, take)
			})
		},
	},
	{
		Name:      Parquet,
		Doc:       "flat columns: numbers, text, true and false, times, lists of names",
		begins:    func(line []byte) bool { return bytes.HasPrefix(line, []byte(parquet.Magic)) },
		isJSON:    true,
		takesLine: jsonTaker,
		readsRows: func(s *Set, path string, o *Options, take lineTaker) error {
			return openParquet(path, o.Progress, func(r *parquetRows) error {
				table, err := newParquetTable(r, &o.Schema, o.Columns, true)
				return s.scanTable(path, table, err, take)
			})
		},
	},
	{
		Name: Lines,
		Doc:  "each line is one record, byte for byte; `replay` only",
		records: func(string, *Fields) (recordReader, error) {
			return func(line []byte) (Record, event.Reason) { return Record{Value: bytes.Clone(line)}, "" }, nil
		},
	},
}

// FormatKind is what there is to say of a format.
type FormatKind struct {
	// Name is the value of --format.
	Name Format
	// Doc says what a file has, for configs/docs/components.md.
	Doc string
	// begins reports whether the first line that is not empty is of the format; nil where it does not say.
	begins func(line []byte) bool
	// isJSON says that each line or row has a JSON form, which a decoder reads.
	isJSON bool
	// takesLine returns what adds a line, or the JSON form of a row, as an event; nil of a format for replay only.
	takesLine func(s *Set, o Options) func(line []byte, number int) *event.Rejection
	// readsRows reads a file whose rows are not lines; nil where they are. It gives each row in its JSON form.
	readsRows func(s *Set, path string, o *Options, take lineTaker) error
	// records returns what makes a line a record for replay; nil where readsRows is not, whose rows become JSON.
	records func(path string, f *Fields) (recordReader, error)
}

// lineTaker takes a line or a row up, with its number from 1.
type lineTaker = func(line []byte, number int) error

// recordReader makes a line a record, or says why it is none.
type recordReader = func(line []byte) (Record, event.Reason)

// formatKind returns that of a name, nil for none.
func formatKind(name Format) *FormatKind {
	if i := slices.IndexFunc(Formats, func(k FormatKind) bool { return k.Name == name }); i >= 0 {
		return &Formats[i]
	}
	return nil
}

// FormatNames returns the names of the formats, those of events or, with replay, all.
func FormatNames(replay bool) (names []string) {
	for i := range Formats {
		if replay || Formats[i].takesLine != nil {
			names = append(names, string(Formats[i].Name))
		}
	}
	return names
}

// formatText lists the formats for messages: those of events or, with replay, all.
func formatText(replay bool) string {
	names := FormatNames(replay)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// formatOf returns the format of a first line. What begins as a Parquet file or as JSON is of that format, whatever
// else it may be.
func formatOf(line []byte) Format {
	for _, first := range []Format{Parquet, JSONL} {
		if formatKind(first).begins(line) {
			return first
		}
	}
	if otherFile(line) >= 0 || noRows(line) != "" { // which is refused with its name when it is read
		return CSV
	}
	for i := range Formats {
		if k := &Formats[i]; k.begins != nil && k.begins(line) {
			return k.Name
		}
	}
	return CSV
}

func beginsRating(line []byte) bool {
	_, isRating := parseRating(line)
	return isRating && !bytes.Contains(line, []byte(","))
}

func beginsSparse(line []byte) bool {
	fields := bytes.Fields(line)
	return len(fields) > 1 && bytes.Count(line, []byte(":")) == len(fields)-1 && !bytes.ContainsAny(line, ",;")
}

// ratingReader returns what reads lines of MovieLens, in halves of stars or not.
func ratingReader(format Format, f *Fields, halves bool) (recordReader, error) {
	if f.Key != "user" && f.Key != "item" {
		return nil, fmt.Errorf("dataset: --key %q is not a field of --format %s: use user or item", f.Key, string(format))
	}
	return ratingRecord(f.Key, halves), nil
}

// jsonReader returns what reads events in JSON, with the time that the schema says.
func jsonReader(_ string, f *Fields) (recordReader, error) {
	if s := f.Schema; s != nil && s.Time != "" {
		at := recordTime{s.Time, timeUnits[s.TimeUnit]}
		return func(line []byte) (Record, event.Reason) { return at.jsonRecord(line, f.Key) }, nil
	}
	return func(line []byte) (Record, event.Reason) { return jsonRecord(line, f.Key) }, nil
}
