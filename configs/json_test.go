package configs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

// emitted is a call of report.Emitter.Emit: the type member of the line, and the Go type of the line.
type emitted struct{ kind, goType string }

// emissions returns what the code emits, with the places.
func emissions(t *testing.T) map[emitted][]string {
	t.Helper()
	found := map[emitted][]string{}
	wanted := func(path string) bool {
		return strings.HasPrefix(path, module+"/cmd/") || strings.HasPrefix(path, module+"/daemon")
	}
	for _, p := range typed(t, wanted) {
		p.calls("Emitter.Emit", func(_ *ast.File, call *ast.CallExpr) {
			place := p.fset.Position(call.Pos()).String()
			kind := p.info.Types[call.Args[0]].Value
			if kind == nil {
				t.Errorf("%s: the type of the line is no constant", place)
				return
			}
			name := typeName(p.info.Types[call.Args[1]].Type)
			e := emitted{constant.StringVal(kind), name}
			found[e] = append(found[e], place)
		})
	}
	return found
}

// line is something that a verb prints with --json.
type line struct {
	kind  string // the member "type"
	value any    // of the Go type
	when  string
}

const firstInvalid = "the first line of each reason and field"

// verbs says what each verb prints, in order. The last line of a verb that fails is error instead.
var verbs = []struct {
	name  string
	lines []line
}{
	{
		"quickstart",
		[]line{
			{"broker", report.Broker{}, "first"},
			{"version", report.Version{}, "each version"},
			{"tick", report.Tick{}, "each second"},
			{
				"drift",
				report.Drift{},
				"when the stream changes",
			},
			{"recovered", report.Recovered{}, "when the model is as good as before"},
			{"summary", report.QuickstartSummary{}, "last, not with --broker-only"},
		},
	},
	{"init", []line{{"summary", report.InitSummary{}, ""}}},
	{
		"check config",
		[]line{{"subject", report.SubjectCheck{}, "each model, with --subject"}, {"summary", report.CheckSummary{}, "last"}},
	},
	{"check event", []line{{"event", report.MappedEvent{}, "each model"}, {"summary", report.CheckSummary{}, "last"}}},
	{"replay", []line{{"summary", report.ReplaySummary{}, ""}}},
	{"run", []line{{"ready", report.Ready{}, "first"}, {"version", report.Version{}, "each version, promoted or kept"},
		{"catching_up", report.CatchingUp{}, "each second while a model is far behind its log, and when it no longer is"},
		{"halt", report.Halt{}, "each partition that stops"}, {"summary", report.RunSummary{}, "last"}}},
	{
		"state verify",
		[]line{{"partition", report.VerifyPartition{}, "each partition"}, {"summary", report.VerifySummary{}, "last"}},
	},
	{
		"state accept-gap",
		[]line{
			{"gap", report.Gap{}, "offsets declared lost"},
			{"recreated", report.Recreated{}, "each partition of a topic that was made anew"},
			{"undone", report.Undone{}, "each partition, with --undo"},
			{"summary", report.Empty{}, "last"},
		},
	},
	{"state backup", []line{{"summary", report.BackupSummary{}, ""}}},
	{"state restore", []line{{"summary", report.BackupSummary{}, ""}}},
	{
		"state rebuild",
		[]line{{"tick", report.RebuildTick{}, "each second"}, {"summary", report.RebuildSummary{}, "last"}},
	},
	{"state forget", []line{{"summary", report.Erasure{}, ""}}},
	{"check-state", []line{{"summary", report.Empty{}, ""}}},
	{
		"fit",
		[]line{
			{"invalid", report.Invalid{}, firstInvalid},
			{"step", report.Step{}, "each λ and k, or each λ"},
			{"path", report.Path{}, "text only"},
			{"summary", report.FitSummary{}, "last"},
		},
	},
	{
		"backtest",
		[]line{{"invalid", report.Invalid{}, firstInvalid}, {"tick", report.BacktestTick{}, "each 10,000 events"},
			{"version", report.Version{}, "each refit"}, {"summary", report.BacktestSummary{}, "last"}},
	},
	{"eval", []line{{"invalid", report.Invalid{}, firstInvalid}, {"summary", report.EvalSummary{}, ""}}},
	{"score", []line{{"score", report.Score{}, "each event"}, {"invalid", report.Invalid{}, "each line that is none"},
		{"summary", report.ScoreSummary{}, "last"}}},
	{
		"state inspect",
		[]line{{"state", report.State{}, "of a state"}, {"snapshot", report.SnapshotInspection{}, "of a version"},
			{"summary", report.Empty{}, "last"}},
	},
	{"versions diff", []line{{"summary", report.DiffSummary{}, ""}}},
	{"versions reproduce", []line{{"summary", report.ReproduceSummary{}, ""}}},
	{"versions list", []line{{"version", report.ListedVersion{}, "each version"},
		{"stray", report.Stray{}, "each thing in the store that is no part of it, and each damaged alias"},
		{"summary", report.ListSummary{}, "last"}}},
	{"versions alias", []line{{"alias", report.Alias{}, "each alias"},
		{
			"stray",
			report.Stray{},
			"each thing in the store that is no part of it, and each damaged alias",
		}, {"summary", report.AliasesSummary{}, "last"}}},
	{"versions promote", []line{{"summary", report.AliasMove{}, ""}}},
	{"versions rollback", []line{{"summary", report.AliasMove{}, ""}}},
	{"versions log", []line{{"record", report.LogRecord{}, "each record"},
		{"live", report.Live{}, "each alias, with --at"}, {"summary", report.LogSummary{}, "last"}}},
	{
		"versions prune",
		[]line{
			{"summary", report.PruneSummary{}, "last, of versions"},
			{"leftover", report.Leftover{}, "each, with --state"},
			{"summary", report.LeftoversSummary{}, "last, with --state"},
		},
	},
	{"keys new", []line{{"summary", report.KeysSummary{}, ""}}},
	{"versions export vectors", []line{{"summary", report.VectorsSummary{}, ""}}},
	{"versions export oci", []line{{"summary", report.OCISummary{}, ""}}},
	{"versions export onnx", []line{{"summary", report.ExportSummary{}, ""}}},
	{
		"versions export jsonl",
		[]line{{"row", report.SampleRow{}, "each row, with --output -"}, {"summary", report.SampleSummary{}, "last"}},
	},
	{
		"versions export libsvm",
		[]line{{"row", report.SampleRow{}, "each row, with --output -"}, {"summary", report.SampleSummary{}, "last"}},
	},
	{"completion", nil}, // text for a shell, and for man
	{"man", nil},
	{"version", nil},
}

// commandLine returns the verbs that the command line has, from the structs of flags in cmd/refitd.
func commandLine(t *testing.T) (names []string) {
	t.Helper()
	structs := map[string]*ast.StructType{}
	files, err := filepath.Glob("../cmd/refitd/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = st
				}
			}
			return true
		})
	}
	var walk func(typ, prefix string) bool
	walk = func(typ, prefix string) (some bool) {
		for _, f := range structs[typ].Fields.List {
			if f.Tag == nil || len(f.Names) == 0 {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
			if _, ok := tag.Lookup("cmd"); !ok {
				continue
			}
			some = true
			name := tag.Get("name")
			if name == "" {
				name = kebab(f.Names[0].Name)
			}
			if inner := f.Type.(*ast.Ident).Name; !walk(inner, prefix+name+" ") {
				names = append(names, prefix+name)
			}
		}
		return some
	}
	walk("cli", "")
	return names
}

// kebab turns AcceptGap into accept-gap, and JSONL into jsonl.
func kebab(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "$1-$2"))
}

// linesOf is what verbs print: the type of each line, the verbs that print it, and the order of the document.
type linesOf struct {
	types map[emitted]reflect.Type
	by    map[emitted][]string // verbs
	order []emitted
}

// describedLines collects the lines of verbs, and that of errors.
func describedLines() linesOf {
	l := linesOf{types: map[emitted]reflect.Type{}, by: map[emitted][]string{}}
	for _, v := range verbs {
		for _, line := range v.lines {
			e := emitted{line.kind, reflect.TypeOf(line.value).Name()}
			if l.types[e] == nil {
				l.order = append(l.order, e)
			}
			l.types[e], l.by[e] = reflect.TypeOf(line.value), append(l.by[e], v.name)
		}
	}
	failed := emitted{"error", "Error"}
	l.types[failed], l.by[failed] = reflect.TypeFor[report.Error](), []string{"every verb"}
	l.order = append(l.order, failed)
	return l
}

// title is the heading of a line.
func (l *linesOf) title(e emitted) string {
	same := 0
	for other := range l.types {
		if other.kind == e.kind {
			same++
		}
	}
	if same == 1 {
		return e.kind
	}
	return e.kind + " of " + strings.Join(l.by[e], ", ")
}

// users returns which structs have a struct as a member, of all lines.
func (l *linesOf) users(t *testing.T) map[reflect.Type]map[reflect.Type]bool {
	users := map[reflect.Type]map[reflect.Type]bool{}
	for _, typ := range l.types {
		nested(t, typ, users)
	}
	return users
}

// headings returns the heading that a type has in json.md: lines, and parts of several lines.
func (l *linesOf) headings(t *testing.T) map[reflect.Type]string {
	names := map[reflect.Type]string{}
	for typ, by := range l.users(t) {
		if len(by) > 1 {
			names[typ] = typ.Name()
		}
	}
	for e, typ := range l.types {
		names[typ] = l.title(e)
	}
	return names
}

// TestJSON: configs/docs/json.md has every line of every verb with its members, the exit codes and the reasons of
// rejections.
func TestJSON(t *testing.T) {
	lines := describedLines()
	objects, title := lines.types, lines.title
	var listed []string
	for _, v := range verbs {
		listed = append(listed, v.name)
	}
	if names := commandLine(t); !reflect.DeepEqual(slices.Sorted(slices.Values(names)),
		slices.Sorted(slices.Values(listed))) {
		t.Errorf("the verbs are %q, described are %q", names, listed)
	}
	found := emissions(t)
	for e, places := range found {
		if objects[e] == nil {
			t.Errorf("%v is emitted at %v, and not described", e, places)
		}
	}
	for e := range objects {
		if found[e] == nil {
			t.Errorf("%v is described, and not emitted", e)
		}
	}
	// A part of several objects has a heading.
	users := lines.users(t)
	object := map[reflect.Type]string{}
	for e, typ := range objects {
		if !strings.Contains(title(e), " ") {
			object[typ] = title(e)
		}
	}
	link := func(typ reflect.Type) string {
		switch {
		case object[typ] != "":
			return "[" + object[typ] + "](#" + anchor(object[typ]) + ")"
		case len(users[typ]) > 1:
			return "[" + typ.Name() + "](#" + anchor(typ.Name()) + ")"
		}
		return ""
	}

	var p page
	p.heading(1, "What `--json` prints")
	p.paragraph(
		"After this page you can read what each verb writes. " +
			"Made from the Go types by a test. With `--json` a verb writes JSON Lines to standard output: one object in each " +
			"line, whose first member " +
			"`type` names it. The last one is `summary`, or `error` where the verb failed. Logs go to standard error. " +
			"Members are added over time and " +
			"never renamed: ignore those that you do not know. A number that is not finite is null; times are RFC 3339 in " +
			"UTC, members that end in " +
			"`_seconds` and `_bytes` have that unit, digests are `sha256:` and 64 hexadecimal digits.",
	)
	p.verbs(title)
	p.exitCodes(t)
	p.reasons(t)
	p.heading(2, "Lines")
	for _, e := range lines.order {
		if e.kind == "path" { // nothing in JSON
			continue
		}
		p.heading(3, title(e))
		p.paragraph("%s", typeDoc(t, objects[e]))
		p.table([]string{"member", "type", "meaning"}, members(t, objects[e], "", link))
	}
	p.heading(2, "Parts of several lines")
	var parts []reflect.Type
	for typ, by := range users {
		if len(by) > 1 && object[typ] == "" {
			parts = append(parts, typ)
		}
	}
	slices.SortFunc(parts, func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	for _, typ := range parts {
		p.heading(3, typ.Name())
		p.paragraph("%s", typeDoc(t, typ))
		p.table([]string{"member", "type", "meaning"}, members(t, typ, "", link))
	}
	same(t, "docs/json.md", p.bytes())
}

// verbs adds the table of verbs; title is the heading of a line.
func (p *page) verbs(title func(emitted) string) {
	p.heading(2, "Verbs")
	var rows [][]string
	for _, v := range verbs {
		var cells []string
		for _, l := range v.lines {
			name := title(emitted{l.kind, reflect.TypeOf(l.value).Name()})
			cell := "[`" + l.kind + "`](#" + anchor(name) + ")"
			if l.kind == "path" {
				continue
			}
			if l.when != "" {
				cell += " " + l.when
			}
			cells = append(cells, cell)
		}
		rows = append(rows, []string{"`refitd " + v.name + "`", strings.Join(cells, "; ")})
	}
	p.table([]string{"verb", "lines"}, rows)
}

// exitCodes adds the table of exit codes.
func (p *page) exitCodes(t *testing.T) {
	p.heading(2, "Exit codes")
	var rows [][]string
	for code := 0; ; code++ {
		name := source(t, module+"/daemon/report").constants[strconv.Itoa(code)]
		if !strings.HasPrefix(name, "Exit") {
			break
		}
		word := report.ErrorOf(report.Exit(code, errors.New("x"))).Code
		rows = append(rows,
			[]string{strconv.Itoa(code), "`" + word + "`", capital(source(t, module+"/daemon/report").docs[name])})
	}
	p.table([]string{"code", "`code` of an error", "meaning"}, rows)
}

// reasons adds the table of reasons of rejections.
func (p *page) reasons(t *testing.T) {
	p.heading(2, "Reasons of rejections")
	p.paragraph(
		"Why a record is not an event: the label `reason` of `refitd_events_rejected_total`, `rejected_by_reason` of a " +
			"state, `reason` of " +
			"`invalid`, of `dropped`, of the answers of HTTP and of the headers of dead letters. With it come `field`, the " +
			"field of the schema that " +
			"it is about (empty where it is about the record as a whole), `expected` and `got`: the kind of value that came, " +
			"never the value itself. " +
			"A record has one reason. null_value, too_large and not_utf8 go before errors of syntax, of which the first in " +
			"the record counts; then the " +
			"fields, in the order of the record; then missing_field.",
	)
	most := event.DefaultLimits()
	limits := strings.NewReplacer("Limits.MaxEventBytes", "`input.max_event_bytes`", "Limits.MaxIDBytes",
		"`input.max_id_bytes`", "Limits.MaxMulti", "`input.max_list_names`", "Limits.MaxDepth",
		strconv.Itoa(most.MaxDepth), "Limits.MaxNumber", fmt.Sprint(most.MaxNumber))
	var rows [][]string
	for _, reason := range append(slices.Clone(event.Reasons), event.NotAvro, event.NotProtobuf, event.Filtered,
		event.RemovalRequest, event.Panicked) {
		events := source(t, module+"/consumer/event")
		doc := events.docs[events.constants[strconv.Quote(string(reason))]]
		if doc == "" {
			t.Errorf("the reason %s has no comment", reason)
		}
		rows = append(rows, []string{"`" + string(reason) + "`", limits.Replace(described(doc, "Panicked"))})
	}
	p.table([]string{"reason", "meaning"}, rows)
}

// nested notes which structs have a struct as a member, at any depth.
func nested(t *testing.T, typ reflect.Type, users map[reflect.Type]map[reflect.Type]bool) {
	for _, p := range properties(t, typ) {
		inner := p.field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || inner == reflect.TypeFor[time.Time]() ||
			!ours(inner) { // others are taken apart in their place
			continue
		}
		if users[inner] == nil {
			users[inner] = map[reflect.Type]bool{}
		}
		users[inner][typ] = true
		nested(t, inner, users)
	}
}
