package strictyaml

import (
	"bytes"
	"fmt"
)

// The parser's time and stack grow with the square of nesting and size, so both are bounded before it runs. A hundred
// models with every key written out stay below these limits.
const (
	maxSeparators = 44_000
	maxNesting    = 16
)

// checkComplexity refuses files that would keep the parser busy. It overestimates: separators and brackets inside text
// count.
func checkComplexity(src []byte) error {
	separators := 0
	for line := range bytes.Lines(src) {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		inLine := 0
		for i, b := range line {
			switch b {
			case ',', ':', '[', '{', '?', '&', '*', '!', '|', '>':
				separators++
			case '-':
				separators++
				if i+1 < len(line) && line[i+1] == ' ' {
					inLine++
				}
			}
		}
		if inLine > maxNesting {
			return fmt.Errorf("lists are nested more than %d deep in one line", maxNesting)
		}
	}
	if separators > maxSeparators {
		return fmt.Errorf("the file has more than %d keys, entries and separators", maxSeparators)
	}
	depth := 0
	for _, b := range src {
		switch b {
		case '[', '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("brackets are nested more than %d deep", maxNesting)
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return nil
}
