package config

import (
	"os"
	"testing"
)

// TestMechanismSpellings: a SASL mechanism may be written as Kafka's own clients write it, or in any other case.
func TestMechanismSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"PLAIN": "plain", "Plain": "plain", "plain": "plain", "NONE": "none", "SCRAM-SHA-256": "scram-sha-256",
		"SCRAM-SHA-512": "scram-sha-512",
		"scram_sha_256": "scram-sha-256", "ScramSha512": "scram-sha-512", "SCRAM-SHA512": "scram-sha-512",
		"GSSAPI": "", "scram": "", "SCRAM-SHA-1": "",
	} {
		user := "username: u, password: p"
		if want == "none" {
			user = ""
		}
		c, err := Parse(
			"c.yaml",
			[]byte(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g, sasl: {mechanism: `+text+`, `+user+`}}
storage: {path: state}
models:
  - name: m
    input: {topics: [t]}
    schema: {task: binary, label: y, categorical: [user]}
    publish: {store: s}
`),
			os.LookupEnv,
		)
		if want == "" {
			if err == nil {
				t.Errorf("%s: accepted as %q", text, c.Kafka.SASL.Mechanism)
			}
			continue
		}
		if err != nil || c.Kafka.SASL.Mechanism != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
