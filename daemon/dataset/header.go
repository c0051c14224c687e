package dataset

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
)

// How far a header is looked for, and how many lines have to agree. Chosen by hand.
const (
	headerBytes = 64 << 10
	headerLines = 20 // with the header
	mostTitles  = 10
	leastAlike  = 3
)

// line is one of the first lines of a file.
type line struct {
	text   []byte
	number int
	at     int // in the buffer
}

// findHeader goes to the header and sets the separator: that of the first line, unless the second one has other cells.
// Then the separator is looked for by which the lines behind the header agree with it. It returns the numbers of the
// lines above the header, such as a title. It waits for no more than two lines unless these differ.
func (c *csvReader) findHeader() (titles []int) {
	first := bytes.Clone(c.firstLine())
	c.Comma = sniff(first)
	if lines := c.firstLines(2, 0); len(lines) < 2 || cellsOf(lines[0].text, c.Comma) == cellsOf(lines[1].text, c.Comma) {
		return nil
	}
	lines := c.firstLines(headerLines, headerBytes)
	best, comma := len(lines), c.Comma
	for _, separator := range slices.Concat([]byte{c.Comma}, separators) { // the first of those that fit alike
		if at := headerAt(lines, separator); at >= 0 && at < best {
			best, comma = at, separator
		}
	}
	if best == len(lines) {
		return nil
	}
	for _, title := range lines[:best] {
		titles = append(titles, title.number)
	}
	c.Comma = comma
	c.consume(lines[best].at, lines[best].number-lines[0].number)
	return titles
}

// headerAt returns the index of the line with which those behind it agree, negative for none. The lines above it have
// to look like titles or comments: a header with fewer names than there are columns is none.
func headerAt(lines []line, separator byte) int {
	for i := range lines[:min(mostTitles, len(lines))] {
		cells := cellsOf(lines[i].text, separator)
		alike := 0
		for _, l := range lines[i+1:] {
			if cellsOf(l.text, separator) == cells {
				alike++
			}
		}
		isHeader := cells > 1 && alike+1 >= leastAlike && 10*alike >= 8*(len(lines)-i-1) &&
			(i == 0 || !hasNumber(lines[i].text, separator))
		if isHeader && cellsOf(lines[i+1].text, separator) == cells {
			return i
		}
		if !isTitle(lines[i].text) {
			return -1
		}
	}
	return -1
}

// year matches what a column of a year is called.
var year = regexp.MustCompile(`^(19|20)\d\d$`)

// hasNumber reports whether a line has a number that is no year: it is a row, and no header below a title.
func hasNumber(text []byte, separator byte) bool {
	for cell := range bytes.SplitSeq(text, []byte{separator}) {
		cell = bytes.Trim(cell, "\" \r")
		if _, isNumber := parseNumber(string(cell)); isNumber && !year.Match(cell) {
			return true
		}
	}
	return false
}

// isTitle reports whether a line is a comment, or words without a separator.
func isTitle(text []byte) bool {
	return text[0] == '#' || !bytes.ContainsAny(text, "\t;|\"") && bytes.Count(text, []byte{','}) < 2 &&
		bytes.ContainsAny(text, " :")
}

// cellsOf returns how many cells a line has, 0 for one with an open quote.
func cellsOf(text []byte, separator byte) int {
	quoted, cells := false, 1
	for _, b := range text {
		switch {
		case b == '"':
			quoted = !quoted
		case b == separator && !quoted:
			cells++
		}
	}
	if quoted {
		return 0
	}
	return cells
}

// firstLines returns the first lines that are not empty, at most so many, of which those behind the first two begin
// within that many bytes. It holds no more than headerBytes of empty lines.
func (c *csvReader) firstLines(most, size int) (lines []line) {
	empty := 0
	for at, number := c.start, c.line; len(lines) < most && empty < headerBytes &&
		(len(lines) < 2 || at-c.start < size); number++ {
		end, next, err := c.lineAt(at)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, errLineTooLong) {
				break
			}
			return nil
		}
		if len(bytes.TrimSpace(c.buf[at:end])) > 0 {
			lines = append(lines, line{number: number, at: at, text: c.buf[at:end]})
		} else {
			empty += next - at
		}
		at = next
	}
	for i := range lines { // what was read later may have moved the buffer
		end := bytes.IndexByte(c.buf[lines[i].at:], '\n')
		if end < 0 {
			end = len(c.buf) - lines[i].at
		}
		lines[i].text = c.buf[lines[i].at : lines[i].at+end]
	}
	return lines
}
