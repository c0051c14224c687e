package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
)

func (p *Profile) readJSON(path string, limit int) error {
	return scanLines(path, nil, func(line []byte, number int) error {
		if line = bytes.Trim(line, " \r"); len(line) == 0 {
			return nil
		}
		if p.Total == 0 && line[0] == '[' && line[len(line)-1] != ']' {
			return fmt.Errorf("dataset: %s is a list over many lines: write an object a line, as jq -c '.[]' does", path)
		}
		if p.Total++; p.Rows < limit {
			if bad := p.addJSON(line); bad != nil {
				p.Skipped.addJSON(bad, line, number)
			}
		}
		return nil
	})
}

// ProfileOf looks at values as records of a topic have them: those that are JSON objects are its rows. With each comes
// why it is none, where that is known already. Lines of Skipped count the values from 1.
func ProfileOf(values iter.Seq2[[]byte, *event.Rejection]) *Profile {
	p := newProfile(JSONL)
	number := 0
	for value, bad := range values {
		number++
		if bad == nil {
			bad = p.addJSON(value)
		}
		if bad != nil {
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
	if bad := objectFault(value); bad != nil {
		return bad
	}
	p.Rows++
	return p.addMembers(value, nil)
}

// objectFault says why a value is no JSON object that a decoder of events would read, whatever is in it; nil if it is
// one.
func objectFault(value jsontext.Value) *event.Rejection {
	d := jsontext.NewDecoder(bytes.NewReader(value), event.HalfPairs)
	depth := event.DefaultLimits().MaxDepth
	for {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return badLine(event.DuplicateKey)
		case err != nil:
			return badLine(event.NotJSON)
		case d.StackDepth() > depth:
			return badLine(event.TooDeep)
		case d.StackDepth() > 0:
		case token.Kind() != '}':
			return event.NoObject(value.Kind())
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return badLine(event.NotJSON)
	}
	return nil
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
		if c == nil && of == nil {
			return tooManyMembers
		}
		if c == nil {
			return nil
		}
		if value.Kind() == '{' {
			c.Present++
			c.Nested++
			if bad := p.addMembers(value, c); bad != nil {
				return bad
			}
			continue
		}
		c.addJSON(value)
	}
	return nil
}

// addJSON adds a value that is no object; null is none.
func (c *Column) addJSON(value jsontext.Value) {
	switch value.Kind() {
	case 'n':
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value)
		if len(text) == 0 {
			c.Empty++
			return
		}
		numbers := c.Numbers
		c.add(string(text))
		c.Quoted += c.Numbers - numbers
		if strings.EqualFold(string(text), "nan") {
			c.NaNs++
		}
	case 't', 'f':
		c.add(string(value))
		c.Literals++
	case '[':
		c.Present++
		c.Lists++
		c.addList(value)
	default:
		c.add(string(value))
		if value.Kind() == '0' && bytes.ContainsAny(value, ".eE") {
			c.Pointed++
		}
	}
}

// member returns the column of a member of the events or, unless of is nil, of objects in them, of which a map has no
// columns: nil.
func (p *Profile) member(of *Column, name string) *Column {
	if of == nil {
		return p.column(name)
	}
	path := []string{of.Name, name}
	if len(of.Path) > 0 {
		path = append(slices.Clone(of.Path), name)
	}
	key := pathSeparator + strings.Join(path, pathSeparator)
	if c := p.byName[key]; c != nil {
		return c
	}
	if of.Members++; of.Members > MaxMembers || p.isFull() {
		of.Members = MaxMembers + 1
		return nil
	}
	return p.newColumn(key, strings.Join(path, "."), path)
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
		c.count(name)
	}
}
