package configs_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
)

// maxHTTPLines bounds http.md: a page that is read from its beginning to its end. openapi.json has the rest.
const maxHTTPLines = 400

// maxSmallObject is how many members an object has at most that is shown in one row of the table of objects.
const maxSmallObject = 4

// TestHTTP: configs/docs/http.md says for people in short what configs/openapi.json says for programs.
func TestHTTP(t *testing.T) {
	_, ops, all := document(t)
	h := httpPage{t: t, protocol: protocolOf(t, ops), embedded: map[reflect.Type]int{}}
	for _, typ := range all.types {
		for owner := range ownersOf(t, typ) {
			h.embedded[owner]++
		}
	}
	h.printed = printedAt(t)
	h.heading(1, "The HTTP surface")
	h.paragraph("After this page you can ask each path and read its answer. " +
		"Made from the routes of the daemon by a test. [openapi.json](../openapi.json) has the rest (every " +
		"parameter, header, status and example), and the daemon serves it at `/openapi.json`.")
	h.paragraph("%s", about)
	h.endpoints(ops)
	h.parameters(ops)
	h.statuses()
	h.objects()
	h.others(all)
	content := h.bytes()
	if n := strings.Count(string(content), "\n"); n > maxHTTPLines {
		t.Errorf("http.md has %d lines, at most %d", n, maxHTTPLines)
	}
	same(t, "docs/http.md", content)
}

// httpPage is http.md in the making. Objects are described once, in the order in which they are first named.
type httpPage struct {
	page
	t        *testing.T
	named    []reflect.Type          // described in this page
	printed  map[reflect.Type]string // described in json.md, by heading
	embedded map[reflect.Type]int    // how many objects have all of its members
	protocol map[reflect.Type]bool   // described by the specification of the Open Inference Protocol
}

// endpoints adds the tables of endpoints: method and path, what it does, what it takes, its answer, statuses.
func (h *httpPage) endpoints(ops []operation) {
	for _, tag := range tags {
		h.heading(2, strings.TrimSuffix(strings.SplitN(tag.get("description").(string), ":", 2)[0], "."))
		var rows [][]string
		for i := range ops {
			op := &ops[i]
			if op.form != 0 || op.id != handlerOf(op) || op.tag() != tag.get("name") {
				continue
			}
			does := firstSentence(op.description)
			if op.route.Lifecycle {
				does += " Only with `--web.enable-lifecycle`."
			}
			var takes, statuses []string
			for _, name := range op.route.Params {
				takes = append(takes, "`"+name+"`")
			}
			if op.route.Takes != nil {
				takes = append(takes, h.link(reflect.TypeOf(op.route.Takes)))
			}
			for _, status := range slices.Sorted(slices.Values(append(slices.Clone(op.route.With), op.route.Refuses...))) {
				statuses = append(statuses, strconv.Itoa(status))
			}
			rows = append(rows, []string{forms(op.route), does, strings.Join(takes, " "), h.answer(op.route),
				strings.Join(statuses, " ")})
		}
		h.table([]string{"request", "what it does", "takes", "answer", "statuses"}, rows)
	}
}

// answer names what a route answers with.
func (h *httpPage) answer(route *web.Route) string {
	if media, ok := route.Gives.(web.Media); ok {
		return "`" + string(media) + "`"
	}
	return kindOf(reflect.TypeOf(route.Gives), h.link)
}

// parameters adds the table of query parameters and headers.
func (h *httpPage) parameters(ops []operation) {
	h.heading(2, "Parameters and headers of requests")
	var rows [][]string
	var seen []string
	for i := range ops {
		for _, p := range ops[i].parameters(h.t) {
			name := p.get("name").(string)
			key := p.get("in").(string) + " " + name
			if slices.Contains(seen, key) {
				continue
			}
			seen = append(seen, key)
			rows = append(rows, []string{"`" + name + "`", p.get("in").(string), p.get("description").(string)})
		}
	}
	h.table([]string{"name", "in", "meaning"}, rows)
}

// statuses adds the table of statuses.
func (h *httpPage) statuses() {
	h.heading(2, "Statuses")
	h.paragraph("Any request can meet 400, 401, 403, 404, 405, 408, 413, 421, 429 and 503; the tables above have " +
		"the others, and 200 where it is not the only one of an answer.")
	rows := [][]string{{"405", "The path takes other methods, which Allow names"}}
	for status, text := range statusTexts {
		rows = append(rows, []string{strconv.Itoa(status), text})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	h.table([]string{"status", "meaning"}, rows)
}

// link names an object, by a link to where it is described.
func (h *httpPage) link(typ reflect.Type) string {
	name := schemaName(typ)
	heading, printed := h.printed[typ]
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return ""
	case printed && typ != reflect.TypeFor[report.Metrics]():
		return "[" + name + "](json.md#" + anchor(heading) + ")"
	case under(typ.PkgPath(), module+"/snapshot") || h.protocol[typ]:
		return "[" + name + "](#other-objects)"
	case !slices.Contains(h.named, typ):
		h.named = append(h.named, typ)
	}
	return "[" + name + "](#" + strings.ToLower(name) + ")"
}

// ownersOf returns the structs that have the fields of a struct: itself, and those embedded in it.
func ownersOf(t *testing.T, typ reflect.Type) map[reflect.Type]bool {
	owners := map[reflect.Type]bool{typ: true}
	for _, p := range properties(t, typ) {
		owners[p.owner] = true
	}
	return owners
}

// protocolOf returns the objects that only the Open Inference Protocol takes and answers.
func protocolOf(t *testing.T, ops []operation) map[reflect.Type]bool {
	own, others := map[reflect.Type]bool{}, map[reflect.Type]bool{}
	for i := range ops {
		found := others
		if ops[i].tag() == "inference" {
			found = own
		}
		for _, value := range []any{ops[i].route.Takes, ops[i].route.Gives} {
			if value == nil || reflect.TypeOf(value) == reflect.TypeFor[web.Media]() {
				continue
			}
			typ := reflect.TypeOf(value)
			if typ.Kind() == reflect.Slice {
				typ = typ.Elem()
			}
			found[typ] = true
			parts(t, typ, found)
		}
	}
	for typ := range others {
		delete(own, typ)
	}
	return own
}

// printedAt returns the heading below which json.md describes a type, alone or as a part of a line.
func printedAt(t *testing.T) map[reflect.Type]string {
	lines := describedLines()
	at := lines.headings(t)
	for _, e := range lines.order {
		within := map[reflect.Type]bool{}
		parts(t, lines.types[e], within)
		for typ := range within {
			if _, ok := at[typ]; !ok {
				at[typ] = lines.title(e)
			}
		}
	}
	return at
}

// objects adds the table of objects. Describing one may name others.
func (h *httpPage) objects() {
	h.heading(2, "Objects")
	h.paragraph(
		"Names are those of openapi.json. Members that end in `_seconds` and `_bytes` have that unit, times are " +
			"RFC 3339 in UTC, a number that is not finite is null. *Absent* is a member that may be left out.",
	)
	rows := [][]string{{`<a id="error"></a>**Error**`, "", whyRefused}}
	for i, m := range refusalMembers(h.t) {
		kind := "text"
		if i > 0 {
			kind += "; absent"
		}
		rows = append(rows, []string{"`" + m.key + "`", kind, m.value.(string)})
	}
	for i := 0; i < len(h.named); i++ {
		typ := h.named[i]
		name := schemaName(typ)
		begins, says := `<a id="`+strings.ToLower(name)+`"></a>**`+name+"**", sentence(firstSentence(typeDoc(h.t, typ)))
		members := h.members(typ)
		if len(members) <= maxSmallObject {
			for _, m := range members {
				says += "<br>" + m[0]
				if m[1] != "" {
					says += ", " + m[1] + ": " + m[2]
				}
			}
			members = nil
		}
		rows = append(append(rows, []string{begins, "", says}), members...)
	}
	h.table([]string{"member", "type", "meaning"}, rows)
}

// members returns a row for each member of an object, and one for all that several objects share.
func (h *httpPage) members(typ reflect.Type) (rows [][]string) {
	var shared reflect.Type
	for _, p := range properties(h.t, typ) {
		if p.doc == "" && ours(p.owner) {
			h.t.Errorf("%s has no comment, which is its description", p.place())
		}
		if p.owner != typ && h.embedded[p.owner] > 1 {
			if p.owner != shared {
				shared = p.owner
				rows = append(rows, []string{"all of " + h.link(shared), "", ""})
			}
			continue
		}
		kind := kindOf(p.field.Type, h.link)
		switch {
		case p.optional:
			kind += "; absent"
		case p.field.Type.Kind() == reflect.Pointer,
			p.field.Type.Kind() == reflect.Slice && strings.Contains(p.doc, "null"):
			kind += " or null"
		}
		rows = append(rows, []string{"`" + p.key + "`", kind, bare(p.doc, p.field.Name)})
	}
	return rows
}

// others adds the names of what is described elsewhere.
func (h *httpPage) others(all *schemas) {
	h.heading(2, "Other objects")
	var printed, protocol, manifest []string
	for _, name := range sorted(all.types) {
		switch typ := all.types[name]; {
		case slices.Contains(h.named, typ):
		case h.printed[typ] != "":
			printed = append(printed, h.link(typ))
		case h.protocol[typ]:
			protocol = append(protocol, "`"+name+"`")
		default:
			manifest = append(manifest, "`"+name+"`")
		}
	}
	for _, place := range []struct {
		says  string
		names []string
	}{
		{"[json.md](json.md) has what verbs print with `--json`, too, and the parts of that", printed},
		{"The specification of the Open Inference Protocol has, and openapi.json repeats", protocol},
		{"[openapi.json](../openapi.json) has the manifest of a version, as it is in `manifest.json`, and its parts", manifest},
	} {
		h.paragraph("%s: %s.", place.says, strings.Join(place.names, ", "))
	}
}

// parts notes the structs that a struct is made of, at any depth.
func parts(t *testing.T, typ reflect.Type, found map[reflect.Type]bool) {
	for _, p := range properties(t, typ) {
		inner := p.field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && !found[inner] {
			found[inner] = true
			parts(t, inner, found)
		}
	}
}

// firstSentence returns a text up to its first full stop.
func firstSentence(text string) string {
	if first, _, ok := strings.Cut(text, ". "); ok {
		return first + "."
	}
	return text
}

// handlerOf is the id of the first operation of a route.
func handlerOf(op *operation) string {
	id, _, _ := strings.Cut(op.id, "By")
	return id
}

// forms lists methods and paths of a route.
func forms(r *web.Route) string {
	var list []string
	for path := range strings.FieldsSeq(r.Paths) {
		for method := range strings.FieldsSeq(r.Methods) {
			list = append(list, "`"+method+" "+strings.TrimSuffix(path, "{$}")+"`")
		}
	}
	return strings.Join(list, "<br>")
}

// anchor is the place that GitHub gives a heading.
func anchor(heading string) string {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(heading))
}

// httpObject is an object of http.md: its members, and the objects whose members it has as well.
type httpObject struct{ members, all []string }

// httpObjects reads the table of objects of http.md.
func httpObjects(t *testing.T, text string) map[string]*httpObject {
	t.Helper()
	begin := regexp.MustCompile(`^\| <a id="([a-z0-9]+)"></a>\*\*(\w+)\*\* \|`)
	all := regexp.MustCompile(`^\| all of \[(\w+)\]`)
	one := regexp.MustCompile("^\\| `(\\w+)` \\| [^|]+ \\| [^|]+ \\|$")
	_, table, _ := strings.Cut(text, "\n## Objects\n")
	table, _, _ = strings.Cut(table, "\n## ")
	small := regexp.MustCompile("^`(\\w+)`, [^:]+: .+$")
	objects := map[string]*httpObject{}
	var now *httpObject
	for line := range strings.Lines(table) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\\|", "/")
		if m := begin.FindStringSubmatch(line); m != nil {
			name := m[2]
			if objects[name] != nil || m[1] != strings.ToLower(name) {
				t.Errorf("http.md has the object %s twice, or with the anchor of another", name)
			}
			now = &httpObject{}
			objects[name] = now
			for _, member := range strings.Split(strings.TrimSuffix(line, " |"), "<br>")[1:] {
				if m := all.FindStringSubmatch("| " + member); m != nil {
					now.all = append(now.all, m[1])
				} else if m := small.FindStringSubmatch(member); m != nil {
					now.members = append(now.members, m[1])
				} else {
					t.Errorf("http.md has a member of %s without a type or a meaning: %s", name, member)
				}
			}
		} else if m := all.FindStringSubmatch(line); m != nil {
			now.all = append(now.all, m[1])
		} else if m := one.FindStringSubmatch(line); m != nil {
			now.members = append(now.members, m[1])
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("http.md has a member without a type or a meaning: %s", line)
		}
	}
	return objects
}

// TestHTTPIsComplete: http.md has every operation of openapi.json in a table, and every object once, with all of its
// members, or says where it is.
func TestHTTPIsComplete(t *testing.T) {
	page, err := os.ReadFile("docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(document, &api); err != nil {
		t.Fatal(err)
	}
	if len(api.Paths) == 0 || len(api.Components.Schemas) == 0 {
		t.Fatal("openapi.json has no paths or no objects")
	}
	text := string(page)
	for path, methods := range api.Paths {
		for method := range methods {
			request := "`" + strings.ToUpper(method) + " " + path + "`"
			row := regexp.MustCompile(`(?m)^\| ([^|]*<br>)?` + regexp.QuoteMeta(request) + `(<br>[^|]*)? \| [^|]+ \|`)
			if n := len(row.FindAllString(text, -1)); n != 1 {
				t.Errorf("%s is in %d rows of http.md", request, n)
			}
		}
	}
	objects := httpObjects(t, text)
	_, others, _ := strings.Cut(text, "\n## Other objects\n")
	for name, schema := range api.Components.Schemas {
		object := objects[name]
		if object == nil {
			if n := strings.Count(others, "["+name+"](") + strings.Count(others, "`"+name+"`"); n != 1 {
				t.Errorf("http.md names the object %s %d times among the others", name, n)
			}
			continue
		}
		members := slices.Clone(object.members)
		for _, other := range object.all {
			if objects[other] == nil {
				t.Errorf("%s has all of %s, which http.md does not have", name, other)
				continue
			}
			members = append(members, objects[other].members...)
		}
		slices.Sort(members)
		if want := sorted(schema.Properties); !slices.Equal(members, want) {
			t.Errorf("%s has the members %q in http.md, %q in openapi.json", name, members, want)
		}
	}
}
