package dataset

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type cellKind uint8

const (
	textCell cellKind = iota
	numberCell
	listCell
	timeCell
	binaryCell
	vectorCell // text that is a list in JSON, or a list of numbers
)

// timeUnits are the units of event times.
var timeUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond,
	"ns": time.Nanosecond}

// sqlNone is what MySQL and Hive write for null, in columns of any type.
const sqlNone = `\N`

// noneTexts are what numpy, pandas, R, Python, databases, spreadsheets, SAS, Weka and JavaScript write for a value that
// is missing, in small letters. None of them is a number or a time.
var noneTexts = map[string]bool{"nan": true, "-nan": true, "na": true, "n/a": true, "#n/a": true, "<na>": true,
	"null": true, "none": true, "nat": true, "nil": true, "(null)": true, "?": true, "-": true, "--": true, ".": true,
	"1.#qnan": true, "1.#ind": true, "-1.#ind": true, "#div/0!": true, "#value!": true,
	"#ref!": true, "#name?": true, "#num!": true, "#null!": true, "n.a.": true, "missing": true, "unknown": true,
	"undefined": true}

// maxNoneText is the length of the longest of noneTexts.
const maxNoneText = 9

// spellsNone reports whether a cell is one of noneTexts or sqlNone.
func spellsNone(cell string) bool {
	return len(cell) <= maxNoneText && (cell == sqlNone || noneTexts[strings.ToLower(cell)])
}

// isNone reports whether a cell of a kind holds no value. A name may be called NA, so of names only an empty cell and
// sqlNone are none.
func isNone(kind cellKind, cell string) bool {
	if kind == textCell || kind == listCell {
		return cell == "" || cell == sqlNone
	}
	return cell == "" || spellsNone(cell)
}

// wholeNumber matches the one way in which JSON writes a whole number, which as a name is the same text. A zero before
// other digits makes a code.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// isPadded reports whether a cell is digits that begin with a zero, as codes are written.
func isPadded(cell string) bool {
	digits := strings.TrimLeft(cell, "+-")
	return len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0123456789") == ""
}

// appendCell appends a JSON value. What is not of its kind stays text, which the decoder refuses by name.
func (t *Table) appendCell(dst []byte, kind cellKind, cell string) []byte {
	switch kind {
	case listCell:
		dst = append(dst, '[')
		for i, name := range strings.Split(cell, "|") {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, []byte(strings.TrimSpace(name)))
		}
		return append(dst, ']')
	case binaryCell:
		if b := strings.ToLower(cell); b == "true" || b == "false" {
			return append(dst, b...)
		}
		return appendNumber(dst, t.plain(cell))
	case timeCell:
		if at, ok := parseTime(cell); ok && t.unit > 0 {
			if t.loose && t.file == nil {
				return appendString(dst, []byte(at.Truncate(time.Millisecond).Format(time.RFC3339Nano)))
			}
			return strconv.AppendInt(dst, at.Unix()*int64(time.Second/t.unit)+int64(at.Nanosecond())/int64(t.unit), 10)
		}
		return appendNumber(dst, t.plain(cell))
	case numberCell:
		return appendNumber(dst, t.plain(cell))
	}
	if t.loose && wholeNumber.MatchString(cell) {
		return append(dst, cell...)
	}
	return appendString(dst, []byte(cell))
}

// appendNumber appends a JSON number for what is one in another spelling, too (+1, .5, 1., 04), else the text.
func appendNumber(dst []byte, cell string) []byte {
	if isNumber([]byte(cell)) {
		return append(dst, cell...)
	}
	v, ok := parseNumber(cell)
	if !ok {
		return appendString(dst, []byte(cell))
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// parseNumber reads a number in a spelling that a cell may have: no infinity, and none with a base.
func parseNumber(cell string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(cell, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) && !strings.ContainsAny(cell, "xXpP_")
}
