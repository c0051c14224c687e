package config

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
)

// decoder fills a Config from YAML by reflection over the json tags. Unlike the library's strict decoding it
// continues after a mistake. It remembers the position of each key for the validation that follows.
type decoder struct {
	lookupEnv func(string) (string, bool)
	at        map[string]position
	suggested map[string]bool // keys that an unknown one probably means: they are not reported as missing
	parsed    bool            // the file is YAML
	problems  []Problem
}

type position struct{ line, column int }

func newDecoder(lookupEnv func(string) (string, bool)) *decoder {
	return &decoder{lookupEnv: lookupEnv, at: make(map[string]position), suggested: make(map[string]bool)}
}

func (d *decoder) decode(src []byte, c *Config) {
	if isUTF16(src) {
		d.add(position{1, 1}, "", "the file is UTF-16: save it in UTF-8", "")
		return
	}
	if err := checkComplexity(src); err != nil {
		d.add(position{1, 1}, "", err.Error()+": write a smaller file", "")
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
		d.add(at, "", "not YAML: "+quoted.ReplaceAllString(message, redacted), "")
		return
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	if len(docs) != 1 {
		d.add(position{1, 1}, "", fmt.Sprintf("the file has %d documents: write exactly one", len(docs)), "")
		return
	}
	d.parsed = true
	d.value(docs[0].Body, reflect.ValueOf(c).Elem(), "")
}

// value decodes node into dst and records its place under path.
func (d *decoder) value(node ast.Node, dst reflect.Value, path string) {
	switch n := node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.add(place(node), path, "anchors, aliases and merge keys are not read: write the value out", "")
		return
	case *ast.TagNode:
		d.add(place(node), path, "tags are not read: write the plain value", "")
		return
	case *ast.NullNode:
		if dst.Kind() != reflect.Pointer {
			d.add(d.locate(path), path, "has no value: write one, or leave the key out for its default", "")
		}
		return
	case *ast.CommentGroupNode:
		d.add(place(node), path, "has no value: write one, or leave the key out for its default", "")
		return
	case *ast.MappingValueNode:
		node = &ast.MappingNode{BaseNode: n.BaseNode, Start: n.Start, Values: []*ast.MappingValueNode{n}}
	}
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	if s, ok := dst.Addr().Interface().(*Secret); ok {
		d.secret(node, s, path)
		return
	}
	if t, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := scalar(node)
		if !ok {
			d.wrongType(node, path, "a single value")
		} else if err := t.UnmarshalText([]byte(text)); err != nil {
			d.add(place(node), path, fmt.Sprintf("%q %s", text, err), "")
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

func (d *decoder) mapping(node ast.Node, dst reflect.Value, path string) {
	n, ok := node.(*ast.MappingNode)
	if !ok {
		d.wrongType(node, path, "a mapping of keys: "+strings.Join(keys(dst.Type()), ", "))
		return
	}
	seen := make(map[string]position)
	for _, entry := range n.Values {
		at := place(entry.Key)
		key, ok := scalar(entry.Key)
		if !ok {
			d.value(entry.Key, dst, path)
			continue
		}
		child := join(path, key)
		i := slices.Index(keys(dst.Type()), key)
		if i < 0 {
			d.unknown(at, path, key, dst.Type())
			continue
		}
		if first, ok := seen[key]; ok {
			d.add(at, child, fmt.Sprintf("is written twice, first in line %d: keep one", first.line), "")
			continue
		}
		seen[key] = at
		d.at[child] = place(entry.Value)
		if entry.Value.Type() == ast.NullType {
			d.at[child] = at
		}
		if s, ok := dst.Addr().Interface().(*Schema); ok &&
			slices.Contains([]string{"categorical", "numeric", "multi"}, key) {
			d.fields(entry.Value, s, dst.Field(i), child)
			continue
		}
		d.value(entry.Value, dst.Field(i), child)
	}
	switch of := dst.Addr().Interface().(type) {
	case *Schema:
		of.takeDerived()
	case *Model:
		of.takeTables()
	}
}

// fields decodes a list of the schema, whose entries may be a Field in place of a name.
func (d *decoder) fields(node ast.Node, s *Schema, dst reflect.Value, path string) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.value(node, dst, path)
		return
	}
	names := make([]string, len(list.Values))
	for i, entry := range list.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.at[child] = place(entry)
		if t := entry.Type(); t != ast.MappingType && t != ast.MappingValueType {
			d.value(entry, reflect.ValueOf(&names[i]).Elem(), child)
			continue
		}
		var f Field
		d.value(entry, reflect.ValueOf(&f).Elem(), child)
		if names[i] = f.Name; f.Optional {
			s.Optional = append(s.Optional, f.Name)
			slices.Sort(s.Optional)
		}
		if _, said := d.at[child+".weight"]; said {
			if s.ListWeights == nil {
				s.ListWeights = make(map[string]string)
			}
			s.ListWeights[f.Name] = f.Weight
		}
		if f.Of != "" {
			if s.Of == nil {
				s.Of = make(map[string]string)
			}
			s.Of[f.Name] = f.Of
		}
	}
	dst.Set(reflect.ValueOf(names))
}

// unknown reports a key that the mapping at path does not have, with the nearest one it has or the place where the key
// belongs.
func (d *decoder) unknown(at position, path, key string, t reflect.Type) {
	known := keys(t)
	suggestion := nearest(key, known)
	d.suggested[join(path, suggestion)] = true
	if EditDistance(snakeCase(key), suggestion) > 0 {
		if elsewhere := findKey(reflect.TypeFor[Config](), snakeCase(key), ""); elsewhere != "" {
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
	if suggestion == "" && t == reflect.TypeFor[SASL]() {
		shown = redacted // like no key: it may be the password itself
	}
	d.add(at, join(path, shown),
		fmt.Sprintf("unknown key %q %s: known are %s", shown, where, strings.Join(known, ", ")), suggestion)
}

// findKey returns the first path in t that ends in key, or "".
func findKey(t reflect.Type, key, path string) string {
	switch t.Kind() {
	case reflect.Slice:
		return findKey(t.Elem(), key, path+"[]")
	case reflect.Struct:
		for i, name := range keys(t) {
			if name == key {
				return join(path, key)
			}
			if found := findKey(t.Field(i).Type, key, join(path, name)); found != "" {
				return found
			}
		}
	}
	return ""
}

func (d *decoder) sequence(node ast.Node, dst reflect.Value, path string) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrongType(node, path, "a list, such as [a, b]")
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(n.Values), len(n.Values))
	for i, entry := range n.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.at[child] = place(entry)
		if m, ok := out.Index(i).Addr().Interface().(*Model); ok {
			*m = DefaultModel()
		}
		d.value(entry, out.Index(i), child)
	}
	dst.Set(out)
}

// plain decodes text, whole numbers, numbers and booleans, without converting one into another.
func (d *decoder) plain(node ast.Node, dst reflect.Value, path string) {
	switch dst.Kind() {
	case reflect.String:
		text, ok := text(node)
		if !ok {
			d.wrongType(node, path, `text; put a number or a word like true in quotes`)
			return
		}
		if strings.Contains(text, "${") {
			d.add(place(node), path, "the environment is read for secrets only: write the value itself", "")
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
				d.add(place(node), path, "is too large", "")
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
				d.add(place(node), path, "is negative: write a whole number from 0", "")
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
func (d *decoder) secret(node ast.Node, dst *Secret, path string) {
	value, ok := text(node)
	if !ok {
		d.add(place(node), path, "must be text: put it in quotes, or write ${NAME} for a variable of the environment",
			"")
		return
	}
	if name, ok := strings.CutPrefix(value, "${"); ok && strings.HasSuffix(name, "}") {
		name = strings.TrimSuffix(name, "}")
		if value, ok = d.lookupEnv(name); !ok || value == "" {
			if !variableName.MatchString(name) {
				name = redacted
			}
			d.add(place(node), path, fmt.Sprintf("the environment variable %s is not set", name), "")
			return
		}
	}
	*dst = NewSecret(value)
}

func (d *decoder) wrongType(node ast.Node, path, want string) {
	got := map[ast.NodeType]string{
		ast.IntegerType: "a whole number", ast.FloatType: "a number", ast.InfinityType: "an infinite number",
		ast.NanType:  "not a number",
		ast.BoolType: "true or false", ast.StringType: "text", ast.LiteralType: "text", ast.MappingType: "a mapping",
		ast.SequenceType: "a list",
	}[node.Type()]
	if got == "" {
		got = strings.ToLower(node.Type().String())
	}
	d.add(place(node), path, fmt.Sprintf("wrong type: this is %s, expected %s", got, want), "")
}

func (d *decoder) add(at position, key, message, suggestion string) {
	d.problems = append(d.problems,
		Problem{Line: at.line, Column: at.column, Key: key, Message: message, Suggestion: suggestion})
}

// sorted returns the problems in the order of the file.
func (d *decoder) sorted() []Problem {
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.problems
}

// locate returns the place of the key, or of the nearest enclosing one that the file has.
func (d *decoder) locate(path string) position {
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

// scalar returns the source text of a single value.
func scalar(node ast.Node) (string, bool) {
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

// keys returns the keys of a struct in field order. Fields that are not exported or not of the file have none; they
// come last.
func keys(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("yaml") != "-" {
			names = append(names, keyOf(f))
		}
	}
	return names
}

// keyOf returns the key of a field.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
