// Package strictyaml reads one YAML document into a struct, strictly: every mistake at once, each with its line, its
// key and what to write, and no secret in any message. It knows no key and checks no value; package config does.
// A Decoder belongs to one goroutine.
package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/refitd/refitd/daemon/config/scalar"
)

// Decoder fills a struct from YAML by reflection over the json tags. Unlike the library's strict decoding it continues
// after a mistake. It remembers the position of each key for the validation that follows.
type Decoder struct {
	root      reflect.Type // of the whole file
	lookupEnv func(string) (string, bool)
	at        map[string]position
	Suggested map[string]bool // keys that an unknown one probably means: they are not reported as missing
	Parsed    bool            // the file is YAML
	Problems  []Problem       // in the order in which they were found
}

type position struct{ line, column int }

// entryDecoder is a struct with entries of another form than its fields have.
type entryDecoder interface {
	// DecodeEntry decodes the value of a key of the struct, or returns false for the decoder to do so.
	DecodeEntry(d *Decoder, key string, value ast.Node, path string) bool
	// Decoded is called after the last entry.
	Decoded()
}

// defaulter is an element of a list that does not begin at its zero.
type defaulter interface{ SetDefaults() }

// NewDecoder returns a decoder of files that are a struct of type root. lookupEnv resolves ${NAME} in secrets; nil is
// for what is decoded from no file.
func NewDecoder(root reflect.Type, lookupEnv func(string) (string, bool)) *Decoder {
	return &Decoder{root: root, lookupEnv: lookupEnv, at: make(map[string]position), Suggested: make(map[string]bool)}
}

// Decode fills what into points to, a struct of the decoder's root, and notes what is wrong with the file.
func (d *Decoder) Decode(src []byte, into any) {
	if isUTF16(src) {
		d.Add(position{1, 1}, "", "the file is UTF-16: save it in UTF-8", "")
		return
	}
	if err := checkComplexity(src); err != nil {
		d.Add(position{1, 1}, "", err.Error()+": write a smaller file", "")
		return
	}
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := position{1, 1}, err.Error()
		var located yaml.Error
		if errors.As(err, &located) {
			message = located.GetMessage()
			if t := located.GetToken(); t != nil && t.Position != nil {
				at = position{t.Position.Line, t.Position.Column}
			}
		}
		d.Add(at, "", "not YAML: "+Quoted.ReplaceAllString(message, scalar.Redacted), "")
		return
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	if len(docs) != 1 {
		d.Add(position{1, 1}, "", fmt.Sprintf("the file has %d documents: write exactly one", len(docs)), "")
		return
	}
	d.Parsed = true
	d.value(docs[0].Body, reflect.ValueOf(into).Elem(), "")
}

// Into decodes a node into what a pointer points to.
func (d *Decoder) Into(node ast.Node, pointer any, path string) {
	d.value(node, reflect.ValueOf(pointer).Elem(), path)
}

// Note remembers the place of a key or entry.
func (d *Decoder) Note(path string, node ast.Node) { d.at[path] = place(node) }

// Has reports whether the file has a key.
func (d *Decoder) Has(path string) bool {
	_, ok := d.at[path]
	return ok
}

// FileError returns an error with problems of the file src.
func (d *Decoder) FileError(path string, src []byte, problems []Problem) *FileError {
	return &FileError{Path: path, Problems: problems, source: src, parsed: d.Parsed, root: d.root}
}

// ByteOrderMark begins text that some editors write. It is no part of the text.
const ByteOrderMark = "\ufeff"

// isUTF16 reports whether text is UTF-16: by its mark, or by the zeros in its first letter.
func isUTF16(src []byte) bool {
	begin := string(src[:min(len(src), 2)])
	return begin == "\xff\xfe" || begin == "\xfe\xff" || len(begin) == 2 && (begin[0] == 0) != (begin[1] == 0)
}

// value decodes node into dst and records its place under path.
func (d *Decoder) value(node ast.Node, dst reflect.Value, path string) {
	switch n := node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.Add(place(node), path, "anchors, aliases and merge keys are not read: write the value out", "")
		return
	case *ast.TagNode:
		d.Add(place(node), path, "tags are not read: write the plain value", "")
		return
	case *ast.NullNode:
		if dst.Kind() != reflect.Pointer {
			d.Add(d.Locate(path), path, "has no value: write one, or leave the key out for its default", "")
		}
		return
	case *ast.CommentGroupNode:
		d.Add(place(node), path, "has no value: write one, or leave the key out for its default", "")
		return
	case *ast.MappingValueNode:
		node = &ast.MappingNode{BaseNode: n.BaseNode, Start: n.Start, Values: []*ast.MappingValueNode{n}}
	}
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	if s, ok := dst.Addr().Interface().(*scalar.Secret); ok {
		d.secret(node, s, path)
		return
	}
	if t, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := singleValue(node)
		if !ok {
			d.wrongType(node, path, "a single value")
		} else if err := t.UnmarshalText([]byte(text)); err != nil {
			d.Add(place(node), path, fmt.Sprintf("%q %s", text, err), "")
		}
		return
	}
	switch dst.Kind() {
	case reflect.Struct:
		d.mapping(node, dst, path)
	case reflect.Slice:
		d.sequence(node, dst, path)
	default:
		d.plain(node, dst, path)
	}
}

func (d *Decoder) mapping(node ast.Node, dst reflect.Value, path string) {
	n, ok := node.(*ast.MappingNode)
	if !ok {
		d.wrongType(node, path, "a mapping of keys: "+strings.Join(Keys(dst.Type()), ", "))
		return
	}
	seen := make(map[string]position)
	for _, entry := range n.Values {
		at := place(entry.Key)
		key, ok := singleValue(entry.Key)
		if !ok {
			d.value(entry.Key, dst, path)
			continue
		}
		child := Join(path, key)
		i := slices.Index(Keys(dst.Type()), key)
		if i < 0 {
			d.unknown(at, path, key, dst.Type())
			continue
		}
		if first, ok := seen[key]; ok {
			d.Add(at, child, fmt.Sprintf("is written twice, first in line %d: keep one", first.line), "")
			continue
		}
		seen[key] = at
		d.at[child] = place(entry.Value)
		if entry.Value.Type() == ast.NullType {
			d.at[child] = at
		}
		if own, ok := dst.Addr().Interface().(entryDecoder); ok && own.DecodeEntry(d, key, entry.Value, child) {
			continue
		}
		d.value(entry.Value, dst.Field(i), child)
	}
	if own, ok := dst.Addr().Interface().(entryDecoder); ok {
		own.Decoded()
	}
}

// unknown reports a key that the mapping at path does not have, with the nearest one it has or the place where the key
// belongs.
func (d *Decoder) unknown(at position, path, key string, t reflect.Type) {
	known := Keys(t)
	suggestion := Nearest(key, known)
	d.Suggested[Join(path, suggestion)] = true
	if EditDistance(snakeCase(key), suggestion) > 0 {
		if elsewhere := findKey(d.root, snakeCase(key), ""); elsewhere != "" {
			if suggestion = elsewhere; elsewhere == snakeCase(key) {
				suggestion += " at the top of the file"
			}
		}
	}
	where := "at the top of the file"
	if path != "" {
		where = "under " + path
	}
	shown := shownKey(key)
	if suggestion == "" && hasSecret(t) {
		shown = scalar.Redacted // like no key: it may be the password itself
	}
	d.Add(at, Join(path, shown),
		fmt.Sprintf("unknown key %q %s: known are %s", shown, where, strings.Join(known, ", ")), suggestion)
}

// findKey returns the first path in t that ends in key, or "".
func findKey(t reflect.Type, key, path string) string {
	switch t.Kind() {
	case reflect.Slice:
		return findKey(t.Elem(), key, path+"[]")
	case reflect.Struct:
		for i, name := range Keys(t) {
			if name == key {
				return Join(path, key)
			}
			if found := findKey(t.Field(i).Type, key, Join(path, name)); found != "" {
				return found
			}
		}
	}
	return ""
}

func (d *Decoder) sequence(node ast.Node, dst reflect.Value, path string) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrongType(node, path, "a list, such as [a, b]")
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(n.Values), len(n.Values))
	for i, entry := range n.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.at[child] = place(entry)
		if own, ok := out.Index(i).Addr().Interface().(defaulter); ok {
			own.SetDefaults()
		}
		d.value(entry, out.Index(i), child)
	}
	dst.Set(out)
}

// plain decodes text, whole numbers, numbers and booleans, without converting one into another.
func (d *Decoder) plain(node ast.Node, dst reflect.Value, path string) {
	switch dst.Kind() {
	case reflect.String:
		text, ok := text(node)
		if !ok {
			d.wrongType(node, path, `text; put a number or a word like true in quotes`)
			return
		}
		if strings.Contains(text, "${") {
			d.Add(place(node), path, "the environment is read for secrets only: write the value itself", "")
			return
		}
		dst.SetString(text)
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			d.wrongType(node, path, "true or false")
			return
		}
		dst.SetBool(b.Value)
	case reflect.Int:
		switch v := integer(node).(type) {
		case int64:
			dst.SetInt(v)
		case uint64:
			if v > math.MaxInt64 {
				d.Add(place(node), path, "is too large", "")
				return
			}
			dst.SetInt(int64(v))
		default:
			d.wrongType(node, path, "a whole number")
		}
	case reflect.Uint64:
		switch v := integer(node).(type) {
		case uint64:
			dst.SetUint(v)
		case int64:
			if v < 0 {
				d.Add(place(node), path, "is negative: write a whole number from 0", "")
				return
			}
			dst.SetUint(uint64(v))
		default:
			d.wrongType(node, path, "a whole number from 0")
		}
	case reflect.Float64:
		if f, ok := node.(*ast.FloatNode); ok && !math.IsInf(f.Value, 0) {
			dst.SetFloat(f.Value)
			return
		}
		switch v := integer(node).(type) {
		case int64:
			dst.SetFloat(float64(v))
		case uint64:
			dst.SetFloat(float64(v))
		default:
			d.wrongType(node, path, "a finite number")
		}
	default:
		panic("config: no rule to decode " + dst.Type().String())
	}
}

// secret reads a secret, which may be ${NAME} for a variable of the environment. Nothing of it enters a message.
func (d *Decoder) secret(node ast.Node, dst *scalar.Secret, path string) {
	value, ok := text(node)
	if !ok {
		d.Add(place(node), path, "must be text: put it in quotes, or write ${NAME} for a variable of the environment",
			"")
		return
	}
	if name, ok := strings.CutPrefix(value, "${"); ok && strings.HasSuffix(name, "}") {
		name = strings.TrimSuffix(name, "}")
		if value, ok = d.lookupEnv(name); !ok || value == "" {
			if !variableName.MatchString(name) {
				name = scalar.Redacted
			}
			d.Add(place(node), path, fmt.Sprintf("the environment variable %s is not set", name), "")
			return
		}
	}
	*dst = scalar.NewSecret(value)
}

func (d *Decoder) wrongType(node ast.Node, path, want string) {
	got := map[ast.NodeType]string{
		ast.IntegerType: "a whole number", ast.FloatType: "a number", ast.InfinityType: "an infinite number",
		ast.NanType:  "not a number",
		ast.BoolType: "true or false", ast.StringType: "text", ast.LiteralType: "text", ast.MappingType: "a mapping",
		ast.SequenceType: "a list",
	}[node.Type()]
	if got == "" {
		got = strings.ToLower(node.Type().String())
	}
	d.Add(place(node), path, fmt.Sprintf("wrong type: this is %s, expected %s", got, want), "")
}

// Add notes a problem at a place of the file.
func (d *Decoder) Add(at position, key, message, suggestion string) {
	d.Problems = append(d.Problems,
		Problem{Line: at.line, Column: at.column, Key: key, Message: message, Suggestion: suggestion})
}

// Sorted returns the problems in the order of the file.
func (d *Decoder) Sorted() []Problem {
	slices.SortStableFunc(d.Problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.Problems
}

// Locate returns the place of the key, or of the nearest enclosing one that the file has.
func (d *Decoder) Locate(path string) position {
	for {
		if at, ok := d.at[path]; ok {
			return at
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return position{1, 1}
		}
		path = path[:cut]
	}
}

// place returns where a node starts: for a mapping or list in block style, its first key or entry.
func place(node ast.Node) position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	if m, ok := node.(*ast.MappingValueNode); ok {
		node = m.Key
	}
	t := node.GetToken()
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// singleValue returns the source text of a single value.
func singleValue(node ast.Node) (string, bool) {
	if s, ok := text(node); ok {
		return s, true
	}
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return "", false
}

func text(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// integer returns an int64 or uint64, or nil if node is not a whole number.
func integer(node ast.Node) any {
	if n, ok := node.(*ast.IntegerNode); ok {
		return n.Value
	}
	return nil
}

// Keys returns the keys of a struct in field order. Fields that are not exported or not of the file have none; they
// come last.
func Keys(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("yaml") != "-" {
			names = append(names, KeyOf(f))
		}
	}
	return names
}

// KeyOf returns the key of a field.
func KeyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// Join appends a key to a path, which may be empty.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
