package configs_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/web"
)

// operation is a method and a path of the document.
type operation struct {
	id, method, path string
	route            *web.Route
	form             int // index of the path in its route
	description      string
	example          *exchange // of the first form only
}

// operations returns everything that is served, in the order of the table.
func operations(t *testing.T) (list []operation) {
	for i := range web.Routes {
		route := &web.Routes[i]
		name := runtime.FuncForPC(reflect.ValueOf(route.Serve).Pointer()).Name()
		name = name[strings.LastIndex(name, ".")+1:]
		doc := source(t, module+"/daemon/web").docs["Server."+name]
		if doc == "" || route.Summary == "" {
			t.Errorf("%v: neither a doc comment of %s nor a summary may be missing", route.Paths, name)
		}
		for j, method := range strings.Fields(route.Methods) {
			for form, path := range strings.Fields(route.Paths) {
				op := operation{
					id:          name,
					method:      method,
					path:        strings.TrimSuffix(path, "{$}"),
					route:       route,
					form:        form,
					description: described(doc, name),
				}
				switch {
				case form == 0:
				case strings.Contains(path, "{alias}"):
					op.id += "OfAlias"
				case strings.Contains(path, "{version}"):
					op.id += "OfVersion"
				default:
					op.id += capital(path[strings.LastIndex(path, "/")+1:])
				}
				if j > 0 {
					op.id += "By" + capital(strings.ToLower(method))
				}
				list = append(list, op)
			}
		}
	}
	return list
}

// statusTexts says what a status means on this surface. Those in plain have a body that is not JSON, which other
// programs' code writes; those in empty have none.
var (
	statusTexts = map[int]string{
		200: "The answer", 202: "It will be done", 206: "The range that was asked for",
		304: "The client has it already, or nothing changed in the time of a long poll",
		400: "The path, a parameter or the body is wrong",
		401: "web.config_file asks for a user and a password, and they are missing or wrong",
		403: "The request comes from a page of another origin, or it would change something and the daemon was started " +
			"without --web.enable-lifecycle",
		404: "There is no such model, version, alias or file", 408: "The body did not arrive in time",
		409: "The alias was moved by another request, or the deltas after that one are not there",
		410: "The version has expired",
		412: "If-Match names another content of the file", 413: "The body is too large, takes more memory than " +
			"web.max_inflight_bytes, or comes with a GET",
		416: "The file has no such range", 421: "The Host header names neither an address, localhost nor one of " +
			"web.allowed_hosts",
		422: "The configuration file cannot be taken up, and why", 429: "More requests than web.config_file allows",
		500: "Something went wrong on the daemon's machine; its log says what",
		502: "The version is damaged or of another format; the log says more",
		503: "Not ready, or too many at a time: come again later, after Retry-After",
	}
	plain = []int{401, 429}
	empty = []int{304, 412}
)

// parameters are the query parameters and headers of Route.Params, and those of paths.
var parameters = map[string]object{
	"model": {{"description", "Name of a model of the configuration."}, {"schema", nameSchema}},
	"alias": {{"description", "Name of an alias, such as champion or latest."}, {"schema", nameSchema}},
	"version": {
		{"description", "Number of a version, from 1; or live, where serve.live is on, to score with."},
		{"schema", versionSchema},
	},
	"file": {{"description", "A file that the manifest lists, manifest.json or manifest.sig."},
		{"schema", object{{"type", "string"}, {"minLength", 1}, {"pattern", "^[^/]+$"}}}},
	"?model": {{"description", "Name of the model; all models without it."}, {"schema", nameSchema}},
	"?base": {
		{"description", "Version that the deltas belong to."},
		{"schema", object{{"type", "integer"}, {"format", "int64"}, {"minimum", 1}}},
	},
	"?after": {
		{
			"description",
			"What the client has, 0 for none: of an alias the version, of deltas the number of the last, of curves the time " +
				"of the last " +
				"point in milliseconds since 1970. A wait is for another one.",
		},
		{"schema", object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}},
	},
	"?wait": {{"description", "How long to wait, 30s unless said otherwise, 60s at most."},
		{"schema", object{{"type", "string"}, {"pattern", `^([0-5]?[0-9]s|60s|1m|0)$`}}}},
	"?renewed": {{"description", "Renewal that the client knows: another one ends the wait, too."},
		{"schema", object{{"type", "string"}, {"format", "date-time"}}}},
	"alert":   {{"description", "Name of an alert of the rules."}, {"schema", stringSchema}},
	"?rounds": {{"description", "How many times to send; without it until the stream ends."}, {"schema", countSchema}},
	"?prefix": {{"description", "What the names begin with; every name without it."}, {"schema", stringSchema}},
	"?limit": {{"description", "How many to list at most: the newest versions, all without it; or names."},
		{"schema", countSchema}},
	"?with": {
		{"description", "Version to compare with; the one that it started from without it."},
		{"schema", countSchema},
	},
	"?field": {{"description", "Categorical or list field of the name."}, {"schema", stringSchema}},
	"?name":  {{"description", "Name to look up."}, {"schema", stringSchema}},
	"Inference-Header-Content-Length": {
		{
			"description",
			"Length of the JSON object at the beginning of the body, where elements follow it as the binary tensor " +
				"data extension says.",
		},
		{"schema", countSchema},
	},
	"If-None-Match": {{"description", "ETags that the client has."}, {"schema", stringSchema}},
	"If-Match":      {{"description", "ETags of which the file must have one."}, {"schema", stringSchema}},
	"If-Range":      {{"description", "ETag that the file must have for Range to count."}, {"schema", stringSchema}},
	"Range":         {{"description", "Bytes of the file, as RFC 9110 says."}, {"schema", stringSchema}},
}

var (
	stringSchema = object{{"type", "string"}}
	countSchema  = object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}
	nameSchema   = object{{"type", "string"}, {"pattern", `^[a-z0-9][a-z0-9._-]{0,63}$`}}
)

var versionSchema = object{
	{"oneOf", []any{object{{"type", "integer"}, {"format", "int64"}, {"minimum", 1}}, object{{"const", "live"}}}},
}

// answerHeaders are those of Route.Headers.
var answerHeaders = map[string]object{
	"X-Model-Version": {{"description", "Version that the answer is about, or live."}, {"schema", versionSchema}},
	"Inference-Header-Content-Length": {
		{
			"description",
			"Length of the JSON object, where elements follow it: the answer is application/octet-stream then.",
		},
		{"schema", countSchema},
	},
	"ETag": {
		{"description", "Changes when the answer does. The signature of a manifest has none."},
		{"schema", stringSchema},
	},
	"X-Payload-Digest": {{"description", "Payload digest of the version."}, {"schema", digestSchema}},
	"Repr-Digest": {
		{"description", "SHA-256 of the whole file, as RFC 9530 says. manifest.json has its own in its last line."},
		{"schema", stringSchema},
	},
}

var digestSchema = object{{"type", "string"}, {"pattern", "^sha256:[0-9a-f]{64}$"}}

// known holds what the type of a field does not say. Each must be used.
var known = map[string]object{
	"answered.Version":      {{"minimum", 0}},
	"answered.Digest":       {{"type", "string"}, {"pattern", "^(sha256:[0-9a-f]{64})?$"}},
	"answered.Delta":        {{"minimum", 0}},
	"answered.DeltaDigest":  digestSchema,
	"answered.AgeSeconds":   {{"minimum", 0}},
	"modelEntry.Delta":      {{"minimum", 0}},
	"identity.Version":      {{"minimum", 1}},
	"identity.Digest":       digestSchema,
	"aliasMove.Version":     {{"minimum", 1}},
	"aliasMove.Why":         {{"minLength", 1}, {"maxLength", 1024}, {"pattern", `\S`}},
	"prediction.Prediction": {{"anyOf", []any{numberSchema, stringSchema, list(stringSchema)}}},
	"scoreRequest.Events":   {{"items", object{{"type", "object"}}}},
	"explainRequest.Event":  {{"type", "object"}},
	"topRequest.Event":      {{"type", "object"}},
	"topRequest.K":          {{"minimum", 1}, {"default", 10}},
	"InferRequest.Parameters": {
		{"type", "object"},
		{"properties", object{{"history", list(object{{"type", "object"}})}}},
	},
	"RequestTensor.Parameters": {{"type", "object"}}, "RequestOutput.Parameters": {{"type", "object"}},
	"InferRequest.Outputs":   {{"items", object{{"$ref", "#/components/schemas/RequestOutput"}}}},
	"RequestTensor.Datatype": {{"enum", []string{"BYTES", "FP64", "FP32"}}},
	"RequestTensor.Shape": {
		{"minItems", 1},
		{"maxItems", 2},
		{"items", object{{"type", "integer"}, {"minimum", 0}}},
	},
	"RequestTensor.Data": {{"type", "array"}, {"items", object{{"anyOf", []any{stringSchema, object{{"type", "number"}},
		list(object{{"type", []string{"string", "number"}}})}}}}},
	"Tensor.Data": {{"type", "array"}, {"items", object{{"type", []string{"string", "number", "boolean", "null"}}}}},
}

// answers returns the responses of an operation.
func (op *operation) answers(s *schemas) object {
	with := op.route.With
	if with == nil {
		with = []int{http.StatusOK}
	}
	body := func(what any) object {
		if media, ok := what.(web.Media); ok {
			schema := object{{"type", "string"}}
			switch media {
			case "application/json":
				schema = object{{"type", "object"}}
			case "application/octet-stream":
				schema = object{}
			}
			return object{{string(media), object{{"schema", schema}}}}
		}
		content := object{{"schema", s.of(reflect.TypeOf(what), false)}}
		return object{{"application/json", content}}
	}
	var headers object
	for _, h := range op.route.Headers {
		if answerHeaders[h] == nil {
			s.t.Errorf("%s: the header %s is not described", op.id, h)
		}
		headers.set(h, object{{"$ref", "#/components/headers/" + h}})
	}
	all := map[int]object{}
	for _, status := range with {
		one := object{{"description", statusTexts[status] + "."}}
		if headers != nil && status < 300 {
			one.set("headers", headers)
		}
		one.set("content", body(op.route.Gives))
		all[status] = one
	}
	for _, status := range op.refusals() {
		if slices.Contains(with, status) || statusTexts[status] == "" {
			s.t.Errorf("%s: status %d is there twice, or not described", op.id, status)
		}
		if op.route.Gives == web.Media("text/plain") && status >= 500 { // of the library that writes metrics
			all[status] = object{{"description", statusTexts[status] + "."}, {"content", body(web.Media("text/plain"))}}
			continue
		}
		all[status] = object{{"$ref", "#/components/responses/" + strconv.Itoa(status)}}
	}
	var out object
	for _, status := range sortedKeys(all) {
		out.set(strconv.Itoa(status), all[status])
	}
	return out
}

func sortedKeys[V any](m map[int]V) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// refusals returns every status that does not come with the answer.
func (op *operation) refusals() []int {
	all := append([]int{400, 401, 413, 421, 429}, op.route.Refuses...)
	if op.method != http.MethodGet {
		all = append(
			all,
			http.StatusForbidden,
			http.StatusRequestTimeout,
			http.StatusServiceUnavailable,
		) // of the page, and of a body
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var pathNames = regexp.MustCompile(`\{([a-z]+)\}`)

// parameters returns the parameters of an operation, those of the path first.
func (op *operation) parameters(t *testing.T) (list []object) {
	add := func(name, in, key string) {
		p := parameters[key]
		if p == nil {
			t.Fatalf("%s: the parameter %s is not described", op.id, name)
		}
		list = append(list, append(object{{"name", name}, {"in", in}, {"required", in == "path"}}, p...))
	}
	for _, m := range pathNames.FindAllStringSubmatch(op.path, -1) {
		add(m[1], "path", m[1])
	}
	for _, name := range op.route.Params {
		if http.CanonicalHeaderKey(name) == name {
			add(name, "header", name)
		} else {
			add(name, "query", "?"+name)
		}
	}
	return list
}

// tag is the heading under which an operation is listed.
func (op *operation) tag() string {
	switch {
	case strings.HasPrefix(op.path, "/v1"):
		return "models"
	case strings.HasPrefix(op.path, "/v2"):
		return "inference"
	}
	return "daemon"
}

var tags = []object{
	{{"name", "daemon"}, {"description", "The daemon itself: health, metrics, configuration."}},
	{{"name", "models"}, {"description", "Published versions, their files, and scores in the form of refitd."}},
	{{"name", "inference"}, {"description", "Scores in the form of the Open Inference Protocol, version 2."}},
}

const about = "Everything that refitd run serves over HTTP. A refusal is {\"error\": text}; the exceptions are 401 " +
	"and 429, which are plain text, " +
	"and 304 and 412, which have no body. Every answer about a version carries model, version and digest and the " +
	"header X-Model-Version, " +
	"and one that a model gives its delta and age. " +
	"A path with neither alias nor version means the champion. HEAD is answered wherever GET is. An unknown path is " +
	"404, another method " +
	"than those listed 405 with Allow. Bodies are read strictly: one JSON value of at most 16 MiB in UTF-8, no unknown " +
	"and no repeated names. " +
	"They may be compressed with gzip; what they are then may be no larger. " +
	"Requests to a host that is neither an address, localhost nor one of web.allowed_hosts are refused with 421, those " +
	"from pages of another " +
	"origin that are not reads with 403. Users, passwords and client certificates are those of web.config_file; " +
	"without it everybody may ask."

const whyRefused = "Why a request was refused."

// refusalMembers are the members of a refusal with their meanings. The first is always there, the others where an event
// is refused.
func refusalMembers(t *testing.T) (members object) {
	docs := source(t, module+"/daemon/web/request").docs
	for _, name := range []string{"Error", "Reason", "Field", "Expected", "Got"} {
		members.set(strings.ToLower(name), docs["Failure."+name])
	}
	return members
}

// document makes the OpenAPI document.
func document(t *testing.T) (object, []operation, *schemas) {
	s := &schemas{
		t:          t,
		prefix:     "#/components/schemas/",
		components: map[string]object{},
		types:      map[string]reflect.Type{},
		used:       map[string]bool{},
	}
	ops := operations(t)
	examples := exchanges(t)
	var paths, responses, headers object
	for i := range ops {
		op := &ops[i]
		out := object{
			{"operationId", op.id},
			{"summary", op.route.Summary},
			{"description", op.description},
			{"tags", []string{op.tag()}},
		}
		if op.route.Lifecycle {
			out.set("description", op.description+" Only with --web.enable-lifecycle.")
		}
		if list := op.parameters(t); list != nil {
			out.set("parameters", list)
		}
		if op.form == 0 {
			op.example = examples[op.id]
		}
		if takes := op.route.Takes; takes != nil {
			content := object{{"schema", s.of(reflect.TypeOf(takes), true)}}
			if op.example != nil {
				content.set("example", json.RawMessage(op.example.body))
			}
			out.set("requestBody", object{{"required", true}, {"content", object{{"application/json", content}}}})
		}
		answers := op.answers(s)
		if e := op.example; e != nil && e.media == "application/json" &&
			op.route.Gives != web.Media("application/json") {
			content := answers.get(strconv.Itoa(e.status)).(object).get("content").(object)
			one := content[0].value.(object)
			one.set("example", json.RawMessage(e.answer))
			content[0].value = one
		}
		out.set("responses", answers)
		item, _ := paths.get(op.path).(object)
		item.set(strings.ToLower(op.method), out)
		paths.set(op.path, item)
	}
	for _, status := range sortedKeys(statusTexts) {
		if status < 300 {
			continue
		}
		one := object{{"description", statusTexts[status] + "."}}
		switch {
		case slices.Contains(plain, status):
			one.set("content", object{{"text/plain", object{{"schema", stringSchema}}}})
		case !slices.Contains(empty, status):
			one.set("content",
				object{{"application/json", object{{"schema", object{{"$ref", "#/components/schemas/Error"}}}}}})
		}
		switch status {
		case 401:
			one.set("headers", object{{"WWW-Authenticate", object{{"schema", stringSchema}}}})
		case 503:
			one.set("headers",
				object{{"Retry-After", object{{"description", "Seconds."}, {"schema", object{{"type", "integer"}}}}}})
		}
		responses.set(strconv.Itoa(status), one)
	}
	for _, name := range sorted(answerHeaders) {
		headers.set(name, answerHeaders[name])
	}
	var members object
	for _, m := range refusalMembers(t) {
		members.set(m.key, object{{"type", "string"}, {"description", sentence(capital(m.value.(string)))}})
	}
	s.components["Error"] = object{{"type", "object"}, {"description", whyRefused}, {"properties", members},
		{"required", []string{"error"}}}
	var components object
	for _, name := range sorted(s.components) {
		components.set(name, s.components[name])
	}
	for name := range known {
		if !s.used[name] {
			t.Errorf("%s is no field of a request or an answer", name)
		}
	}
	for name := range examples {
		if !slices.ContainsFunc(ops, func(op operation) bool { return op.id == name }) {
			t.Errorf("%s is no operation", name)
		}
	}
	return object{{"openapi", "3.1.0"},
		{
			"info",
			object{
				{"title", "refitd"},
				{"version", "1"},
				{"description", about},
				{"license", object{{"name", "MIT"}, {"identifier", "MIT"}}},
			},
		},
		{
			"servers",
			[]object{{{"url", "http://127.0.0.1:9464"}, {"description", "web.listen_address, as it is by default."}}},
		},
		{"security", []object{{}, {{"password", []string{}}}, {{"certificate", []string{}}}}},
		{"tags", tags}, {"paths", paths},
		{"components", object{{"schemas", components}, {"responses", responses}, {"headers", headers},
			{"securitySchemes", object{
				{
					"password",
					object{
						{"type", "http"},
						{"scheme", "basic"},
						{"description", "basic_auth_users of web.config_file."},
					},
				},
				{"certificate", object{{"type", "mutualTLS"}, {"description", "client_auth_type of web.config_file."}}},
			}}}}}, ops, s
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TestOpenAPI: configs/openapi.json describes the routes of the daemon, all of them and no other.
func TestOpenAPI(t *testing.T) {
	doc, _, _ := document(t)
	same(t, "openapi.json", indented(t, doc))
}
