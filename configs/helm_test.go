package configs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/build"
)

// chartValues is the schema of the values of the chart but for its configuration, whose schema is that of the file. The
// configuration has to be one that the templates fit: they mount its paths and probe its second port.
const chartValues = `
$schema: https://json-schema.org/draft/2020-12/schema
title: Values of the Helm chart of refitd
description: Made from the schema of the configuration by go test ./configs -update.
type: object
additionalProperties: false
required: [image, config, auth, resources, persistence, networkPolicy, podDisruptionBudget, serviceMonitor]
properties:
  global: {type: object}
  image:
    type: object
    additionalProperties: false
    required: [repository]
    properties:
      repository: {type: string, minLength: 1}
      tag: {type: string}
      pullPolicy: {enum: [Always, IfNotPresent, Never]}
  imagePullSecrets: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}
  config:
    $ref: "#/$defs/config"
    required: [kafka, storage, web, models]
    properties:
      storage: {required: [path], properties: {path: {pattern: "^/var/lib/refitd/"}}}
      web:
        required: [listen_address, config_file, health_address]
        properties: {listen_address: {pattern: ":9464$"}, health_address: {pattern: "^[^:]*:9465$"}, config_file: {const: /etc/refitd-web/web.yml}}
  auth:
    type: object
    additionalProperties: false
    required: [username]
    properties:
      username: {type: string, pattern: "^[^:]+$"}
      password: {type: string, maxLength: 72}
      passwordHash: {type: string, pattern: "^($|\\$2[aby]\\$)"}
  env: {type: array, items: {type: object, required: [name]}}
  extraVolumes: {type: array, items: {type: object, required: [name]}}
  extraVolumeMounts: {type: array, items: {type: object, required: [name, mountPath]}}
  resources:
    type: object
    properties:
      requests: {type: object, additionalProperties: {type: [string, number]}}
      limits: {type: object, additionalProperties: {type: [string, number]}}
  persistence:
    type: object
    additionalProperties: false
    required: [size, accessModes]
    properties:
      size: {type: string, pattern: "^[0-9]+(Mi|Gi|Ti|M|G|T)$"}
      storageClassName: {type: string}
      accessModes: {type: array, minItems: 1, items: {enum: [ReadWriteOncePod, ReadWriteOnce]}}
  networkPolicy:
    type: object
    additionalProperties: false
    properties: {enabled: {type: boolean}, egressPorts: {type: array, items: {type: integer, minimum: 1, maximum: 65535}}}
  podDisruptionBudget: {type: object, additionalProperties: false, properties: {enabled: {type: boolean}}}
  serviceMonitor:
    type: object
    additionalProperties: false
    properties: {enabled: {type: boolean}, interval: {type: string, pattern: "^[0-9]+(ms|s|m|h)$"}}
  podAnnotations: {type: object, additionalProperties: {type: string}}
  nodeSelector: {type: object, additionalProperties: {type: string}}
  tolerations: {type: array, items: {type: object}}
  affinity: {type: object}
`

// TestChartSchema: the schema of the values is made of that of the configuration, takes the defaults, and says of what
// is wrong where it is, what was expected and what was there.
func TestChartSchema(t *testing.T) {
	var schema, conf map[string]any
	unmarshal(t, []byte(chartValues), &schema)
	if err := json.Unmarshal([]byte(configs.ConfigSchema), &conf); err != nil {
		t.Fatal(err)
	}
	defs := conf["$defs"].(map[string]any)
	delete(conf, "$defs")
	delete(conf, "$schema")
	delete(conf, "$id") // its address is that of the configuration file alone
	defs["config"] = conf
	schema["$defs"] = defs
	text, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "helm/values.schema.json", append(text, '\n'))

	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("values.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ change, want string }{
		{"", ""},
		{"image: {tag: 1}", "at '/image/tag': got number, want string"},
		{"replicas: 2", "additional properties 'replicas' not allowed"},
		{"networkPolicy: {egressPorts: [kafka]}", "at '/networkPolicy/egressPorts/0': got string, want integer"},
		{"resources: {limits: {memory: {}}}", "at '/resources/limits/memory': got object, want number or string"},
		{"config: {kafka: {group_id: 7}}", "at '/config/kafka/group_id': got number, want string"},
		{"config: {web: {listen_address: '0.0.0.0:80'}}", "at '/config/web/listen_address': '0.0.0.0:80' does not match " +
			"pattern ':9464$'"},
		{"config: {web: {health_address: 'unix:health.sock'}}", "at '/config/web/health_address': 'unix:health.sock' does " +
			"not match pattern"},
	} {
		values := defaultValues(t)
		var change map[string]any
		unmarshal(t, []byte(c.change), &change)
		merge(values, change)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON(t, values)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.change, err, c.want)
		}
	}
}

// TestEachChartValue: a change of any value but those of the configuration, which is copied as a whole, changes what is
// rendered.
func TestEachChartValue(t *testing.T) {
	start := func() map[string]any {
		values := defaultValues(t)
		var change map[string]any
		unmarshal(t, mustRead(t, "testdata/chart.yaml"), &change)
		merge(values, change)
		return values
	}
	changes := strings.Split(strings.TrimSpace(`
image.repository: registry.example/refitd
image.tag: "9"
image.pullPolicy: Always
imagePullSecrets: [{name: registry}]
config: {kafka: {group_id: other}}
auth.username: operator
auth.password: other
auth.passwordHash: $2a$10$abcdefghijklmnopqrstuvwxyz
env: [{name: KAFKA_PASSWORD, value: secret}]
extraVolumes: [{name: keys, secret: {secretName: keys}}]
extraVolumeMounts: [{name: keys, mountPath: /keys}]
resources: {limits: {memory: 1Gi}}
persistence.size: 77Gi
persistence.storageClassName: fast
persistence.accessModes: [ReadWriteOnce]
networkPolicy.enabled: false
networkPolicy.egressPorts: [9092, 4317]
podDisruptionBudget.enabled: false
serviceMonitor.enabled: false
serviceMonitor.interval: 60s
podAnnotations: {team: ranking}
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {}}`), "\n")
	plain, changed := render(t, start()), make(map[string]bool)
	for _, line := range changes {
		key, value, _ := strings.Cut(line, ": ")
		outer, inner, nested := strings.Cut(key, ".")
		text := outer + ": " + value
		if nested {
			text = outer + ": {" + inner + ": " + value + "}"
		}
		var change map[string]any
		unmarshal(t, []byte(text), &change)
		values := start()
		merge(values, change)
		if bytes.Equal(render(t, values), plain) {
			t.Errorf("%s changes nothing", line)
		}
		changed[key] = true
	}
	for key, value := range start() {
		inner, nested := value.(map[string]any)
		if !nested || len(inner) == 0 || key == "config" || key == "resources" {
			inner = map[string]any{"": nil}
		}
		for name := range inner {
			if path := strings.TrimSuffix(key+"."+name, "."); !changed[path] {
				t.Errorf("no change of %s is rendered here", path)
			}
		}
	}
}

// TestChart: a release named refitd, with the password of the manifests, is the manifests, but for labels that name
// the release and the digest that restarts the pod. REFITD_CHART names a file that helm template has written;
// otherwise the templates are run here, with what they use of Helm's functions.
func TestChart(t *testing.T) {
	var rendered []byte
	if path := os.Getenv("REFITD_CHART"); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rendered = content
	} else {
		values := defaultValues(t)
		var change map[string]any
		unmarshal(t, mustRead(t, "testdata/chart.yaml"), &change)
		merge(values, change)
		rendered = render(t, values)
	}
	plain := slices.Concat(mustRead(t, "kubernetes/refitd.yaml"), []byte("\n---\n"),
		mustRead(t, "kubernetes/servicemonitor.yaml"))
	want, got := resources(t, plain), resources(t, rendered)
	if w, g := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(w, g) {
		t.Fatalf("the chart has %v, the manifests have %v", g, w)
	}
	for kind := range want {
		if !bytes.Equal(want[kind], got[kind]) {
			t.Errorf("%s of the manifests:\n%s\nof the chart:\n%s", kind, want[kind], got[kind])
		}
	}
	var chart struct {
		Version    string
		AppVersion string `yaml:"appVersion"`
	}
	unmarshal(t, mustRead(t, "helm/Chart.yaml"), &chart)
	if chart.AppVersion != build.Version || chart.Version != build.Version {
		t.Errorf("chart %s of program %s, this is %s", chart.Version, chart.AppVersion, build.Version)
	}
}

// TestChartWithoutPassword: there is no password that every installation has.
func TestChartWithoutPassword(t *testing.T) {
	if err := execute(io.Discard, defaultValues(t)); err == nil ||
		!strings.Contains(err.Error(), "auth.password: got an empty one, expected") {
		t.Errorf("rendered without a password: %v", err)
	}
}

// resources returns the documents of a file by kind, as indented JSON with sorted keys, without what only the chart
// has.
func resources(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var doc map[string]any
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if doc == nil {
			continue
		}
		strip(doc)
		for part, file := range map[string]string{"data": "refitd.yaml", "stringData": "web.yml"} {
			if files, ok := doc[part].(map[string]any); ok {
				var inner map[string]any
				unmarshal(t, []byte(files[file].(string)), &inner)
				files[file] = inner
			}
		}
		found[doc["kind"].(string)] = asJSON(t, doc)
	}
}

// strip removes, at any depth, what only the chart has.
func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version",
			"app.kubernetes.io/managed-by", "imagePullPolicy"} {
			delete(v, key)
		}
		if a, ok := v["annotations"].(map[string]any); ok && len(a) == 1 && a["checksum/config"] != "" {
			delete(v, "annotations")
		}
		for _, inner := range v {
			strip(inner)
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}

func render(t *testing.T, values map[string]any) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := execute(&out, values); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// execute runs the templates as Helm does for a release named refitd.
func execute(out io.Writer, values map[string]any) error {
	root := template.New("chart")
	funcs := template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := root.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			b, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(b), "\n"), err
		},
		"nindent": func(n int, s string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
		},
		"required": func(message, v string) (string, error) {
			if v == "" {
				return "", errors.New(message)
			}
			return v, nil
		},
		"default": func(fallback, v string) string {
			if v == "" {
				return fallback
			}
			return v
		},
		"quote":     strconv.Quote,
		"bcrypt":    func(string) string { return "$2a$" },
		"sha256sum": func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
	}
	files, err := filepath.Glob("helm/templates/*")
	if err != nil {
		return err
	}
	if _, err := root.Funcs(funcs).ParseFiles(files...); err != nil {
		return err
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"AppVersion": build.Version},
		"Release": map[string]any{"Name": "refitd", "Service": "Helm"},
	}
	for _, file := range files {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
		if err := root.ExecuteTemplate(out, filepath.Base(file), data); err != nil {
			return err
		}
	}
	return nil
}

// merge puts values over others, as Helm does: mappings by key, everything else whole.
func merge(into, from map[string]any) {
	for key, v := range from {
		inner, ok := into[key].(map[string]any)
		if m, isMap := v.(map[string]any); ok && isMap {
			merge(inner, m)
			continue
		}
		into[key] = v
	}
}

func defaultValues(t *testing.T) (values map[string]any) {
	t.Helper()
	unmarshal(t, mustRead(t, "helm/values.yaml"), &values)
	return values
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := yaml.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}
