package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

const canary = "hunter2-canary"

// TestSecretsStayHidden prints a configuration with a password in every way there is.
func TestSecretsStayHidden(t *testing.T) {
	text := strings.Replace(smallest, "group_id: refitd-ratings",
		`group_id: g, sasl: {mechanism: plain, username: u, password: "${PASSWORD}"}`, 1)
	env := func(name string) (string, bool) { return canary, name == "PASSWORD" }
	c, err := Parse("r.yaml", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Kafka.SASL.Password.Reveal(); got != canary {
		t.Fatalf("password %q", got)
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", c.Kafka.SASL)
		fmt.Fprintf(&out, verb+"\n", c.Kafka.SASL.Password)
		fmt.Fprintf(&out, verb+"\n", &c.Kafka.SASL.Password)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := marshal(c.Kafka)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "<redacted>") && !strings.Contains(string(b), `\u003credacted\u003e`) {
			t.Errorf("no placeholder in %s", b)
		}
		out.Write(b)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("loaded", "config", c, "sasl", c.Kafka.SASL, "password", c.Kafka.SASL.Password)
	}
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), fmt.Sprintf("%x", canary)) {
		t.Errorf("the password is in\n%s", out.String())
	}
	if got := c.Kafka.SASL.Password.Reveal(); got != canary {
		t.Errorf("Reveal gives %d bytes that are not the password", len(got))
	}
}

func TestSecretSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(canary+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct{ name, sasl, tls, want string }{
		{"file", "password_file: " + write("good", 0o400), "", ""},
		{"readable by others", "password_file: " + write("open", 0o640), "", "kafka.sasl.password_file"},
		{"absent", "password_file: " + filepath.Join(dir, "none"), "", "kafka.sasl.password_file"},
		{"directory", "password_file: " + dir, "", "kafka.sasl.password_file"},
		{"both", "password: a, password_file: " + filepath.Join(dir, "good"), "", "kafka.sasl.password_file"},
		{"neither", "", "", "kafka.sasl.password"},
		{"no variable", `password: "${NONE}"`, "", "kafka.sasl.password"},
		{"number", `password: 12345`, "", "kafka.sasl.password"},
		{"key of others", "password: a", "tls: {enabled: true, cert_file: " + filepath.Join(dir, "good") + ", key_file: " +
			filepath.Join(dir,
				"open") + "}", "kafka.tls.key_file"},
		{"key without certificate", "password: a", "tls: {enabled: true, key_file: " + filepath.Join(dir, "good") + "}",
			"kafka.tls.key_file"},
		{"TLS off", "password: a", "tls: {server_name: x}", "kafka.tls.enabled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sasl := "sasl: {mechanism: scram-sha-512, username: u, " + test.sasl + "}"
			text := strings.Replace(smallest, "group_id: refitd-ratings",
				"group_id: g, "+sasl+strings.TrimSuffix(", "+test.tls, ", "), 1)
			c, err := Parse(filepath.Join(dir, "r.yaml"), []byte(text), noEnv)
			if test.want == "" {
				if err != nil || c.Kafka.SASL.Password.Reveal() != canary {
					t.Fatalf("%v, error %v", c, err)
				}
				return
			}
			bad, ok := errors.AsType[*strictyaml.FileError](err)
			if !ok || bad.Problems[0].Key != test.want {
				t.Errorf("error %v, want one about %s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the password is in %v", err)
			}
		})
	}
	_, problems := parse(t, strings.NewReplacer("127.0.0.1:9092", "kafka.example:9092", "group_id: refitd-ratings",
		"group_id: g, sasl: {mechanism: plain, username: u, password: a}").Replace(smallest))
	if len(problems) != 1 || problems[0].Key != "kafka.tls.enabled" {
		t.Errorf("password in the clear: problems %+v", problems)
	}
}

// TestExcerptsHideSecrets puts mistakes next to a password.
func TestExcerptsHideSecrets(t *testing.T) {
	for _, kafka := range []string{
		"{group_id: 7, sasl: {password: " + canary + "}}",
		"{sasl: {password: " + canary + ", mechanis: plain}}",
		"{sasl: {passwrod: " + canary + "}}",
		"{sasl: {\"Password\" : " + canary + "}}",
		"{sasl: {password: " + canary,
		"{sasl: {password: [" + canary + "]}}",
		"{sasl: {password: *" + canary + "}}",
		"{sasl: {sasl.password: " + canary + "}}",
		"{password: " + canary + "}",
		"\n  sasl:\n    password: |\n      " + canary + "\n    mechanism: plane",
	} {
		text := strings.Replace(smallest, `{bootstrap_servers: ["127.0.0.1:9092"], group_id: refitd-ratings}`, kafka, 1)
		_, err := Parse("r.yaml", []byte(text), noEnv)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: error %v", kafka, err)
		}
		if bad, ok := errors.AsType[*strictyaml.FileError](err); ok {
			if b, _ := json.Marshal(bad.Problems); strings.Contains(string(b), canary) {
				t.Errorf("%s: problems %s", kafka, b)
			}
		}
	}
	_, err := Parse("r.yaml", []byte(strings.Replace(smallest, "group_id: refitd-ratings",
		"group_id: g, sasl: {password_file: /none/here, mechanism: plain}", 1)), noEnv)
	if err == nil || !strings.Contains(err.Error(), "{password_file: /none/here") {
		t.Errorf("the path of a password file is hidden: %v", err)
	}
}

// TestClassesAreNeeded: a daemon refuses a model without its classes, as it would refuse it a moment later; what is
// fitted to a file may leave them to the file.
func TestClassesAreNeeded(t *testing.T) {
	for _, classes := range []string{"", "classes: [], ", "classes: [a], "} {
		for _, task := range []string{"multiclass", "multilabel"} {
			path := filepath.Join(t.TempDir(), "c.yaml")
			text := strings.Replace(smallest, "task: ordinal, label: rating, levels: 5, ",
				"task: "+task+", label: rating, "+classes, 1)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "models[0].schema.classes") ||
				!strings.Contains(err.Error(), "at least two classes") {
				t.Errorf("%s, %q: %v", task, classes, err)
			}
			if _, err := LoadWith(path, Exceptions{Classes: true}); (err != nil) != strings.Contains(classes, "[a]") {
				t.Errorf("%s, %q, for a file: %v", task, classes, err)
			}
		}
	}
}
