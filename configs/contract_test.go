package configs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The contracts of this folder (openapi.json, http.md, json.md, config.schema.json) are made from the Go types and
// their doc comments. Each test here compares one of them with its file; go test ./configs -update writes the files.
var update = flag.Bool("update", false, "write the generated files")

const module = "github.com/refitd/refitd"

// same fails the test unless the file has the generated content.
func same(t *testing.T, name string, content []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(old, content) {
		return
	}
	was, is := strings.Split(string(old), "\n"), strings.Split(string(content), "\n")
	i := 0
	for i < len(was) && i < len(is) && was[i] == is[i] {
		i++
	}
	t.Errorf("%s is not what the code says, from line %d on: go test ./configs -update\nfile: %.300s\ncode: %.300s",
		name, i+1, strings.Join(was[min(i, len(was)):], "\n"), strings.Join(is[min(i, len(is)):], "\n"))
}

// object is a JSON object whose members stay in order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := text(m.key)
		if err != nil {
			return nil, err
		}
		value, err := text(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// text is json.Marshal without \u003c.
func text(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// get returns a member's value, nil without it.
func (o object) get(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// set replaces or adds a member; nil and "" change nothing.
func (o *object) set(key string, value any) {
	if value == nil || value == "" {
		return
	}
	for i := range *o {
		if (*o)[i].key == key {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{key, value})
}

// indented is the file form of a document.
func indented(t *testing.T, v any) []byte {
	t.Helper()
	compact, err := text(v)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

// pkg is what the source of a package says: the comments of types ("T"), fields ("T.F"), constants and variables ("c"),
// functions ("f") and methods ("T.m"), and the names of constants by their values as they are written.
type pkg struct {
	docs      map[string]string
	constants map[string]string
}

var packages = map[string]*pkg{}

// source parses a package of this module.
func source(t *testing.T, path string) *pkg {
	t.Helper()
	if p := packages[path]; p != nil {
		return p
	}
	p := &pkg{docs: map[string]string{}, constants: map[string]string{}}
	packages[path] = p
	files, err := filepath.Glob(filepath.Join("..", strings.TrimPrefix(path, module), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of %s (%v)", path, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			p.add(d)
		}
	}
	return p
}

func (p *pkg) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			typ := d.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if id, ok := typ.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		p.docs[name] = comment(d.Doc)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for i, name := range s.Names {
					p.docs[name.Name] = comment(s.Doc, s.Comment)
					if p.docs[name.Name] == "" && len(d.Specs) == 1 {
						p.docs[name.Name] = comment(d.Doc)
					}
					if i < len(s.Values) {
						if lit, ok := s.Values[i].(*ast.BasicLit); ok {
							p.constants[lit.Value] = name.Name
						}
					}
				}
			case *ast.TypeSpec:
				doc := comment(s.Doc)
				if doc == "" {
					doc = comment(d.Doc)
				}
				p.docs[s.Name.Name] = doc
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, f := range st.Fields.List {
						for _, name := range f.Names {
							p.docs[s.Name.Name+"."+name.Name] = comment(f.Doc, f.Comment)
						}
					}
				}
			}
		}
	}
}

// comment joins comments into one line.
func comment(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		if g != nil {
			parts = append(parts, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(parts, " ")
}

// described is a doc comment as a sentence: without the name that it begins with.
func described(doc, name string) string { return capital(bare(doc, name)) }

// bare is a doc comment without the name that it begins with.
func bare(doc, name string) string {
	for _, prefix := range []string{name + " is ", name + " are ", "A " + name + " is ", name + " "} {
		if rest, ok := strings.CutPrefix(doc, prefix); ok {
			return rest
		}
	}
	return doc
}

func capital(s string) string {
	if s == "" {
		return ""
	}
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// typeDoc is the doc comment of a type of this module as a sentence.
func typeDoc(t *testing.T, typ reflect.Type) string {
	if !strings.HasPrefix(typ.PkgPath(), module) {
		return ""
	}
	return described(source(t, typ.PkgPath()).docs[typ.Name()], typ.Name())
}

// property is a member of the JSON object that a struct is written as.
type property struct {
	key      string
	owner    reflect.Type // the struct that has the field, which may be embedded
	field    reflect.StructField
	optional bool // omitempty or omitzero
	doc      string
}

// place names the field for tables of what reflection cannot know.
func (p *property) place() string { return p.owner.Name() + "." + p.field.Name }

// properties returns the members of a struct in order, those of embedded structs in their place.
func properties(t *testing.T, typ reflect.Type) (list []property) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case key == "-", f.Tag.Get("yaml") == "-":
		case f.Anonymous && key == "" && f.Type.Kind() == reflect.Pointer: // which may be nil
			for _, p := range properties(t, f.Type.Elem()) {
				p.optional = true
				list = append(list, p)
			}
		case f.Anonymous && key == "":
			list = append(list, properties(t, f.Type)...)
		case !f.IsExported():
		case key == "":
			t.Errorf("%s.%s has no JSON name", typ, f.Name)
		default:
			doc := ""
			if strings.HasPrefix(typ.PkgPath(), module) {
				doc = source(t, typ.PkgPath()).docs[typ.Name()+"."+f.Name]
			}
			if said := comments[typ.Name()+"."+f.Name]; said != "" {
				doc = said
			}
			if doc == "" {
				doc = glossary[key]
			}
			list = append(list, property{key, typ, f, options != "", doc})
		}
	}
	return list
}

// comments are those of fields of other packages whose declaration does not say enough.
var comments = map[string]string{
	"Pointer.Version":        "number of the version",
	"Pointer.ManifestDigest": "of the manifest of the version",
	"Pointer.Sequence":       "number of the move in the publish log, growing; absent in the first format",
	"Pointer.Event":          "what moved the alias",
	"Pointer.KeyID":          "of the key that signed it; absent if nothing did",
	"Pointer.Signature":      "Ed25519 over model, alias and the fields of the pointer",
	"Pointer.Digest":         "SHA-256 over model, alias and the fields of the pointer",
}

// glossary has the members that mean the same wherever they are: fields without a comment have these.
var glossary = map[string]string{
	"aborted":           "records of transactions that were called off",
	"alias":             "name of the alias",
	"aliases":           "versions by the names of the aliases",
	"applied":           "events learned from",
	"config_hash":       "digest of the settings that versions depend on",
	"control":           "control records of the broker",
	"created":           "when it was made",
	"decision":          "of the gate: promoted or kept",
	"elapsed_seconds":   "since the start",
	"features":          "number of features",
	"format":            "version of the format on disk",
	"gap_kind":          "certified or estimated",
	"holes":             "offsets that no record has, as compaction leaves them",
	"k":                 "number of basis vectors",
	"kind":              "refit or update",
	"lag":               "records below the log ends that are not applied yet",
	"lambda":            "strength of the penalty for each 10,000 rows of weight",
	"lineage":           "id of the history of the sample: another one after an erasure or another size",
	"manifest_digest":   "of the manifest of the version",
	"model":             "name of the model",
	"model_name":        "name of the model",
	"next":              "offset that is read next",
	"objective":         "what training made small",
	"outputs":           "number of outputs",
	"partition":         "number of the partition",
	"payload_digest":    "of everything that scores depend on",
	"progressive":       "each event scored before it was learned from",
	"rejected":          "records that are no events",
	"sample_digest":     "of the rows of the sample",
	"seconds":           "that the verb took",
	"sequence":          "number of the move in the publish log",
	"start":             "first offset of the account",
	"status":            "converged, basis_limit, time_budget or interrupted",
	"topic":             "name of the topic",
	"train_seconds":     "that the refit took",
	"version":           "number of the version",
	"versions_kept":     "refits that the gate kept back",
	"versions_promoted": "refits that became the champion",
	"warm":              "training began from the version before",
}

// ours reports whether fields of a struct must have comments: those of the packages of wire types.
func ours(typ reflect.Type) bool {
	return slices.Contains(
		[]string{
			module + "/daemon/web",
			module + "/daemon/web/request",
			module + "/daemon/web/statuspage",
			module + "/daemon/web/tensor",
			module + "/daemon/report",
			module + "/daemon/config",
			module + "/daemon/config/strictyaml",
			module + "/daemon/curves",
		},
		typ.PkgPath(),
	)
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}
