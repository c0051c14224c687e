package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// page is a text for a terminal of so many columns; 0 is no limit.
type page struct {
	bytes.Buffer
	columns int
}

// columnsOf returns how many columns what is written to w may have, 0 for no limit.
func columnsOf(w io.Writer) int {
	if p, ok := w.(*page); ok {
		return p.columns
	}
	return 0
}

// headed writes a table whose first row is its head. Where it is wider than the terminal each row is its first cell
// with the others, but for the empty ones, by name below it.
func headed(w io.Writer, rows [][]string) error {
	var aligned strings.Builder
	if err := table(&aligned, rows); err != nil {
		return err
	}
	columns := columnsOf(w)
	isWide := func(line string) bool { return utf8.RuneCountInString(line) > columns }
	if columns == 0 || !slices.ContainsFunc(strings.Split(aligned.String(), "\n"), isWide) {
		return say(w, "%s", aligned.String())
	}
	for _, row := range rows[1:] {
		var cells []string
		for i, cell := range row[1:] {
			if cell != "-" && cell != "" {
				cells = append(cells, rows[0][i+1]+" "+cell+",")
			}
		}
		text := strings.TrimSuffix(divide(cells, "  ", "  ", "", columns), ",\n")
		if err := say(w, "%s%s\n", wrap(row[0], columns, 0), text); err != nil {
			return err
		}
	}
	return nil
}

// prose writes lines of words, divided between words where they are wider than the terminal.
func prose(w io.Writer, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	columns := columnsOf(w)
	if columns == 0 {
		return say(w, "%s", text)
	}
	for line := range strings.Lines(text) {
		if err := say(w, "%s", wrap(strings.TrimSuffix(line, "\n"), columns, 2)); err != nil {
			return err
		}
	}
	return nil
}

// wrap divides a line between words into lines of so many characters, those after the first indented, each with its
// end. A longer word stays whole.
func wrap(line string, columns, indent int) string {
	words := strings.Fields(line)
	start := line[:len(line)-len(strings.TrimLeft(line, " "))]
	return divide(words, start, strings.Repeat(" ", indent), "", columns)
}

// command writes words of a shell as one command, continued over lines where it is wider than the terminal.
func command(w io.Writer, words []string) error {
	return say(w, "%s", divide(words, "  ", "    ", " \\", columnsOf(w)))
}

// divide joins words to lines of so many characters at most, 0 for one line; end is appended to each line that is
// continued.
func divide(words []string, start, indent, end string, columns int) string {
	var text strings.Builder
	line, empty := start, true
	for i, word := range words {
		room := columns
		if i < len(words)-1 {
			room -= len(end)
		}
		if columns > 0 && !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			text.WriteString(line + end + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return text.String() + line + "\n"
}
