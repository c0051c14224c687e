package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestListenWithoutAuth: F2. An address that other machines reach needs authentication, or the flag that says so.
func TestListenWithoutAuth(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"":             "",
		"users.yaml":   "basic_auth_users: {ann: x}\n",
		"certs.yaml":   "tls_server_config: {client_auth_type: RequireAndVerifyClientCert}\n",
		"tls.yaml":     "tls_server_config: {cert_file: a, key_file: b}\n",
		"optional.yml": "tls_server_config: {client_auth_type: VerifyClientCertIfGiven}\n",
		"any.yaml":     "tls_server_config: {client_auth_type: RequireAnyClientCert}\n",
		"nobody.yaml":  "basic_auth_users: {}\n",
	}
	for name, text := range files {
		if name != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, address := range []string{"127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1", "0.0.0.0:1", ":1", "[::]:1",
		"10.0.0.1:1",
		"refitd.example.org:1", "localhost.example.org:1"} {
		loopback := slices.Contains([]string{"127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1"}, address)
		for file := range files {
			for _, flag := range []bool{false, true} {
				w := Web{ListenAddress: address, noAuth: flag}
				if file != "" {
					w.ConfigFile = filepath.Join(dir, file)
				}
				want := loopback || flag || file == "users.yaml" || file == "certs.yaml"
				if err := w.Validate(); (err == nil) != want {
					t.Errorf("%s with %q, flag %v: %v, want allowed %v", address, file, flag, err, want)
				} else if err != nil && !strings.Contains(err.Error(), "--insecure-no-auth") {
					t.Errorf("%v does not name the flag", err)
				}
			}
		}
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:1:2"} {
		if (&Web{ListenAddress: bad, noAuth: true}).Validate() == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	text := strings.Replace(smallest, "127.0.0.1:0", "0.0.0.0:0", 1)
	if _, problems := parse(t, text); len(problems) != 1 || problems[0].Key != "web.listen_address" {
		t.Errorf("problems %+v", problems)
	}
	if _, err := parseWith("dir/ratings.yaml", []byte(text), noEnv, Exceptions{NoAuth: true}); err != nil {
		t.Errorf("with the flag: %v", err)
	}
}

// TestSurfaceKeys: the other keys of web, serve and publish.topic.
func TestSurfaceKeys(t *testing.T) {
	for _, test := range []struct{ old, new, key string }{
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "127.0.0.1:9465", allowed_hosts: [refitd.example.org]`, ""},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "unix:health.sock"`, ""},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "0.0.0.0:9465"`, ""},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "9465"`, "web.health_address"},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "unix:"`, "web.health_address"},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", health_address: "unix:` + strings.Repeat("x", 200) + `"`, "web.health_address"},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", ready_when: caught_up`, ""},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", ready_when: now`, "web.ready_when"},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", allowed_hosts: ["a:1"]`, "web.allowed_hosts[0]"},
		{`"127.0.0.1:0"`, `"127.0.0.1:0", allowed_hosts: [a, "*.b"]`, "web.allowed_hosts[1]"},
		{"publish: {", "serve: {max_events: 1, max_items: 100000}\n    publish: {topic: champions, inline_max: 64MiB, ", ""},
		{"publish: {", "serve: {max_events: 0}\n    publish: {", "models[0].serve.max_events"},
		{"publish: {", "serve: {max_items: 100001}\n    publish: {", "models[0].serve.max_items"},
		{"publish: {", "publish: {topic: 'a b', ", "models[0].publish.topic"},
		{"publish: {", "publish: {deltas: {topic: 'a b'}, ", "models[0].publish.deltas.topic"},
		{"publish: {", "publish: {topic: ratings, ", "models[0].publish.topic"},
		{"publish: {", "publish: {inline_max: 1MiB, ", "models[0].publish.inline_max"},
		{"publish: {", "publish: {topic: champions, inline_max: 65MiB, ", "models[0].publish.inline_max"},
	} {
		_, problems := parse(t, strings.Replace(smallest, test.old, test.new, 1))
		if test.key == "" && problems != nil || test.key != "" && (len(problems) != 1 || problems[0].Key != test.key) {
			t.Errorf("%s: %+v, want %q", test.new, problems, test.key)
		}
	}
}

// TestReloadable: what a running daemon takes up is the schedule, the gate, retention and the limits of requests; every
// other key is named.
func TestReloadable(t *testing.T) {
	old, _ := parse(t, smallest)
	for _, test := range []struct {
		old, new string
		keys     []string
	}{
		{"every: 5s", "every: 6s", nil},
		{"every_events: 5000", "every_events: 6000, time_budget: 1m", nil},
		{"lambda: auto", "lambda: 2", nil},
		{"update_every: 10s", "update_every: 11s, keep: 5, gate: {tolerance: 0.1, min_rows: 3}", nil},
		{"publish: {", "serve: {max_events: 5, max_items: 6}\n    publish: {", nil},
		{"group_id: refitd-ratings", "group_id: other", []string{"kafka.group_id"}},
		{"group_id: refitd-ratings", "group_id: refitd-ratings, sasl: {mechanism: plain, username: a, password: b}",
			[]string{"kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"}},
		{"storage: {path: state}", "storage: {path: state2}", []string{"storage.path"}},
		{`"127.0.0.1:0"`, `"127.0.0.1:1"`, []string{"web.listen_address"}},
		{"topics: [ratings]", "topics: [ratings, more]", []string{"models[0].input.topics"}},
		{"seed: 42", "seed: 43", []string{"models[0].sample.seed"}},
		{"max_basis: 20", "max_basis: 21", []string{"models[0].train.max_basis"}},
		{"store: snapshots", "store: other", []string{"models[0].publish.store"}},
	} {
		next, problems := parse(t, strings.Replace(smallest, test.old, test.new, 1))
		if problems != nil {
			t.Fatalf("%s: %+v", test.new, problems)
		}
		err := Reloadable(old, next)
		restart, _ := errors.AsType[*RestartError](err)
		if (err == nil) != (test.keys == nil) || err != nil && !slices.Equal(restart.Keys, test.keys) {
			t.Errorf("%s: %v, want %v", test.new, err, test.keys)
		}
		if err != nil && strings.Contains(err.Error(), "43") {
			t.Errorf("%v shows values", err)
		}
	}
	two, _ := parse(t,
		smallest+strings.Replace(smallest[strings.Index(smallest, "  - name"):], "name: ratings", "name: more", 1))
	if restart, ok := errors.AsType[*RestartError](Reloadable(old, two)); !ok ||
		!slices.Equal(restart.Keys, []string{"models"}) {
		t.Errorf("another model: %v", restart)
	}
}
