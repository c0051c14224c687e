package margin

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrCost is wrapped by complaints about a cost matrix.
var ErrCost = errors.New("margin: invalid cost matrix")

// MaxClasses is the largest cost matrix that ReadCost takes.
const MaxClasses = 10_000

// ReadCost reads the cost matrix of Structured: m lines of m numbers with commas between them, line y for class y that
// is true, column c for the answer c, all at least 0 and 0 on the diagonal. A first line that has no number is the
// names of the classes, in the order of lines and columns; without it, names are nil. Empty lines do not count. Errors
// wrap ErrCost and say in which line and column, from 1.
func ReadCost(r io.Reader) (cost [][]float64, names []string, err error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	lines := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff")))) // a mark that spreadsheets write
	lines.TrimLeadingSpace = true
	width := 0
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		line, _ := lines.FieldPos(0)
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return nil, nil, fmt.Errorf("%w: %w", ErrCost, err)
		}
		if width == 0 {
			if width = len(fields); width > MaxClasses {
				return nil, nil, fmt.Errorf("%w: line %d has %d columns, more than %d", ErrCost, line, width,
					MaxClasses)
			}
			if names = namesIn(fields); names != nil {
				continue
			}
		}
		if len(fields) != width {
			return nil, nil, fmt.Errorf("%w: line %d has %d columns, the first %d: it is a square", ErrCost, line,
				len(fields), width)
		}
		row, err := costsOf(fields, len(cost))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: line %d, %w", ErrCost, line, err)
		}
		if cost = append(cost, row); len(cost) > width {
			return nil, nil, fmt.Errorf("%w: line %d is row %d of a matrix of %d columns: it is a square", ErrCost,
				line, len(cost), width)
		}
	}
	if len(cost) != width || width == 0 {
		return nil, nil, fmt.Errorf("%w: %d rows of %d columns: it is a square", ErrCost, len(cost), width)
	}
	return cost, names, nil
}

// costsOf reads the costs of the answers where class y is true. The error says in which column it is.
func costsOf(fields []string, y int) ([]float64, error) {
	row := make([]float64, len(fields))
	for c, text := range fields {
		var err error
		if row[c], err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil {
			return nil, fmt.Errorf("column %d: %q is not a number", c+1, text)
		}
		if err := checkEntry(y, c, row[c]); err != nil {
			return nil, fmt.Errorf("column %d: %w", c+1, err)
		}
	}
	return row, nil
}

// namesIn returns the fields if none of them is a number.
func namesIn(fields []string) (names []string) {
	for _, text := range fields {
		text = strings.TrimSpace(text)
		if _, err := strconv.ParseFloat(text, 64); err == nil || text == "" {
			return nil
		}
		names = append(names, text)
	}
	return names
}

// checkEntry returns an error if a cost cannot be that of answering c where y is true.
func checkEntry(y, c int, cost float64) error {
	switch {
	case !(cost >= 0 && cost <= maxCost):
		return fmt.Errorf("a cost of %g is not from 0 to %g", cost, maxCost)
	case c == y && cost != 0:
		return fmt.Errorf("%g on the diagonal: the true class costs nothing", cost)
	}
	return nil
}

// checkCost returns an error that wraps ErrCost, with the place, unless a matrix is as ReadCost takes it.
func checkCost(cost [][]float64) error {
	for y, row := range cost {
		if len(row) != len(cost) {
			return fmt.Errorf("%w: row %d has %d columns, not %d", ErrCost, y+1, len(row), len(cost))
		}
		for c, x := range row {
			if err := checkEntry(y, c, x); err != nil {
				return fmt.Errorf("%w: row %d, column %d: %w", ErrCost, y+1, c+1, err)
			}
		}
	}
	return nil
}
