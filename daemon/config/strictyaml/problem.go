package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Problem is one mistake in a configuration file.
type Problem struct {
	Line   int `json:"line"`   // from 1
	Column int `json:"column"` // from 1
	// path of the key, such as models[0].train.lambda; empty for the whole file
	Key        string `json:"key"`
	Message    string `json:"message"`              // what is wrong, for people
	Suggestion string `json:"suggestion,omitempty"` // nearest known key, or what to write
}

// FileError lists every mistake of a configuration file, in the order of its lines.
type FileError struct {
	Path     string
	Problems []Problem

	source []byte
	parsed bool         // the file is YAML
	root   reflect.Type // of the whole file
}

// Error returns, for each mistake, file:line:column, the key, what is wrong, the line itself with a caret, and the
// suggestion.
func (e *FileError) Error() string {
	lines := strings.Split(strings.ReplaceAll(string(e.source), "\r\n", "\n"), "\n")
	strange := !e.parsed || slices.ContainsFunc(e.Problems,
		func(p Problem) bool { return isStrangeSignIn(p, e.root) })
	from := hide(lines, e.root, strange)
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: ", e.Path, p.Line, p.Column)
		if p.Key != "" {
			fmt.Fprintf(&b, "%s: ", p.Key)
		}
		b.WriteString(p.Message)
		if 0 < p.Line && p.Line <= len(lines) {
			text, column := excerpt(
				visible(lines[p.Line-1], from[p.Line-1], p.Key[strings.LastIndexByte(p.Key, '.')+1:], e.root), p.Column)
			fmt.Fprintf(&b, "\n%6d | %s\n       | %s^", p.Line, text, strings.Repeat(" ", column-1))
		}
		if p.Suggestion != "" {
			fmt.Fprintf(&b, "\n       = did you mean %s?", p.Suggestion)
		}
	}
	return b.String()
}

// excerptBytes is how much of a long line an excerpt shows.
const excerptBytes = 120

// excerpt cuts a long line to the part around the column, and replaces what a terminal would act on.
func excerpt(line string, column int) (string, int) {
	column = max(1, min(column, len(line)+1))
	if cut := column - excerptBytes/2; len(line) > excerptBytes && cut > 0 {
		line, column = line[cut:], column-cut
	}
	if len(line) > excerptBytes {
		line = line[:excerptBytes]
	}
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, "?"))
	return line, column
}

// Nearest returns the known key that key most likely means, or "". Kafka's dotted spelling, dashes and camel case
// count as the snake case they correspond to.
func Nearest(key string, known []string) string {
	snake := snakeCase(key)
	best, bestDistance := "", max(2, len(snake)/3)+1
	for _, k := range known {
		if d := EditDistance(snake, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

func snakeCase(key string) string {
	var b strings.Builder
	for i, r := range key {
		switch {
		case r == '.' || r == '-' || r == ' ':
			b.WriteByte('_')
		case 'A' <= r && r <= 'Z':
			if i > 0 {
				b.WriteByte('_')
			}
			b.WriteRune(r + 'a' - 'A')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// EditDistance is Levenshtein's. Long keys are cut: nothing known is longer.
func EditDistance(a, b string) int {
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(diagonal+cost, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
