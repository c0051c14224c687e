package configs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)d|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$`
	sizePattern     = `^[0-9]+(\.[0-9]+)? *(KiB|MiB|GiB|TiB|kB|MB|GB|TB|B)$|^[0-9]+$`
	modelPattern    = `^[a-z0-9][a-z0-9._-]{0,63}$`
	topicPattern    = `^[A-Za-z0-9._-]{1,249}$`
)

// scalars are the schemas of the types that are written as text or in two ways.
var scalars = map[reflect.Type]object{
	reflect.TypeFor[config.Duration](): {{"$ref", "#/$defs/duration"}},
	reflect.TypeFor[config.Size]():     {{"$ref", "#/$defs/size"}},
	reflect.TypeFor[config.Vectors](): {
		{"anyOf", []any{object{{"const", "auto"}}, object{{"type", "integer"}, {"minimum", 1}}}},
	},
	reflect.TypeFor[config.TopK](): {{"anyOf",
		[]any{object{{"const", "auto"}}, object{{"type", "integer"}, {"minimum", 1}, {"maximum", config.MaxClasses}}}}},
	reflect.TypeFor[config.Index](): {
		{"type", []string{"integer", "string"}},
		{"minimum", 0},
		{"pattern", `^([0-9]*|ordinal)$`},
	},
	reflect.TypeFor[config.Lambda](): {
		{"anyOf", []any{object{{"const", "auto"}}, object{{"type", "number"}, {"exclusiveMinimum", 0}}}},
	},
	reflect.TypeFor[config.CatchUp](): {
		{"anyOf", []any{object{{"enum", []any{"auto", "learn_all"}}}, object{{"$ref", "#/$defs/duration"}}}},
	},
	reflect.TypeFor[config.Linear]():    {{"type", "string"}, {"pattern", `^(none|ridge:[0-9.]+([eE][-+]?[0-9]+)?)$`}},
	reflect.TypeFor[config.ClassName](): {{"type", []string{"string", "integer", "number", "boolean"}}},
	reflect.TypeFor[config.Switch]():    {{"enum", []any{"auto", true, false, "true", "false"}}},
	reflect.TypeFor[config.Secret]():    {{"type", "string"}},
}

var definitions = object{
	{"duration", object{{"description", "A number with a unit, such as 500ms, 30s, 5m, 12h or 7d."},
		{"anyOf", []any{object{{"type", "string"}, {"pattern", durationPattern}}, object{{"const", 0}}}}}},
	{"size", object{{"description", "Bytes, or a number with a unit, such as 64KiB, 16MiB or 2GiB."},
		{
			"anyOf",
			[]any{object{{"type", "integer"}, {"minimum", 0}}, object{{"type", "string"}, {"pattern", sizePattern}}},
		}}},
}

// rules hold what neither the type of a key nor a bound of the validation says. Each must be used.
var rules = map[string]object{
	"Config.Models":          {{"minItems", 1}},
	"Kafka.BootstrapServers": {{"minItems", 1}, {"items", object{{"type", "string"}, {"pattern", `^.+:[0-9]{1,5}$`}}}},
	"Kafka.GroupID":          {{"minLength", 1}},
	"Kafka.ClientID":         {{"minLength", 1}},
	"SASL.Mechanism": {
		{"pattern", "^([Nn][Oo][Nn][Ee]|[Pp][Ll][Aa][Ii][Nn]|[Ss][Cc][Rr][Aa][Mm][-_ ]?[Ss][Hh][Aa][-_ ]?(256|512)|" +
			"[Oo][Aa][Uu][Tt][Hh][-_ ]?[Bb][Ee][Aa][Rr][Ee][Rr]|[Aa][Ww][Ss][-_ ]?[Mm][Ss][Kk][-_ ]?[Ii][Aa][Mm])$"},
	},
	"Storage.Path":     {{"minLength", 1}},
	"Web.AllowedHosts": {{"items", object{{"type", "string"}, {"pattern", `^[^:/*@ ]+$`}}}},
	"Model.Name":       {{"pattern", modelPattern}},
	"Input.Topics": {
		{"minItems", 1},
		{"uniqueItems", true},
		{"items", object{{"type", "string"}, {"pattern", topicPattern}}},
	},
	"DeadLetter.Topic":   {{"pattern", "^$|" + topicPattern}},
	"Publish.Topic":      {{"pattern", "^$|" + topicPattern}},
	"Publish.Store":      {{"minLength", 1}},
	"Negatives.PerEvent": {{"minimum", 0}, {"maximum", 32}},
	"Schema.Classes":     {{"uniqueItems", true}},
	"Schema.Categorical": {{"items", fieldEntry()}},
	"Schema.Numeric":     {{"items", fieldEntry()}},
	"Schema.Multi":       {{"items", fieldEntry(listWeight)}},
	"Schema.Levels":      {{"minimum", 0}, {"maximum", 100}},
	"Derived.Name":       {{"minLength", 1}},
	"Derived.Kind":       {{"enum", event.KindNames()}},
	"Quota.Share":        {{"exclusiveMinimum", 0}, {"maximum", 1}},
	"Cap.Share":          {{"minimum", 0}, {"exclusiveMaximum", 1}},
	"Schema.Task":        {{"enum", append(slices.Clone(event.Tasks), config.Implicit)}},
	"Train.Loss":         {{"enum", append([]string{"auto"}, config.Losses()...)}},
}

// fieldEntry returns what an entry of a list of fields may be: its name, or a config.Field with those keys of a list of
// names alone.
func fieldEntry(listKeys ...member) object {
	return object{{"anyOf", []any{
		object{{"type", "string"}, {"minLength", 1}},
		object{{"type", "object"}, {"additionalProperties", false}, {"properties", append(object{
			{"name", object{{"type", "string"}, {"minLength", 1}, {"description", "Field of the events."}}},
			{"optional", object{{"type", "boolean"}, {"default", false},
				{"description", "An event may lack it, and then learns nothing from it and is scored without it."}}},
			{
				"of",
				object{
					{"type", "string"},
					{"description", "Categorical field whose name decides the value; without, found by counting."},
				},
			},
		}, listKeys...)}, {"required", []string{"name"}}},
	}}}
}

// listWeight is the key of an entry of schema.multi that others do not have.
var listWeight = member{
	"weight",
	object{{"enum", []string{format.WeightMean, format.WeightSqrt}}, {"default", format.WeightMean},
		{"description", "What each name of a list of n counts: 1/n, or 1/√n."}},
}

// features asks for what one task or another needs.
var features = object{
	{"anyOf", []any{feature("categorical"), feature("numeric"), feature("multi")}},
	{"allOf", []any{
		object{
			{
				"if",
				object{
					{"properties", object{{"task", object{{"const", config.Implicit}}}}},
					{"required", []string{"task"}},
				},
			},
			{
				"else",
				object{{"required", []string{"label"}}, {"properties", object{{"label", object{{"minLength", 1}}}}}},
			},
		},
		object{{"if", object{{"properties", object{{"task", object{{"const", "ordinal"}}}}}}},
			{
				"then",
				object{{"required", []string{"levels"}}, {"properties", object{{"levels", object{{"minimum", 2}}}}}},
			}},
		object{{"if", object{{"properties", object{{"task", object{{"enum", []string{"multiclass", "multilabel"}}}}}}}},
			{
				"then",
				object{{"required", []string{"classes"}}, {"properties", object{{"classes", object{{"minItems", 2}}}}}},
			}},
	}},
}

func feature(key string) object {
	return object{{"required", []string{key}}, {"properties", object{{key, object{{"minItems", 1}}}}}}
}

// configSchema makes the schema.
type configSchema struct {
	t        *testing.T
	comments map[string]string // of config.DefaultsYAML, by path
	bounds   map[string]object // of the validation, by type and field
	used     map[string]bool
}

// of returns the schema of a value with its default, which is none where the value is not one.
func (c *configSchema) of(v reflect.Value, path, comment string, fallback bool) object {
	typ := v.Type()
	out := slices.Clone(scalars[typ])
	switch {
	case out != nil:
	case typ.Kind() == reflect.Pointer:
		out = object{{"type", []string{"integer", "null"}}, {"minimum", 0}}
	case typ.Kind() == reflect.Bool:
		out = object{{"type", "boolean"}}
	case typ.Kind() == reflect.Int:
		out = object{{"type", "integer"}}
	case typ.Kind() == reflect.Uint64:
		out = object{{"type", "integer"}, {"minimum", 0}}
	case typ.Kind() == reflect.Float64:
		out = object{{"type", "number"}}
	case typ.Kind() == reflect.String:
		out = object{{"type", "string"}}
	case typ == reflect.TypeFor[[]config.Model]():
		out = list(c.of(reflect.ValueOf(config.DefaultModel()), path+"[]", "", true))
		fallback = false
	case typ.Kind() == reflect.Slice:
		out = list(c.of(reflect.Zero(typ.Elem()), path+"[]", "", false))
	case typ.Kind() == reflect.Struct:
		out, fallback = c.mapping(v, path, fallback), false
	default:
		c.t.Fatalf("no schema of %s", typ)
	}
	out.set("description", comment)
	if fallback {
		value := v
		if typ.Kind() == reflect.Slice && v.IsNil() {
			value = reflect.MakeSlice(typ, 0, 0)
		}
		out.set("default", json.RawMessage(mustText(c.t, value.Interface())))
	}
	return out
}

func mustText(t *testing.T, v any) []byte {
	b, err := text(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mapping returns the schema of a struct.
func (c *configSchema) mapping(v reflect.Value, path string, fallback bool) object {
	out := object{{"type", "object"}, {"additionalProperties", false}}
	out.set("description", typeDoc(c.t, v.Type()))
	var members object
	required := []string{}
	for _, p := range properties(c.t, v.Type()) {
		key := strings.TrimPrefix(path+"."+p.key, ".")
		comment := c.comments[key]
		none := comment == "no default" || strings.HasPrefix(comment, "no default;")
		comment = strings.TrimLeft(strings.TrimPrefix(comment, "no default"), ":; ")
		if comment == "" {
			comment = p.doc
		}
		if comment == "" && p.field.Type.Kind() == reflect.Struct {
			comment = typeDoc(c.t, p.field.Type)
		}
		if comment == "" {
			c.t.Errorf("%s has a comment neither in defaults.yaml nor at %s", key, p.place())
		}
		one := c.of(v.FieldByIndex(p.field.Index), key, sentence(c.opening(comment, p.place())),
			fallback && !none && !strings.HasSuffix(path, "quotas[]"))
		for _, m := range append(slices.Clone(c.bounds[p.place()]), rules[p.place()]...) {
			if m.key == "description" {
				m.value = one.get("description").(string) + m.value.(string)
			}
			if m.key == "enum" && one.get("default") != nil {
				var value string
				if err := json.Unmarshal(one.get("default").(json.RawMessage), &value); err == nil &&
					!slices.Contains(m.value.([]string), value) &&
					value != "" {
					m.value = append([]string{value}, m.value.([]string)...)
				}
			}
			one.set(m.key, m.value)
		}
		c.used[p.place()] = true
		if none && p.place() != "Schema.Label" || one.get("required") != nil || strings.HasSuffix(path, "quotas[]") ||
			key == "models" {
			required = append(required, p.key)
		}
		members.set(p.key, one)
	}
	out.set("properties", members)
	if len(required) > 0 {
		out.set("required", required)
	}
	if v.Type() == reflect.TypeFor[config.Schema]() {
		out = append(out, features...)
	}
	return out
}

// opening is a comment as the beginning of a sentence, unless it begins with a value.
func (c *configSchema) opening(comment, place string) string {
	word := strings.FieldsFunc(comment, func(r rune) bool { return r == ' ' || r == ',' || r == ';' })[0]
	values, _ := append(slices.Clone(c.bounds[place]), rules[place]...).get("enum").([]string)
	if slices.Contains(values, word) || slices.Contains([]string{"true", "null"}, word) {
		return comment
	}
	return capital(comment)
}

var defaultsLine = regexp.MustCompile(`^( *)(- )?([a-z_]+):(.*?)(?:\s# (.*))?$`)

// defaultComments returns the comments of config.DefaultsYAML by the paths of their keys.
func defaultComments() map[string]string {
	comments := map[string]string{}
	var at []string // the key at each depth of two spaces
	for line := range strings.Lines(config.DefaultsYAML()) {
		m := defaultsLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		depth := (len(m[1]) + len(m[2])) / 2
		if depth > 0 && at[0] == "models" { // the indentation of the list
			depth--
		}
		at = append(at[:min(depth, len(at))], m[3])
		comments[strings.Replace(strings.Join(at, "."), "models.", "models[].", 1)] = strings.TrimSpace(m[5])
	}
	return comments
}

// validationBounds returns what the validator demands of fields, from the calls of its methods in the source: no call,
// no bound.
func validationBounds(t *testing.T) map[string]object {
	t.Helper()
	bounds := map[string]object{}
	p := typed(t, func(path string) bool { return path == module+"/daemon/config" })[0]
	field := func(call *ast.CallExpr) string {
		sel, ok := call.Args[1].(*ast.SelectorExpr)
		if !ok || p.info.Selections[sel] == nil {
			return ""
		}
		return typeName(p.info.Selections[sel].Recv()) + "." + sel.Sel.Name
	}
	value := func(e ast.Expr) (float64, bool) {
		v := p.info.Types[e].Value
		if v == nil {
			return 0, false
		}
		f, _ := constant.Float64Val(v)
		return f, true
	}
	for _, method := range []string{"whole", "between", "duration", "size"} {
		p.calls("validator."+method, func(_ *ast.File, call *ast.CallExpr) {
			name := field(call)
			low, ok := value(call.Args[2])
			high, ok2 := value(call.Args[3])
			if name == "" || !ok || !ok2 || name == "Schema.Levels" { // which counts for one task alone
				return
			}
			switch method {
			case "duration":
				bounds[name] = object{{"description", rangeText(durationText(low), durationText(high))}}
			case "size":
				bounds[name] = object{{"description", rangeText(config.Size(low).String(), config.Size(high).String())}}
			default:
				bounds[name] = object{{"minimum", low}, {"maximum", high}}
			}
		})
	}
	p.calls("validator.oneOf", func(_ *ast.File, call *ast.CallExpr) {
		var values []string
		for _, arg := range call.Args[2:] {
			if v := p.info.Types[arg].Value; v != nil {
				values = append(values, constant.StringVal(v))
			}
		}
		if name := field(call); name != "" && len(values) == len(call.Args)-2 {
			bounds[name] = object{{"enum", values}}
		}
	})
	return bounds
}

func rangeText(low, high string) string {
	if high == "" {
		return " " + low + " or more."
	}
	return " From " + low + " to " + high + "."
}

func durationText(v float64) string {
	d, day := time.Duration(v), 24*time.Hour
	switch {
	case v >= math.MaxInt64:
		return ""
	case d >= day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m") + map[bool]string{true: "0s"}[d == 0]
}

// TestConfigSchema: configs/config.schema.json has every key with its description, default and bounds.
func TestConfigSchema(t *testing.T) {
	c := &configSchema{t: t, comments: defaultComments(), bounds: validationBounds(t), used: map[string]bool{}}
	schema := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", config.SchemaID},
		{"title", "Configuration of refitd"}}
	schema = append(schema, c.of(reflect.ValueOf(*config.Default()), "", "", true)...)
	schema.set(
		"description",
		"The one file that refitd run takes. Durations are written 500ms, 30s, 5m, 12h or 7d; sizes 64KiB, 16MiB or 2GiB. "+
			"Relative paths are relative to the file. Made from the Go types, the comments of the defaults and the validation.",
	)
	schema.set("$defs", definitions)
	for _, m := range []map[string]object{c.bounds, rules} {
		for name := range m {
			if !c.used[name] {
				t.Errorf("%s is no key", name)
			}
		}
	}
	same(t, "config.schema.json", indented(t, schema))
}

// validator compiles the schema as it is embedded.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(configs.ConfigSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// judge validates a YAML text by the schema.
func judge(t *testing.T, schema *jsonschema.Schema, src []byte) error {
	t.Helper()
	b, err := yaml.YAMLToJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

// TestExamplesByTheSchema: the examples and the defaults are valid, and each of the examples names the schema for
// editors.
func TestExamplesByTheSchema(t *testing.T) {
	schema := validator(t)
	if err := judge(t, schema, []byte(config.DefaultsYAML())); err != nil {
		t.Errorf("defaults: %v", err)
	}
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	inContainer := filepath.Join("container", "refitd.yaml")
	for _, name := range append(names, inContainer) {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(t, schema, src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		place := "config.schema.json"
		if name == inContainer {
			place = "../" + place
		}
		if !bytes.HasPrefix(src, []byte("# yaml-language-server: $schema="+place+"\n")) {
			t.Errorf("%s does not begin with the place of its schema", name)
		}
	}
}

// TestSchemaAndValidation: what the schema refuses, refitd refuses, and a small change of a good file is refused or
// taken by both.
func TestSchemaAndValidation(t *testing.T) {
	good := config.DefaultsYAML()
	schema := validator(t)
	for _, test := range []struct {
		old, new string
		ok       bool
	}{
		{"client_id: refitd", "client_id: refit", true},
		{"client_id: refitd", "clientid: refit", false},
		{"client_id: refitd", "client_id: 7", false},
		{`bootstrap_servers: ["127.0.0.1:9092"]`, "", false},
		{`["127.0.0.1:9092"]`, "[]", false},
		{`["127.0.0.1:9092"]`, "[broker]", false},
		{"group_id: refitd", `group_id: ""`, false},
		{"mechanism: none", "mechanism: kerberos", false},
		{"fetch_max_wait: 500ms", "fetch_max_wait: 1.5s", true},
		{"fetch_max_wait: 500ms", "fetch_max_wait: 500", false},
		{"fetch_max_wait: 500ms", "fetch_max_wait: soon", false},
		{"max_partition_fetch_bytes: 1MiB", "max_partition_fetch_bytes: 65536", true},
		{"max_partition_fetch_bytes: 1MiB", "max_partition_fetch_bytes: 1 Mo", false},
		{"min_free_bytes: 512MiB", "min_free_bytes: -1", false},
		{"enabled: false", "enabled: no way", false},
		{"name: ratings", "name: Ratings", false},
		{"topics: [ratings]", "topics: []", false},
		{"topics: [ratings]", "topics: [ratings, ratings]", false},
		{"topics: [ratings]", "topics: ratings", false},
		{"start: earliest", "start: first", false},
		{"on_gap: halt", "on_gap: record", true},
		{"task: ordinal", "task: ranking", false},
		{"task: ordinal", "task: multiclass", false},
		{"levels: 5", "levels: 1", false},
		{"levels: 5", "levels: 101", false},
		{"categorical: [user, item]", "categorical: []", false},
		{"categorical: [user, item]", "categorical: [user, {name: item, optional: true}]", true},
		{"categorical: [user, item]", "categorical: [user, {name: item, optional: 1}]", false},
		{"categorical: [user, item]", "categorical: [user, {optional: true}]", false},
		{"numeric: []", "numeric: [{name: price, unit: item}]", false},
		{"multi: []", "multi: [{name: tags, optional: true}]", true},
		{"multi: []", "multi: [{name: tags, of: item, weight: sqrt}]", true},
		{"multi: []", "multi: [{name: tags, weight: one}]", false},
		{"numeric: []", "numeric: [{name: price, weight: sqrt}]", false},
		{"time_unit: ms", "time_unit: min", false},
		{"size: 200000", "size: 99", false},
		{"size: 200000", "size: 1000", true},
		{"seed: null", "seed: 7", true},
		{"seed: null", "seed: -7", false},
		{"fraction: 0.1", "fraction: 0.6", false},
		{"quotas: []", "quotas: [{class: 1, share: 0.3}]", true},
		{"quotas: []", "quotas: [{class: 1, share: 1.3}]", false},
		{"quotas: []", "quotas: [{class: 1}]", false},
		{"max_basis: 20", "max_basis: 1001", false},
		{"loss: auto", "loss: squared", true},
		{"loss: auto", "loss: cubic", false},
		{"kernel: auto", "kernel: anova", true},
		{"kernel: auto", "kernel: rbf", false},
		{"augment: auto", "augment: true", true},
		{"augment: auto", "augment: maybe", false},
		{"penalty: l1linf", "penalty: l2", false},
		{"top_k: auto", "top_k: 5", true},
		{"top_k: auto", "top_k: 0", false},
		{"lambda: auto", "lambda: 0.5", true},
		{"lambda: auto", "lambda: 0", false},
		{"lambda: auto", "lambda: much", false},
		{"linear: ridge:0.5", "linear: none", true},
		{"linear: ridge:0.5", "linear: lasso:0.5", false},
		{"solver: hybrid", "solver: adam", false},
		{"window: 20000", "window: 0", false},
		{"tensors: f64", "tensors: f16", false},
		{"keep: 20 ", "keep: 0 ", false},
		{"tolerance: 0.002", "tolerance: 2", false},
		{"max_events: 1000", "max_events: 0", false},
		{"memory_budget: 0", "memory_budget: 64GiB", true},
		{"memory_budget: 0", "memory_budget: lots", false},
	} {
		if strings.Count(good, test.old) == 0 {
			t.Fatalf("the defaults do not have %q", test.old)
		}
		src := []byte(strings.Replace(good, test.old, test.new, 1))
		if err := judge(t, schema, src); (err == nil) != test.ok {
			t.Errorf("%q by the schema: %v", test.new, err)
		}
		if _, err := config.Parse("x.yaml", src, os.LookupEnv); (err == nil) != test.ok {
			t.Errorf("%q by refitd: %v", test.new, err)
		}
	}
}
