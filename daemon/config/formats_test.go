package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// TestFormatKeys: formats with the schemas that they need, and what is wrong by its key.
func TestFormatKeys(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"r.avsc": `"string"`, "s.avsc": `"int"`,
		"r.proto":    `import "in/a.proto"; import "google/protobuf/any.proto"; import "google/type/date.proto"; message R {}`,
		"in/a.proto": "import \"in/b.proto\";\nimport \"in/a.proto\";", "in/b.proto": "message B {}", "r.desc": "\xff\x00",
		"bad.proto": `import "../x.proto";`, "gone.proto": `import "gone/x.proto";`, "r.txt": "", "auth": "ann:secret\n",
		"noauth": "ann", "token": "t0ken\n", "large.avsc": strings.Repeat(" ", files.MaxWriter+1),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(registry, input string) (*Config, error) {
		file := filepath.Join(dir, "c.yaml")
		text := fmt.Sprintf(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g, schema_registry: %s}
models:
  - name: m
    input: %s
    schema: {task: regression, label: y, categorical: [user]}
`, registry, input)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(file)
	}
	const https = `{url: "https://r:8081", basic_auth_file: auth, timeout: 3s}`
	c, err := load(https, `{topics: [t], format: auto, key_format: avro}`)
	if err != nil {
		t.Fatal(err)
	}
	if user, token := c.Kafka.SchemaRegistry.Secrets(); user != "ann:secret" || token != "" ||
		!c.Models[0].Input.FromRegistry || strings.Contains(fmt.Sprintf("%+v", c), "secret") {
		t.Errorf("%+v", c.Kafka.SchemaRegistry)
	}
	c, err = load(`{url: "http://127.0.0.1:8081", token_file: token}`, `{topics: [t], format: json}`)
	if err != nil || c.Models[0].Input.FromRegistry {
		t.Errorf("%v, %+v", err, c)
	}
	plain := c.Models[0]
	if c, err = load(`{}`, `{topics: [t], format: protobuf, schema_file: r.proto}`); err != nil {
		t.Fatal(err)
	}
	w := c.Models[0].Input.Writer()
	if w == nil || w.Format != event.FormatProtobuf || len(w.References) != 2 || w.References[0].Name != "in/b.proto" {
		t.Errorf("%+v", w)
	}
	if c, err = load(`{}`, `{topics: [t], format: auto, schema_file: r.desc}`); err != nil ||
		c.Models[0].Input.Writer().Text != "/wA=" {
		t.Errorf("%v", err)
	}
	hashes := map[string]bool{plain.SampleHash(): true}
	for _, file := range []string{"r.avsc", "s.avsc"} {
		if c, err = load(`{}`, `{topics: [t], format: avro, schema_file: `+file+`}`); err != nil {
			t.Fatal(err)
		}
		stored := c.Models[0].Stored()
		if !strings.Contains(string(stored), `"written":{`) {
			t.Errorf("the state does not have the schema: %s", stored)
		}
		hashes[c.Models[0].SampleHash()] = true
	}
	if len(hashes) != 3 {
		t.Errorf("%d digests of three formats", len(hashes))
	}
	for _, c := range []struct{ registry, input, want string }{
		{`{}`, `{topics: [t], format: xml}`, "models[0].input.format"},
		{`{}`, `{topics: [t], key_format: xml}`, "models[0].input.key_format"},
		{`{}`, `{topics: [t], format: avro}`, "models[0].input.format"},
		{`{}`, `{topics: [t], format: avro, schema_file: r.avsc, key_format: avro}`, "models[0].input.key_format"},
		{`{}`, `{topics: [t], schema_file: r.avsc}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: protobuf, schema_file: r.avsc}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: avro, schema_file: r.txt}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: avro, schema_file: none.avsc}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: avro, schema_file: large.avsc}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: protobuf, schema_file: bad.proto}`, "models[0].input.schema_file"},
		{`{}`, `{topics: [t], format: protobuf, schema_file: gone.proto}`, "models[0].input.schema_file"},
		{`{token_file: token}`, `{topics: [t]}`, "kafka.schema_registry.url"},
		{`{url: "ftp://r"}`, `{topics: [t]}`, "kafka.schema_registry.url"},
		{`{url: "https://ann:secret@r"}`, `{topics: [t]}`, "kafka.schema_registry.url"},
		{`{url: "http://r:1", token_file: token}`, `{topics: [t]}`, "kafka.schema_registry.url"},
		{`{url: "http://r:1", tls: {server_name: x}}`, `{topics: [t]}`, "kafka.schema_registry.url"},
		{`{url: "https://r:1", timeout: 1h}`, `{topics: [t]}`, "kafka.schema_registry.timeout"},
		{`{url: "https://r:1", token_file: token, basic_auth_file: auth}`, `{topics: [t]}`, "kafka.schema_registry.token_file"},
		{`{url: "https://r:1", basic_auth_file: noauth}`, `{topics: [t]}`, "kafka.schema_registry.basic_auth_file"},
		{`{url: "https://r:1", tls: {cert_file: auth}}`, `{topics: [t]}`, "kafka.schema_registry.tls.key_file"},
	} {
		_, err := load(c.registry, c.input)
		var bad *strictyaml.FileError
		if !errors.As(err, &bad) || bad.Problems[0].Key != c.want {
			t.Errorf("%s, %s: %v, want a problem of %s", c.registry, c.input, err, c.want)
		}
	}
}
