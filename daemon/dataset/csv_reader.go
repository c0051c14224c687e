package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// csvReader reads records by RFC 4180. A record is one line, and more where a cell in quotes has line ends. A line
// whose quotes do not fit is a fault of that line alone: the line after it begins the next record. Where tabs
// separate cells, such a quote is part of its cell, as in files that quote nothing.
type csvReader struct {
	Comma   byte
	columns int // of a record, 0 as long as that is not known

	r     io.Reader
	buf   []byte // what was read; the next record begins at start
	start int
	end   error // that ended the reading
	line  int   // number of the line at start, from 1

	record []byte // the cells, one behind the other
	ends   []int  // of the cells in record
	cells  []string

	blankRest bool // behind the cells of the record there is nothing but separators

	continued int64 // lines that belong to a record that began before them
}

const (
	// maxCellLines bounds the lines of a record: the time for a file whose quotes do not close is at most so many
	// times that of another.
	maxCellLines = 256
	// maxRecordBytes bounds a record of several lines. One of a single line has maxLineBytes.
	maxRecordBytes = 1 << 20
)

// The faults of a line.
var (
	openQuote = &event.Rejection{Reason: notCSV, Expected: lineShapes[notCSV][0], Got: "a quote that is not closed"}
	lostQuote = &event.Rejection{Reason: notCSV, Expected: lineShapes[notCSV][0], Got: "a quote within a cell"}
	longLine  = &event.Rejection{Reason: notCSV, Expected: fmt.Sprintf("at most %d bytes", maxLineBytes),
		Got: "a longer line"}
)

// read returns the cells of the next record, which are valid until the next call, and its first line; or why that
// line is none. At the end the error is io.EOF.
func (c *csvReader) read() (cells []string, line int, bad *event.Rejection, err error) {
	for {
		end, next, err := c.lineAt(c.start)
		switch {
		case errors.Is(err, errLineTooLong):
			line = c.line
			return nil, line, longLine, c.skipLong()
		case err != nil:
			return nil, 0, nil, err
		case end == c.start: // an empty line
			c.consume(next, 1)
			continue
		}
		line = c.line
		after, lines, bad, err := c.parse(end, next)
		if err != nil {
			return nil, 0, nil, err
		}
		if bad != nil {
			c.consume(next, 1)
			return nil, line, bad, nil
		}
		c.consume(after, lines)
		c.continued += int64(lines - 1)
		text, from := string(c.record), 0
		c.cells = c.cells[:0]
		for _, to := range c.ends {
			c.cells = append(c.cells, text[from:to])
			from = to
		}
		return c.cells, line, nil, nil
	}
}

// parse reads the record at start, whose first line has its end at end; the line after it is at next. It returns
// where the next record begins, and how many lines the record has.
func (c *csvReader) parse(end, next int) (after, lines int, bad *event.Rejection, err error) {
	c.record, c.ends, lines = c.record[:0], c.ends[:0], 1
	firstEnd, firstNext := end, next
	for at := c.start; ; {
		if at = c.quoteAt(at, end); at < end && c.buf[at] == '"' {
			cell := span{at: at, end: end, next: next, lines: lines, record: len(c.record)}
			if at, end, next, lines, bad, err = c.quoted(cell); err != nil {
				return 0, 0, nil, err
			}
			if bad == nil && lines > cell.lines && c.holdsRows(c.start, next, lines) {
				bad = openQuote
			}
			if bad != nil && c.Comma != '\t' {
				return 0, 0, bad, nil
			}
			if bad != nil {
				c.record, bad = c.record[:cell.record], nil
				end, next, lines = cell.end, cell.next, cell.lines
				at = c.bare(cell.at, end)
			}
		} else {
			from := at
			at = c.bare(at, end)
			if c.Comma != '\t' && bytes.IndexByte(c.buf[from:at], '"') >= 0 {
				return 0, 0, lostQuote, nil
			}
		}
		c.ends = append(c.ends, len(c.record))
		if at >= end || c.isWide() {
			c.blankRest = len(bytes.Trim(c.buf[min(at, end):end], string(c.Comma)+" ")) == 0
			break
		}
		at++ // the separator
	}
	if lines > 1 && c.columns > 0 && len(c.ends) != c.columns {
		if c.Comma != '\t' {
			return 0, 0, openQuote, nil
		}
		next, lines = firstNext, 1
		c.literally(firstEnd)
	}
	return next, lines, nil, nil
}

// quoteAt returns the place of the quote that a cell begins with where spaces are before it, or where it is written
// ="…", by which spreadsheets keep a text of digits; else the place of the cell.
func (c *csvReader) quoteAt(at, end int) int {
	quote := at
	for quote < end && c.buf[quote] == ' ' {
		quote++
	}
	if quote+1 < end && c.buf[quote] == '=' && c.buf[quote+1] == '"' {
		quote++
	}
	if c.Comma != '\t' && quote < end && c.buf[quote] == '"' {
		return quote
	}
	return at
}

// isWide reports whether a record has more cells than it may: the rest of it is not read.
func (c *csvReader) isWide() bool { return len(c.ends) > cmp.Or(c.columns, maxColumns) }

// span is where a cell begins: its place, the end of its line, the line after that, and how much of the record was
// read.
type span struct{ at, end, next, lines, record int }

// quoted reads a cell in quotes, and returns the place behind it.
func (c *csvReader) quoted(s span) (at, end, next, lines int, bad *event.Rejection, err error) {
	at, end, next, lines = s.at+1, s.end, s.next, s.lines
	for {
		i := bytes.IndexByte(c.buf[at:end], '"')
		switch {
		case i < 0: // the cell has a line end
			c.record = append(append(c.record, c.buf[at:end]...), '\n')
			if at = next; lines == maxCellLines || next-c.start > maxRecordBytes {
				return 0, 0, 0, 0, openQuote, nil
			}
			if end, next, err = c.lineAt(at); errors.Is(err, io.EOF) || errors.Is(err, errLineTooLong) {
				return 0, 0, 0, 0, openQuote, nil
			} else if err != nil {
				return 0, 0, 0, 0, nil, err
			}
			lines++
			continue
		case at+i+1 == end || c.buf[at+i+1] == c.Comma:
			c.record = append(c.record, c.buf[at:at+i]...)
			return at + i + 1, end, next, lines, nil, nil
		case c.buf[at+i+1] == '"':
			c.record = append(c.record, c.buf[at:at+i+1]...)
			at += i + 2
		default:
			for behind := at + i + 1; c.Comma != '\t'; behind++ {
				if behind == end || c.buf[behind] == c.Comma {
					c.record = append(c.record, c.buf[at:at+i]...)
					return behind, end, next, lines, nil, nil
				} else if c.buf[behind] != ' ' {
					break
				}
			}
			return 0, 0, 0, 0, lostQuote, nil
		}
	}
}

// bare reads a cell without quotes and returns its end.
func (c *csvReader) bare(at, end int) int {
	to := end
	if i := bytes.IndexByte(c.buf[at:end], c.Comma); i >= 0 {
		to = at + i
	}
	c.record = append(c.record, c.buf[at:to]...)
	return to
}

// literally reads the line at start without a meaning of quotes.
func (c *csvReader) literally(end int) {
	c.record, c.ends = c.record[:0], c.ends[:0]
	for at := c.start; ; at++ {
		at = c.bare(at, end)
		c.ends = append(c.ends, len(c.record))
		if at >= end || c.isWide() {
			c.blankRest = len(bytes.Trim(c.buf[min(at, end):end], string(c.Comma)+" ")) == 0
			return
		}
	}
}

// Lines within one cell that each have the separators of a whole row are rows, if so many of both are there: two
// quotes that are not closed make one cell of all that is between them.
const (
	minRowLines      = 2 // behind the first
	minRowSeparators = 4 // in them
)

// holdsRows reports whether all lines of a record look like rows.
func (c *csvReader) holdsRows(from, to, lines int) bool {
	if behind := lines - 1; c.columns < 2 || behind < minRowLines || behind*(c.columns-1) < minRowSeparators {
		return false
	}
	for line := range bytes.Lines(c.buf[from:to]) {
		if bytes.Count(line, []byte{c.Comma}) != c.columns-1 {
			return false
		}
	}
	return true
}

// lineAt returns the end of the line at a place, without its line end, and the place of the line after it. Behind
// the last line the error is io.EOF, or what ended the reading.
func (c *csvReader) lineAt(at int) (end, next int, err error) {
	for from := at; ; {
		if i := bytes.IndexByte(c.buf[from:], '\n'); i >= 0 {
			end, next = from+i, from+i+1
			break
		}
		from = len(c.buf)
		if from-at > maxLineBytes {
			return 0, 0, errLineTooLong
		}
		if c.end != nil {
			if from == at || !errors.Is(c.end, io.EOF) {
				return 0, 0, c.end
			}
			end, next = from, from
			break
		}
		c.fill()
	}
	if end-at > maxLineBytes {
		return 0, 0, errLineTooLong
	}
	for end > at && c.buf[end-1] == '\r' { // two where a program wrote \r\n, and another made \r\n of its \n
		end--
	}
	return end, next, nil
}

// fill reads more.
func (c *csvReader) fill() {
	const chunk = 64 << 10
	if cap(c.buf)-len(c.buf) < chunk {
		c.buf = append(make([]byte, 0, 2*len(c.buf)+2*chunk), c.buf...)
	}
	n, err := c.r.Read(c.buf[len(c.buf) : len(c.buf)+chunk])
	c.buf, c.end = c.buf[:len(c.buf)+n], err
}

// consume goes to a place, lines further.
func (c *csvReader) consume(to, lines int) {
	c.start = to
	c.line += lines
	if c.start > len(c.buf)/2 {
		c.buf = c.buf[:copy(c.buf, c.buf[c.start:])]
		c.start = 0
	}
}

// skipLong goes behind a line that is too long, without holding it.
func (c *csvReader) skipLong() error {
	for {
		if i := bytes.IndexByte(c.buf[c.start:], '\n'); i >= 0 {
			c.consume(c.start+i+1, 1)
			return nil
		}
		c.buf, c.start = c.buf[:0], 0
		if c.end != nil {
			c.line++
			if errors.Is(c.end, io.EOF) {
				return nil
			}
			return c.end
		}
		c.fill()
	}
}

// hint reads a first line such as sep=; with which spreadsheets say what separates cells.
func (c *csvReader) hint() (separator byte, ok bool) {
	end, next, err := c.lineAt(c.start)
	if err != nil {
		return 0, false
	}
	const sep = "sep="
	text := strings.Trim(string(c.buf[c.start:end]), `"`)
	if len(text) == len(sep)+1 && strings.EqualFold(text[:len(sep)], sep) && text[len(sep)] != '"' {
		c.consume(next, 1)
		return text[len(sep)], true
	}
	return 0, false
}

// atEnd reports whether nothing but white space follows, of at most headerBytes.
func (c *csvReader) atEnd() bool {
	isBlank := func() bool {
		return len(c.buf)-c.start <= headerBytes && len(bytes.TrimSpace(c.buf[c.start:])) == 0
	}
	for c.end == nil && isBlank() {
		c.fill()
	}
	return errors.Is(c.end, io.EOF) && isBlank()
}

// firstLine goes to the first line that is not white space and returns it, as far as it was read.
func (c *csvReader) firstLine() []byte {
	for {
		end, next, err := c.lineAt(c.start)
		if err != nil {
			return bytes.TrimSpace(c.buf[c.start:])
		}
		if line := bytes.TrimSpace(c.buf[c.start:end]); len(line) > 0 {
			return c.buf[c.start:end]
		}
		c.consume(next, 1)
	}
}
