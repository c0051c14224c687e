package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// A Profile is what the first rows of a file of events look like.
type Profile struct {
	Format  Format
	Rows    int       // that were looked at
	Total   int       // rows of the whole file, those that are no events among them; Rows of a topic
	Columns []*Column // in the order of the file
	Skipped Skipped   // lines of CSV or JSON that are no rows
	// Encoding names that of a CSV file that is not in Unicode, empty for others.
	Encoding string

	bytes  int                // of the values of all columns
	byName map[string]*Column // by the names of their paths, joined by a byte that no name begins a path with
	kept   int                // values in the heads of all columns
	whole  bool               // the rows of all the file are counted

	spelling spelling // of numbers
}

// Column is one column of CSV or Parquet, or one member of JSON objects or of objects in them. It is one type: a field
// for each count of one pass over the values.
type Column struct {
	Name string
	// of a member of an object in objects: their names from the outermost, which Name has with dots between them; nil
	// for others
	Path    []string
	Present int // rows that have a value
	// How many of those are such. Numbers may be whole; a cell of CSV with | in it is a list.
	Numbers, Whole, Booleans, Lists, Times, Nested int
	// of Times, those by RFC 3339, which events in JSON may have
	Stamps   int
	Clocks   int            // of Times, those with a clock
	Early    int            // of Times, those before 1970, which no event has
	Padded   int            // of Numbers, those that begin with a zero, as codes do
	Beyond   int            // of Numbers, those too large, or too near 0, for a number of an event
	NoTexts  int            // values of text in Parquet that are not UTF-8
	Empty    int            // texts in JSON without a letter, which are no names
	What     string         // the type of a column of Parquet that no field can be
	Odd      int            // texts that SetOddAside took out
	OddText  string         // one of them
	Nones    int            // words for no value among numbers, times or truths
	Pointed  int            // of Numbers, those that JSON has with a point or an exponent, which are no names there
	Quoted   int            // of Numbers, those that JSON has as text
	NaNs     int            // texts NaN in JSON
	Literals int            // of Booleans, those that JSON has without quotes, which are no names there
	NoNames  int            // of Lists, those in JSON that hold something else than text and whole numbers
	Members  int            // different ones of Nested in JSON, at most MaxMembers+1
	Steps    int            // of Numbers, those that are one more than the one before
	before   float64        // the last of Numbers and Times
	Min, Max float64        // of the numbers
	MaxBytes int            // of the longest value
	Rises    int            // of Numbers and Times, those not less than the one before
	values   map[string]int // index in counts; of lists in JSON, their names
	counts   []int          // how often each value occurs
	head     []int32        // of the first rows, the index of the value, or none
	profile  *Profile

	Leaf *event.Leaf // what the schema of a topic says of it; nil without a schema
}

// none is, in a head, a row without a value, or one whose value is not counted.
const none = -1

// Of the first rows the values are kept, to try what a column is; with many columns of fewer rows.
const (
	headRows  = 60_000
	headCells = 4_000_000
)

// MaxProfileValues bounds the distinct values of a column that are counted.
const MaxProfileValues = 100_000

// MaxMembers bounds the members of an object in objects that are columns: with more it is a map by names that data has,
// whose members are none.
const MaxMembers = 100

// Distinct returns the number of different values, at most MaxProfileValues.
func (c *Column) Distinct() int { return len(c.values) }

// Count returns how often a value occurs.
func (c *Column) Count(value string) int {
	if i, ok := c.values[value]; ok {
		return c.counts[i]
	}
	return 0
}

// count counts a value, and returns its index, or none.
func (c *Column) count(value string) int32 {
	i, seen := c.values[value]
	if !seen {
		if !c.hasRoom(value) {
			return none
		}
		i = len(c.counts)
		c.values[value], c.counts = i, append(c.counts, 0)
	}
	c.counts[i]++
	return int32(i)
}

// Head returns the values of the first rows that are kept, by the number that each different value has, negative for
// none.
func (c *Column) Head() []int32 { return c.head }

// HeadNumbers returns the number that each value of Head is, by its number there, NaN for none.
func (c *Column) HeadNumbers() []float64 {
	numbers := make([]float64, len(c.counts))
	for i := range numbers {
		numbers[i] = math.NaN() // a word for no value is no value any more
	}
	for text, i := range c.values {
		if v, err := strconv.ParseFloat(c.profile.plain(text), 64); err == nil {
			numbers[i] = v
		}
	}
	return numbers
}

// HeadValues returns the value of each number in Head.
func (c *Column) HeadValues() []string {
	values := make([]string, len(c.counts))
	for text, i := range c.values {
		values[i] = text
	}
	return values
}

// HeadTimes returns the time that each value of Head is, by its number there, in milliseconds since 1970: a written
// one, or a number of a unit of schema.time_unit; NaN for none.
func (c *Column) HeadTimes(unit string) []float64 {
	times := c.HeadNumbers()
	for text, i := range c.values {
		if at, ok := parseTime(text); ok {
			times[i] = float64(at.UnixMilli())
		} else {
			times[i] *= map[string]float64{"s": 1e3, "ms": 1, "us": 1e-3, "ns": 1e-6}[unit]
		}
	}
	return times
}

// CountOf returns how often the value of a number in Head occurs.
func (c *Column) CountOf(value int) int { return c.counts[value] }

// keep keeps the index of the value that the row at hand has.
func (c *Column) keep(value int32) {
	p, row := c.profile, c.profile.Rows-1
	if row >= headRows || p.kept+row+1-len(c.head) > headCells {
		return
	}
	p.kept += max(0, row+1-len(c.head))
	for len(c.head) <= row {
		c.head = append(c.head, none)
	}
	c.head[row] = value
}

// Values returns the different values, those that are numbers by size and before the others.
func (c *Column) Values() []string {
	values := make([]string, 0, len(c.values))
	for v := range c.values {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		switch {
		case errX == nil && errY == nil:
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
		case errX == nil:
			return -1
		case errY == nil:
			return 1
		}
		return cmp.Compare(a, b)
	})
	return values
}

// minNumber is the least number above 0 that is not subnormal: one nearer to 0 is no number of an event.
const minNumber = 0x1p-1022

// add counts a value as it is written.
func (c *Column) add(text string) { c.addNumber(text, text) }

// addNumber is add for a value that is a number in another spelling.
func (c *Column) addNumber(text, number string) {
	c.Present++
	c.MaxBytes = max(c.MaxBytes, len(text))
	c.keep(c.count(text))
	if v, ok := parseNumber(number); ok {
		c.addValue(v)
		if isPadded(number) {
			c.Padded++
		}
		return
	}
	switch at, isTime := parseTime(text); {
	case isTime:
		if c.Times++; strings.IndexByte(text, ':') > 0 || strings.IndexByte(text, 'T') > 0 {
			c.Clocks++
		}
		if at.Unix() < 0 {
			c.Early++
		}
		if c.Times > 1 && float64(at.UnixNano()) >= c.before {
			c.Rises++
		}
		c.before = float64(at.UnixNano())
		if _, err := time.Parse(time.RFC3339, text); err == nil {
			c.Stamps++
		}
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		c.Booleans++
	case strings.Contains(text, "|"):
		c.Lists++
	}
}

// addValue counts a number.
func (c *Column) addValue(v float64) {
	if c.Numbers == 0 {
		c.Min, c.Max = v, v
	} else {
		if v == c.before+1 {
			c.Steps++
		}
		if v >= c.before {
			c.Rises++
		}
	}
	c.before = v
	c.Numbers++
	if a := math.Abs(v); a > event.DefaultLimits().MaxNumber || a > 0 && a < minNumber {
		c.Beyond++
	}
	c.Min, c.Max = min(c.Min, v), max(c.Max, v)
	if v == math.Trunc(v) {
		c.Whole++
	}
}

// addCell is add for a cell of a file whose values are not written as JSON: it may say in words that there is no value.
func (c *Column) addCell(text, number string) {
	switch {
	case text == "" || text == sqlNone:
	case spellsNone(text):
		c.addNumber(text, text)
		c.Nones++
	default:
		c.addNumber(text, number)
	}
}

// plain returns a cell that is a number as programs write it.
func (p *Profile) plain(cell string) string { return p.spelling.plain(cell) }

// settle settles every column.
func (p *Profile) settle() {
	for _, c := range p.Columns {
		c.settle()
	}
}

// settle takes the words for no value out of a column whose other cells are numbers, times or truths: elsewhere they
// may be names.
func (c *Column) settle() {
	others := c.Present - c.Nones
	if c.Nones == 0 || others > 0 && c.Numbers != others && c.Times != others && c.Booleans != others {
		c.Nones = 0
		return
	}
	c.Present = others
	for value := range c.values {
		if spellsNone(value) {
			delete(c.values, value)
		}
	}
}

// SetOddAside takes texts out of a column whose other values are all numbers, times or truths, if they are in at most
// that many rows: a line of units, the mistake of a spreadsheet. Rows with them are no events.
func (c *Column) SetOddAside(most int) {
	of, isOne := c.Numbers, func(text string) bool { _, ok := parseNumber(c.profile.plain(text)); return ok }
	if c.Times > of {
		of, isOne = c.Times, func(text string) bool { _, ok := parseTime(text); return ok }
	}
	if c.Booleans > of {
		of, isOne = c.Booleans, func(text string) bool { _, err := strconv.ParseBool(text); return err == nil }
	}
	odd := c.Present - c.Nones - of // settle takes words for none out of columns without such
	if odd <= 0 || odd > most || c.Nested > 0 || c.Literals > 0 {
		return
	}
	for _, value := range slices.Sorted(maps.Keys(c.values)) {
		if isOne(value) {
			continue
		}
		if delete(c.values, value); c.OddText == "" && !spellsNone(value) {
			c.OddText = value
		}
	}
	c.Odd, c.Present, c.Lists, c.Nones = odd, of, 0, 0
	c.Numbers, c.Times, c.Booleans = within(c.Numbers, of), within(c.Times, of), within(c.Booleans, of)
}

// within returns a count that is that of all values, else 0.
func within(count, all int) int {
	if count == all {
		return count
	}
	return 0
}

// ProfileRows bounds the rows that are looked at.
const ProfileRows = 200_000

// ReadProfile looks at the first rows of a file, at most limit, in CSV, Parquet or JSON Lines; the format is detected
// by its first line, unless format says it. A file of another format is refused with its name.
func ReadProfile(path string, format Format, limit int) (*Profile, error) {
	if format == "" {
		var err error
		if format, err = Detect(path); err != nil {
			return nil, err
		}
	}
	p, err := readProfile(path, format, Columns{}, limit, true)
	if err == nil && p.Rows == 0 {
		why := p.Skipped.Why()
		if p.Skipped.Lines == 0 && p.Format != JSONL && len(p.Columns) > 0 {
			why = "it has the names of columns and nothing else"
		}
		err = fmt.Errorf("dataset: %s has no rows as --format %s: %s%s", path, p.Format, why, shapeOf[p.Format])
	}
	return p, err
}

// shapeOf says what a file of a format looks like.
var shapeOf = map[Format]string{
	JSONL: "; each line has one object, as jq -c . writes them, or jq -c '.[]' those of a list",
}

func newProfile(format Format) *Profile {
	return &Profile{Format: format, byName: make(map[string]*Column)}
}

// readProfile is ReadProfile for a file that may have no rows. The columns of CSV and Parquet files are called as the
// fields that they become, "" for none. Of standard input in CSV it looks at what its buffer holds, which it leaves
// there. Unless the whole of a CSV file is asked for, Total is of the rows that are looked at.
func readProfile(path string, format Format, columns Columns, limit int, whole bool) (*Profile, error) {
	p := newProfile(format)
	p.whole = whole
	var err error
	switch format {
	case CSV:
		if path == Stdin {
			begin, _ := standardInput().Peek(detectBytes)
			var r io.Reader
			if r, err = Text(bufio.NewReader(bytes.NewReader(begin))); err == nil {
				if err = p.readCSV(path, r, columns, limit); p.Rows > 0 {
					err = nil // the buffer ends within a row
				}
			}
		} else {
			err = openText(path, nil, func(r io.Reader) error {
				defer func() { p.Encoding = encodingOf(r) }()
				return p.readCSV(path, r, columns, limit)
			})
		}
	case JSONL:
		err = p.readJSON(path, limit)
	case Parquet:
		err = openParquet(path, nil, func(r *parquetRows) error { return p.readParquet(path, r, columns, limit) })
	default:
		return nil, fmt.Errorf("dataset: %s is %s: fit and backtest read it as it is, with --format %s", path, format,
			format)
	}
	return p, err
}

// pathSeparator is between the names of a path in byName. It is not UTF-8, so that no name of JSON has it.
const pathSeparator = "\xff"

// column returns the column of a name, nil where it is new and there is no room for it.
func (p *Profile) column(name string) *Column {
	if c := p.byName[name]; c != nil || p.isFull() {
		return c
	}
	return p.newColumn(name, name, nil)
}

func (p *Profile) newColumn(key, name string, path []string) *Column {
	c := &Column{Name: name, Path: path, values: make(map[string]int), profile: p}
	p.Columns, p.byName[key] = append(p.Columns, c), c
	return c
}

// named makes a column for each of a file that has them, called as the field that it becomes.
func (p *Profile) named(names []string, columns Columns) error {
	fields, err := columns.of(names)
	for _, field := range fields {
		p.newColumn(field, field, nil)
	}
	return err
}

func (p *Profile) readCSV(path string, r io.Reader, of Columns, limit int) error {
	rows, err := newCSVRows(r, of.Names)
	if err == nil {
		err = p.named(rows.names, of)
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	p.spelling = rows.spelling()
	err = each(path, rows.next, &p.Skipped, func(cells []string, _ int) error {
		if p.Total++; p.Total > limit {
			if p.whole {
				return nil
			}
			return ErrStop
		}
		p.Rows++
		for i, cell := range cells {
			cell = strings.TrimSpace(cell)
			p.Columns[i].addCell(cell, p.plain(cell))
		}
		return nil
	})
	p.settle()
	if rows.csv.Comma == '|' { // in a cell that is quoted for it: a list would be written with something else
		for _, c := range p.Columns {
			c.Lists = 0
		}
	}
	return err
}

func (p *Profile) readParquet(path string, r *parquetRows, columns Columns, limit int) error {
	if err := p.named(r.names(), columns); err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	p.Total = int(r.file.NumRows)
	defer p.settle()
	for p.Rows < limit {
		if _, err := r.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("dataset: read %s %w", path, err)
		}
		p.Rows++
		for i := range r.columns {
			of, c := &r.columns[i], p.Columns[i]
			switch {
			case of.kind == parquet.Other:
				c.Present++
				c.Nested++
				c.What = of.What
			case r.isAbsent(i):
			case of.isList:
				c.Present++
				c.Lists++
				if of.fits(listCell) != "" {
					c.NoNames++
					continue
				}
				for _, name := range r.list(i) {
					c.count(name)
				}
			case of.kind == parquet.Text: // which no field of numbers or lists can be
				text := r.cell(i)
				if !utf8.ValidString(text) {
					c.NoTexts++
				}
				c.addCell(text, "")
				c.Lists = 0
			default:
				text := r.cell(i)
				c.addCell(text, text)
			}
		}
	}
	return nil
}
