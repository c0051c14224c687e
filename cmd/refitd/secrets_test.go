package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestVerbsHideSecrets: what the verbs print of a configuration with a password of the wrong type, in text and in JSON,
// does not have it. The plain form has one of the other verbs with each value, besides check config.
func TestVerbsHideSecrets(t *testing.T) {
	const text, number = "Xq7canaryZ", "7311884291"
	path := filepath.Join(t.TempDir(), "r.yaml")
	verbs := [][]string{{"check", "config"}, {"run"}, {"verify"}, {"backtest", "--data=x", "--format=jsonl"}}
	for n, value := range []string{" " + number, " -" + number, " true # " + text, " [" + text + "]", " {" + text + "}",
		" {a: " + text + "}",
		"\n      - " + text, "\n      a: " + text, " |\n      " + text, " >\n      " + text + "\n      " + text, " *" + text,
		" &" + text + " x",
		" !!binary " + text, " !" + text + " x", " [" + text, ` "` + text, text, ` "${` + text + `}"`, " 1\n    " + text +
			": 2", "\n" + text, " @" + text} {
		file := "kafka:\n  bootstrap_servers: [\"127.0.0.1:9\"]\n  sasl:\n    mechanism: plain\n    username: u\n    " +
			"password:" + value + "\n  group_id: g\n"
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range tier.Size([][]string{verbs[0], verbs[1+n%3]}, verbs) {
			for _, json := range []string{"", "--json"} {
				var out bytes.Buffer
				all := append(append(args[:len(args):len(args)], "--config.file", path), strings.Fields(json)...)
				if code := run(t.Context(), all, nil, &out, &out); code != 2 {
					t.Errorf("%s: %q ends with %d: %s", value, all, code, &out)
				}
				if said := out.String(); strings.Contains(said, text) || strings.Contains(said, number) {
					t.Errorf("%s: %q says %s", value, all, said)
				}
			}
		}
	}
}
