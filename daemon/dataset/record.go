package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
)

// Record is one record to replay. It owns its memory.
type Record struct {
	Key     []byte // value of the key field, as text; nil if the line has none
	Value   []byte
	Time    int64 // of the event, in milliseconds since 1970
	HasTime bool
	Line    int // in the file, from 1
}

// timeField is the field of a JSON event that replay takes for its time, in milliseconds since 1970, as it writes it
// itself.
const timeField = "ts"

// ErrStop ends a scan without an error when a visit returns it.
var ErrStop = errors.New("dataset: enough lines")

// Fields says what the fields of records are: of CSV and Parquet files what their columns become, and the one whose
// value becomes the record's key.
type Fields struct {
	Key string
	Columns
	// Schema is that of the model that is to read the records: they hold its fields alone, as Read with that schema
	// reads the file. Nil for any reader.
	Schema *event.Schema
	// Guess, if not nil, says without a Schema what the columns of CSV and Parquet files are, by their first rows. Its
	// schema may be nil.
	Guess func(*Profile) *event.Schema
}

// validate refuses names of columns for a format without any.
func (f *Fields) validate(format Format) error {
	switch {
	case len(f.Names) > 0 && format != CSV:
		return fmt.Errorf("dataset: --columns is for --format %s, which may have no header, not for %s", CSV, format)
	case len(f.Of) > 0 && format != CSV && format != Parquet:
		return fmt.Errorf("dataset: --map is for --format %s and %s, which have columns, not for %s", CSV, Parquet,
			format)
	}
	return nil
}

// ScanRecords calls visit with each record of a file, in the order of the file. Lines that are not records of the
// format are counted and skipped; with format lines every line is a record. progress, if not nil, gets how many bytes
// of the file have been read, and how many it has.
func ScanRecords(path string, format Format, fields Fields, progress func(read, size int64),
	visit func(Record) error) (Skipped, error) {
	var skipped Skipped
	if err := fields.validate(format); err != nil {
		return skipped, err
	}
	kind := formatKind(format)
	switch {
	case kind == nil:
		return skipped, fmt.Errorf("dataset: --format %q cannot be replayed: use %s", string(format), formatText(true))
	case kind.readsRows != nil:
		err := (&rowScan{path, &fields, progress, visit, &skipped}).run(format)
		return skipped, err
	}
	read, err := kind.records(path, &fields)
	if err != nil {
		return skipped, err
	}
	scan := scanLines
	if format == Lines {
		scan = scanBytes
	}
	err = scan(path, progress, func(line []byte, number int) error {
		if format != Lines {
			if line = bytes.Trim(line, " \r"); len(line) == 0 || isRatingsHeader(format, line, number) {
				return nil
			}
		}
		record, reason := read(line)
		if reason != "" {
			skipped.addJSON(badLine(reason), line, number)
			return nil
		}
		record.Line = number
		return visit(record)
	})
	return skipped, err
}

// ratingRecord returns what reads a line of MovieLens, whose record has the key of a field: user or item.
func ratingRecord(keyField string, inHalves bool) func(line []byte) (Record, event.Reason) {
	return func(line []byte) (Record, event.Reason) {
		r, ok := parseRating(line)
		if !ok {
			return Record{}, notMovieLens
		}
		if inHalves {
			r.inHalves()
		}
		key := r.user
		if keyField == "item" {
			key = r.item
		}
		return Record{Key: bytes.Clone(key), Value: r.appendJSON(make([]byte, 0, 80)), Time: r.seconds * 1000,
			HasTime: r.hasTime}, ""
	}
}

// recordTime says where a record has its time: a field, and the unit of numbers there.
type recordTime struct {
	field string
	unit  time.Duration
}

// jsonRecord is that of records whose time is where replay writes it.
func jsonRecord(line []byte, keyField string) (Record, event.Reason) {
	return recordTime{timeField, time.Millisecond}.jsonRecord(line, keyField)
}

// millis returns the time that a text says, in milliseconds since 1970: a whole number, or a written time.
func (t recordTime) millis(text string) (ms int64, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		at := time.Unix(n, 0)
		if t.unit < time.Second {
			perSecond := int64(time.Second / t.unit)
			at = time.Unix(n/perSecond, n%perSecond*int64(t.unit))
		}
		return at.UnixMilli(), true
	}
	if at, ok := parseTime(text); ok {
		return at.UnixMilli(), true
	}
	return 0, false
}

// jsonRecord reads the key and the time out of one JSON object and keeps the line as it is. Strings lend their text to
// the key and numbers their digits; a time that is neither a whole number nor written counts as none.
func (t recordTime) jsonRecord(line []byte, keyField string) (Record, event.Reason) {
	r := Record{Value: bytes.Clone(line)}
	if !utf8.Valid(line) {
		return r, event.NotUTF8
	}
	d := jsontext.NewDecoder(bytes.NewReader(line), event.HalfPairs)
	if d.PeekKind() != '{' {
		if err := d.SkipValue(); err != nil {
			return r, jsonFault(err)
		}
		return r, event.NotObject
	}
	_, _ = d.ReadToken() // the brace
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return r, jsonFault(err)
		}
		field := name.String()
		if field != keyField && field != t.field {
			if err := d.SkipValue(); err != nil {
				return r, jsonFault(err)
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return r, jsonFault(err)
		}
		if field == keyField {
			r.Key = keyText(value)
		}
		if field == t.field {
			r.Time, r.HasTime = t.millis(string(keyText(value)))
		}
	}
	if _, err := d.ReadToken(); err != nil { // the other brace
		return r, jsonFault(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return r, event.NotJSON
	}
	return r, ""
}

// jsonFault returns the reason of what is no JSON.
func jsonFault(err error) event.Reason {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return event.DuplicateKey
	}
	return event.NotJSON
}

// keyText returns the text of a JSON string or number, and nil for any other value.
func keyText(value jsontext.Value) []byte {
	switch value.Kind() {
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value) // it was read as JSON
		return text
	case '0':
		return bytes.Clone(value)
	}
	return nil
}

// rating is one line of a MovieLens file.
type rating struct {
	user, item []byte
	number     []byte // as written
	seconds    int64
	hasTime    bool
}

// ratingsHeader is the first line of ratings.csv, as MovieLens publishes ratings today.
const ratingsHeader = "userId,movieId,rating,timestamp"

// parseRating reads a line whose columns are separated by tabs, by "::" or by commas.
func parseRating(line []byte) (rating, bool) {
	separator := []byte{'\t'}
	switch {
	case bytes.Contains(line, []byte("::")):
		separator = []byte("::")
	case !bytes.Contains(line, separator):
		separator = []byte{','}
	}
	columns := bytes.Split(line, separator)
	if len(columns) < 3 || len(columns) > 4 {
		return rating{}, false
	}
	r := rating{user: columns[0], item: columns[1], number: columns[2]}
	if len(r.user) == 0 || len(r.item) == 0 || !utf8.Valid(line) || !isNumber(r.number) {
		return rating{}, false
	}
	if len(columns) == 4 {
		s, err := strconv.ParseInt(string(columns[3]), 10, 64)
		const most = 1 << 53 / 1000 // milliseconds stay exact in JSON
		if err != nil || s < -most || s > most {
			return rating{}, false
		}
		r.seconds, r.hasTime = s, true
	}
	return r, true
}

// inHalves makes a number of stars, from half a one to five, the number of halves: a level from 1 to 10. Another number
// becomes 0, which is no level.
func (r *rating) inHalves() {
	stars, err := strconv.ParseFloat(string(r.number), 64)
	if halves := 2 * stars; err == nil && halves == math.Trunc(halves) && halves >= 1 && halves <= 10 {
		r.number = strconv.AppendInt(nil, int64(halves), 10)
	} else {
		r.number = []byte("0") // which is no level
	}
}

// isRatingsHeader reports whether a line is the header of a MovieLens file.
func isRatingsHeader(format Format, line []byte, number int) bool {
	return (format == MovieLens || format == HalfStars) && number == 1 && string(line) == ratingsHeader
}

// isNumber reports whether b is a JSON number, and nothing else: no other JSON value begins and ends as one.
func isNumber(b []byte) bool {
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	return len(b) > 0 && (isDigit(b[0]) || b[0] == '-') && isDigit(b[len(b)-1]) && json.Valid(b)
}

// appendJSON appends {"user":"196","item":"242","rating":3,"ts":881250949000}, without ts if the line has no time.
func (r *rating) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"user":`...)
	dst = appendString(dst, r.user)
	dst = append(dst, `,"item":`...)
	dst = appendString(dst, r.item)
	dst = append(dst, `,"rating":`...)
	dst = append(dst, r.number...)
	if r.hasTime {
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, r.seconds*1000, 10)
	}
	return append(dst, '}')
}

// appendString appends a JSON string. s is valid UTF-8.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, b := range s {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, b)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}
