package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// EncodeVocabulary returns the file vocabulary: a line ["field","name"] for each column that has a name, in column
// order.
func EncodeVocabulary(c *Contents) ([]byte, error) {
	var b []byte
	fields := c.Schema.Named()
	for f, names := range c.Vocabulary {
		field := fields[f]
		prefix := append(appendString([]byte{'['}, field), ',')
		for _, name := range names {
			if !utf8.ValidString(name) {
				return nil, fmt.Errorf(
					"vocabulary: field %q has the name %q, which is not UTF-8 and cannot come from a JSON event", field,
					name)
			}
			b = append(append(appendString(append(b, prefix...), name), ']'), '\n')
		}
	}
	if len(b) > MaxNamesBytes {
		return nil, fmt.Errorf("vocabulary of %d bytes, the limit is %d: lower train.max_features or shorten the names",
			len(b), MaxNamesBytes)
	}
	return b, nil
}

// DecodeVocabulary sets c.Vocabulary; the schema of c is known.
func DecodeVocabulary(c *Contents, b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("vocabulary: %w: not UTF-8", disk.ErrFormat)
	}
	fields := c.Schema.Named()
	c.Vocabulary = make([][]string, len(fields))
	prefixes := make([]string, len(fields))
	for f, name := range fields {
		prefixes[f] = string(append(appendString([]byte{'['}, name), ','))
	}
	// One list for all, as names stand in the order of their fields.
	all := make([]string, 0, min(bytes.Count(b, []byte{'\n'}), len(b)/shortestLine))
	rest, f, first := string(b), 0, 0
	next := func() {
		if first < len(all) {
			c.Vocabulary[f] = all[first:len(all):len(all)]
		}
		f, first = f+1, len(all)
	}
	for number := 1; rest != ""; number++ {
		line, after, ok := strings.Cut(rest, "\n")
		rest = after
		for f < len(prefixes) && !strings.HasPrefix(line, prefixes[f]) {
			next()
		}
		if !ok || f == len(prefixes) || !strings.HasSuffix(line, "]") {
			return fmt.Errorf(
				"vocabulary, line %d: %w: want [\"field\",\"name\"] with the fields in the order of the schema", number,
				disk.ErrFormat)
		}
		name, err := parseString(strings.TrimSuffix(line[len(prefixes[f]):], "]"))
		if err != nil {
			return fmt.Errorf("vocabulary, line %d: %w: %v", number, disk.ErrFormat, err)
		}
		all = append(all, name)
	}
	for f < len(prefixes) {
		next()
	}
	return nil
}

// shortestLine is how many bytes a line has at least.
const shortestLine = len(`["f","n"]`)

// parseString reads a JSON string. One without escapes, as almost all are, is not copied.
func parseString(text string) (string, error) {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		plain := true
		for i := 1; i < n-1 && plain; i++ {
			plain = text[i] >= ' ' && text[i] != '"' && text[i] != '\\'
		}
		if plain {
			return text[1 : n-1], nil
		}
	}
	var s string
	err := json.Unmarshal([]byte(text), &s)
	return s, err
}

// appendString appends a JSON string without the escapes for HTML.
func appendString(dst []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("snapshot: " + err.Error()) // a string always encodes
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...)
}
