package configs_test

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/snapshot"
)

// TestHTTP: configs/http.md says for people what configs/openapi.json says for programs.
func TestHTTP(t *testing.T) {
	_, ops, _ := document(t)
	var p page
	p.heading(1, "The HTTP surface")
	p.paragraph("Made from the routes of the daemon by a test, as is [openapi.json](openapi.json), which says the same for programs and which the " +
		"daemon serves at `/openapi.json`.")
	p.paragraph("%s", about)
	var rows [][]string
	for _, op := range ops {
		if op.form == 0 && op.id == handlerOf(&op) {
			rows = append(rows, []string{forms(op.route), "[" + op.route.Summary + "](#" + anchor(op.route.Summary) + ")"})
		}
	}
	p.table([]string{"request", "what it is"}, rows)
	p.paragraph("What every request can be refused with:")
	rows = nil
	for _, status := range []int{400, 401, 403, 404, 405, 408, 413, 421, 429, 503} {
		text := statusTexts[status]
		switch status {
		case 404:
			text = "Nothing is served at this path, or there is no such model, version, alias or file"
		case 405:
			text = "The path takes other methods, which Allow names"
		}
		rows = append(rows, []string{strconv.Itoa(status), text})
	}
	p.table([]string{"status", "meaning"}, rows)
	for _, tag := range tags {
		p.heading(2, strings.TrimSuffix(strings.SplitN(tag.get("description").(string), ":", 2)[0], "."))
		for i := range ops {
			if op := &ops[i]; op.form == 0 && op.id == handlerOf(op) && op.tag() == tag.get("name") {
				p.operation(t, op)
			}
		}
	}
	same(t, "http.md", p.bytes())
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
		list = append(list, "`"+strings.ReplaceAll(r.Methods, " ", "\\|")+" "+strings.TrimSuffix(path, "{$}")+"`")
	}
	return strings.ReplaceAll(strings.Join(list, "<br>"), "\\|", ",")
}

func anchor(heading string) string {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(heading))
}

// noLink takes every struct apart but the manifest.
func noLink(typ reflect.Type) string {
	if typ == reflect.TypeFor[snapshot.Manifest]() {
		return "the manifest, as in manifest.json"
	}
	return ""
}

// operation adds what a route takes and answers, with an example.
func (p *page) operation(t *testing.T, op *operation) {
	p.heading(3, op.route.Summary)
	var paths []string
	for method := range strings.FieldsSeq(op.route.Methods) {
		for path := range strings.FieldsSeq(op.route.Paths) {
			paths = append(paths, method+" "+strings.TrimSuffix(path, "{$}"))
		}
	}
	p.code("", strings.Join(paths, "\n"))
	description := op.description
	if op.route.Lifecycle {
		description += " Only with `--web.enable-lifecycle`."
	}
	p.paragraph("%s", description)
	var rows [][]string
	for _, name := range op.route.Params {
		key, in := "?"+name, "query"
		if http.CanonicalHeaderKey(name) == name {
			key, in = name, "header"
		}
		rows = append(rows, []string{"`" + name + "`", in, parameters[key].get("description").(string)})
	}
	p.table([]string{"parameter", "in", "meaning"}, rows)
	if takes := op.route.Takes; takes != nil {
		p.table([]string{"body", "type", "meaning"}, members(t, reflect.TypeOf(takes), "", noLink))
	}
	if media, ok := op.route.Gives.(web.Media); ok {
		p.paragraph("Answers with `%s`.", media)
	} else {
		typ, prefix := reflect.TypeOf(op.route.Gives), ""
		if typ.Kind() == reflect.Slice {
			typ, prefix = typ.Elem(), "[]."
		}
		p.table([]string{"answer", "type", "meaning"}, members(t, typ, prefix, noLink))
	}
	rows = nil
	for _, name := range op.route.Headers {
		rows = append(rows, []string{"`" + name + "`", answerHeaders[name].get("description").(string)})
	}
	p.table([]string{"header of the answer", "meaning"}, rows)
	rows = nil
	with := op.route.With
	if with == nil {
		with = []int{200}
	}
	for _, status := range slices.Sorted(slices.Values(append(slices.Clone(with), op.route.Refuses...))) {
		if status != 200 {
			rows = append(rows, []string{strconv.Itoa(status), statusTexts[status]})
		}
	}
	p.table([]string{"status", "meaning"}, rows)
	p.exchange(t, op.example)
}

// exchange adds a request as curl sends it, and the answer.
func (p *page) exchange(t *testing.T, e *exchange) {
	if e == nil || e.media == "text/html" || strings.HasPrefix(e.path, "/static/") || e.path == "/openapi.json" {
		return
	}
	command := "$ curl"
	if e.method != "GET" {
		command += " -X " + e.method
	}
	for i := 0; i+1 < len(e.header); i += 2 {
		command += " -H '" + e.header[i] + ": " + e.header[i+1] + "'"
	}
	address := "localhost:9464" + e.path
	if strings.ContainsAny(address, "?&") {
		address = "'" + address + "'"
	}
	command += " " + address
	if e.body != "" {
		if len(command)+len(e.body) > 140 {
			command += " \\\n   "
		}
		command += " -d '" + strings.ReplaceAll(e.body, "},{\"name", "},\n      {\"name") + "'"
	}
	answer := e.answer
	switch e.media {
	case "application/json":
		answer = laidOut(t, answer, "")
	case "text/plain":
		if strings.HasPrefix(answer, "# HELP") {
			answer = strings.Join(strings.SplitAfterN(answer, "\n", 3)[:2], "") + "..."
		}
	case "application/octet-stream":
		answer = strconv.QuoteToASCII(answer)
	}
	p.code("console", command+"\n"+answer)
}
