package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
)

// A Profile is what the first rows of a file of events look like.
type Profile struct {
	Format  Format
	Rows    int       // that were looked at
	Total   int       // rows of the whole file, those that are no events among them; Rows of a topic
	Columns []*Column // in the order of the file
	Skipped Skipped   // lines of CSV or JSON that are no rows
}

// Column is one column of CSV or Parquet, or one member of JSON objects or of objects in them.
type Column struct {
	Name    string
	Path    []string // of a member of an object in objects: their names from the outermost, which Name has with dots between them; nil for others
	Present int      // rows that have a value
	// How many of those are such. Numbers may be whole; a cell of CSV with | in it is a list.
	Numbers, Whole, Booleans, Lists, Times, Nested int
	Stamps                                         int            // of Times, those by RFC 3339, which events in JSON may have
	Pointed                                        int            // of Numbers, those that JSON has with a point or an exponent, which are no names there
	Quoted                                         int            // of Numbers, those that JSON has as text
	NaNs                                           int            // texts NaN in JSON
	Literals                                       int            // of Booleans, those that JSON has without quotes, which are no names there
	NoNames                                        int            // of Lists, those in JSON that hold something else than text and whole numbers
	Members                                        int            // different ones of Nested in JSON, at most MaxMembers+1
	Steps                                          int            // of Numbers, those that are one more than the one before
	before                                         float64        // the last of Numbers
	Min, Max                                       float64        // of the numbers
	MaxBytes                                       int            // of the longest value
	values                                         map[string]int // of lists in JSON, their names
}

// maxProfileValues bounds the distinct values of a column that are counted.
const maxProfileValues = 100_000

// MaxMembers bounds the members of an object in objects that are columns: with more it is a map by names that data has, whose members are none.
const MaxMembers = 100

// Distinct returns the number of different values, at most maxProfileValues.
func (c *Column) Distinct() int { return len(c.values) }

// Count returns how often a value occurs.
func (c *Column) Count(value string) int { return c.values[value] }

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

// timeLayouts are the ways in which Table reads a written time: RFC 3339, also with a space as pandas and databases have it, and without zone or clock.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07"}

// parseTime reads a time in one of them, in UTC where no zone is written.
func parseTime(text string) (time.Time, bool) {
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// add counts a value as it is written.
func (c *Column) add(text string) { c.addNumber(text, text) }

// addNumber is add for a value that is a number in another spelling.
func (c *Column) addNumber(text, number string) {
	c.Present++
	c.MaxBytes = max(c.MaxBytes, len(text))
	if _, seen := c.values[text]; seen || len(c.values) < maxProfileValues {
		c.values[text]++
	}
	if v, err := strconv.ParseFloat(number, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		if c.Numbers == 0 {
			c.Min, c.Max = v, v
		} else if v == c.before+1 {
			c.Steps++
		}
		c.before = v
		c.Numbers++
		c.Min, c.Max = min(c.Min, v), max(c.Max, v)
		if v == math.Trunc(v) {
			c.Whole++
		}
		return
	}
	switch _, isTime := parseTime(text); {
	case isTime:
		c.Times++
		if _, err := time.Parse(time.RFC3339, text); err == nil {
			c.Stamps++
		}
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		c.Booleans++
	case strings.Contains(text, "|"):
		c.Lists++
	}
}

// ReadProfile looks at the first rows of a file, at most limit, in CSV, Parquet or JSON Lines; which of them is told by its first line, unless format says
// it. A file of another format is refused with its name.
func ReadProfile(path string, format Format, limit int) (*Profile, error) {
	p := &Profile{Format: format}
	if format == "" {
		var err error
		if p.Format, err = Detect(path); err != nil {
			return nil, err
		}
	}
	var err error
	switch p.Format {
	case CSV:
		err = p.readCSV(path, limit)
	case JSONL:
		err = p.readJSON(path, limit)
	case Parquet:
		err = p.readParquet(path, limit)
	default:
		return nil, fmt.Errorf("dataset: %s is %s: fit and backtest read it as it is, with --format %s", path, p.Format, p.Format)
	}
	if err == nil && p.Rows == 0 {
		err = fmt.Errorf("dataset: %s has no rows as --format %s: %s", path, p.Format, p.Skipped.Why())
	}
	return p, err
}

func (p *Profile) column(name string) *Column {
	for _, c := range p.Columns {
		if c.Name == name && c.Path == nil {
			return c
		}
	}
	c := &Column{Name: name, values: make(map[string]int)}
	p.Columns = append(p.Columns, c)
	return c
}

func (p *Profile) readCSV(path string, limit int) error {
	return openFile(path, nil, func(r io.Reader) error {
		rows, err := newCSVRows(r, nil)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		var columns []*Column
		for _, name := range rows.names {
			columns = append(columns, p.column(name))
		}
		err = each(path, rows.next, &p.Skipped, func(cells []string, _ int) error {
			if p.Total++; p.Total > limit {
				return nil
			}
			p.Rows++
			for i, cell := range cells {
				switch cell = strings.TrimSpace(cell); {
				case cell == "":
				case rows.commas():
					columns[i].addNumber(cell, withPoint(cell))
				default:
					columns[i].add(cell)
				}
			}
			return nil
		})
		if rows.csv.Comma == '|' { // which stands in a cell because the cell is quoted: a list would be written with something else
			for _, c := range columns {
				c.Lists = 0
			}
		}
		return err
	})
}

func (p *Profile) readJSON(path string, limit int) error {
	return scanLines(path, nil, func(line []byte, number int) error {
		if line = bytes.Trim(line, " \r"); len(line) == 0 {
			return nil
		}
		if p.Total++; p.Rows < limit {
			if bad := p.addJSON(line); bad != nil {
				p.Skipped.add(bad, number)
			}
		}
		return nil
	})
}

// ProfileOf looks at values as records of a topic have them: those that are JSON objects are its rows. Lines of Skipped count the values from 1.
func ProfileOf(values iter.Seq[[]byte]) *Profile {
	p := &Profile{Format: JSONL}
	number := 0
	for value := range values {
		number++
		if bad := p.addJSON(value); bad != nil {
			p.Skipped.add(bad, number)
		}
	}
	p.Total = p.Rows
	return p
}

// addJSON looks at a value, or says why it is no JSON object.
func (p *Profile) addJSON(value []byte) *event.Rejection {
	if !utf8.Valid(value) {
		return badLine(event.NotUTF8)
	}
	if v := jsontext.Value(value); !v.IsValid(jsontext.AllowDuplicateNames(true), event.HalfPairs) {
		return badLine(event.NotJSON)
	} else if v.Kind() != '{' {
		return event.NoObject(v.Kind())
	}
	p.Rows++
	return p.addMembers(value, nil)
}

// addMembers looks at the members of an object, which is valid; of is the column of an object in objects.
func (p *Profile) addMembers(object jsontext.Value, of *Column) *event.Rejection {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), event.HalfPairs)
	_, _ = d.ReadToken() // the brace, as all that follows is valid
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return badLine(event.NotJSON)
		}
		field := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return badLine(event.NotJSON)
		}
		c := p.member(of, field)
		if c == nil {
			return nil
		}
		switch value.Kind() {
		case 'n':
		case '"':
			text, _ := jsontext.AppendUnquote(nil, value)
			if len(text) > 0 {
				numbers := c.Numbers
				c.add(string(text))
				c.Quoted += c.Numbers - numbers
				if strings.EqualFold(string(text), "nan") {
					c.NaNs++
				}
			}
		case 't', 'f':
			c.add(string(value))
			c.Literals++
		case '[':
			c.Present++
			c.Lists++
			c.addList(value)
		case '{':
			c.Present++
			c.Nested++
			if bad := p.addMembers(value, c); bad != nil {
				return bad
			}
		default:
			c.add(string(value))
			if value.Kind() == '0' && bytes.ContainsAny(value, ".eE") {
				c.Pointed++
			}
		}
	}
	return nil
}

// member returns the column of a member of the events or, unless of is nil, of objects in them, of which a map has no columns: nil.
func (p *Profile) member(of *Column, name string) *Column {
	if of == nil {
		return p.column(name)
	}
	path := []string{of.Name, name}
	if len(of.Path) > 0 {
		path = append(slices.Clone(of.Path), name)
	}
	for _, c := range p.Columns {
		if slices.Equal(c.Path, path) {
			return c
		}
	}
	if of.Members++; of.Members > MaxMembers {
		of.Members = MaxMembers + 1
		return nil
	}
	c := &Column{Name: strings.Join(path, "."), Path: path, values: make(map[string]int)}
	p.Columns = append(p.Columns, c)
	return c
}

// addList counts the names of a list in JSON, which is valid.
func (c *Column) addList(list jsontext.Value) {
	d := jsontext.NewDecoder(bytes.NewReader(list), jsontext.AllowDuplicateNames(true), event.HalfPairs)
	_, _ = d.ReadToken()
	names := true
	defer func() {
		if !names {
			c.NoNames++
		}
	}()
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		name := string(value)
		names = names && (value.Kind() == '"' || value.Kind() == '0' && !bytes.ContainsAny(value, ".eE"))
		if value.Kind() == '"' {
			text, _ := jsontext.AppendUnquote(nil, value)
			name = string(text)
		}
		if _, seen := c.values[name]; seen || len(c.values) < maxProfileValues {
			c.values[name]++
		}
	}
}

func (p *Profile) readParquet(path string, limit int) error {
	return openParquet(path, nil, func(r *parquetRows) error {
		for _, name := range r.names() {
			p.column(name)
		}
		for _, g := range r.groups {
			p.Total += int(g.NumRows())
		}
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
				case of.kind == otherColumn:
					c.Present++
					c.Nested++
				case r.isAbsent(i):
				case of.isList:
					c.Present++
					c.Lists++
				default:
					c.add(r.cell(i))
				}
			}
		}
		return nil
	})
}
