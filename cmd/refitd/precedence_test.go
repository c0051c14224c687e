package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrecedence: F16. A flag wins over the file and the file over the default; the environment is read for secrets
// alone, and only where the file names the variable. What is printed of a configuration has no secret in it.
func TestPrecedence(t *testing.T) {
	const canary = "canary-0f16"
	dir := t.TempDir()
	for name, value := range map[string]string{"STORAGE_PATH": "from-env", "REFITD_STORAGE_PATH": "from-env",
		"WEB_LISTEN_ADDRESS":        "127.0.0.1:1",
		"REFITD_WEB_LISTEN_ADDRESS": "127.0.0.1:1",
		"KAFKA_SASL_PASSWORD":       "from-env", "REFITD_KAFKA_SASL_PASSWORD": "from-env", "REFITD_LOG_LEVEL": "debug",
		"SECRET_OF_THE_FILE": canary} {
		t.Setenv(name, value)
	}
	users := filepath.Join(dir, "users.yaml")
	if err := os.WriteFile(users, []byte("basic_auth_users: {ann: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		kafka = `kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g%}` + "\n"
		model = "models: [{name: m, input: {topics: [t]}, schema: {task: regression, label: y, categorical: [a]}}]\n"
	)
	file := func(kafkaKeys, rest string) string {
		path := filepath.Join(dir, "r.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(kafka, "%", kafkaKeys, 1)+rest+model), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	load := func(args ...string) *runCmd {
		t.Helper()
		var flags cli
		if _, err := flags.parser().Parse(append([]string{"run"}, args...)); err != nil {
			t.Fatal(err)
		}
		if flags.Log.Level.String() != "INFO" {
			t.Errorf("the log level is %s, which nobody asked for", flags.Log.Level)
		}
		return &flags.Run
	}
	sasl := ", sasl: {mechanism: plain, username: u, password: "
	for _, test := range []struct {
		name, kafka, rest        string
		flags                    []string
		storage, listen, webFile string
		password                 string
	}{
		{"defaults", "", "", nil, filepath.Join(dir, "state"), "127.0.0.1:9464", "", ""},
		{"file", "", "storage: {path: kept}\nweb: {listen_address: \"127.0.0.1:7\", config_file: users.yaml}\n", nil,
			filepath.Join(dir, "kept"), "127.0.0.1:7",
			users, ""},
		{"flags over the file", "", "storage: {path: kept}\nweb: {listen_address: \"127.0.0.1:7\"}\n",
			[]string{"--storage.path", filepath.Join(dir, "other"), "--web.listen-address", "127.0.0.1:8", "--web.config.file",
				users}, filepath.Join(dir, "other"),
			"127.0.0.1:8", users, ""},
		{"flags over defaults", "", "", []string{"--web.listen-address", "127.0.0.1:9"}, filepath.Join(dir, "state"),
			"127.0.0.1:9", "", ""},
		{"a flag that makes an address of the file good", "", "web: {listen_address: \"0.0.0.0:7\"}\n",
			[]string{"--web.config.file", users},
			filepath.Join(dir, "state"), "0.0.0.0:7", users, ""},
		{"a secret of the file", sasl + "in-the-file}", "", nil, filepath.Join(dir, "state"), "127.0.0.1:9464", "",
			"in-the-file"},
		{"a secret of the environment", sasl + `"${SECRET_OF_THE_FILE}"}`, "", nil, filepath.Join(dir, "state"),
			"127.0.0.1:9464", "", canary},
	} {
		run := load(append([]string{"--config.file", file(test.kafka, test.rest)}, test.flags...)...)
		c, err := run.load()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if c.Storage.Path != test.storage || c.Web.ListenAddress != test.listen || c.Web.ConfigFile != test.webFile ||
			c.Kafka.SASL.Password.Reveal() != test.password {
			t.Errorf("%s: storage %s, address %s, web file %s, a password of %d bytes", test.name, c.Storage.Path,
				c.Web.ListenAddress, c.Web.ConfigFile, len(c.Kafka.SASL.Password.Reveal()))
		}
	}
	for _, bad := range []struct{ kafka, rest string }{{"", "storage: {path: \"${HOME}\"}\n"},
		{", client_id: \"${SECRET_OF_THE_FILE}\"", ""},
		{sasl + `"${NOT_SET_ANYWHERE}"}`, ""}} {
		if _, err := load("--config.file", file(bad.kafka, bad.rest)).load(); err == nil ||
			strings.Contains(err.Error(), canary) {
			t.Errorf("%s%s: %v", bad.kafka, bad.rest, err)
		}
	}
	path := file(sasl+`"${SECRET_OF_THE_FILE}"}`, "")
	for _, args := range [][]string{{"check", "config", "--config.file", path}, {"check", "config", "--config.file", path,
		"--json"},
		{"check", "config", "--config.file", path, "--print-defaults"}} {
		var out, log bytes.Buffer
		if code := run(context.Background(), args, strings.NewReader(""), &out, &log); code != 0 || out.Len() == 0 ||
			strings.Contains(out.String()+log.String(), canary) {
			t.Errorf("%q: exit code %d\n%s%s", args, code, &out, &log)
		}
	}
}
