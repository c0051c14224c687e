package config

import (
	"errors"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOfflineNeedsNoBroker: verbs over files take a schema alone; for a daemon every missing key is reported.
func TestOfflineNeedsNoBroker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "by-hand.yaml")
	text := "models:\n  - name: ratings\n    schema: {task: ordinal, label: rating, levels: 5, categorical: [user, " +
		"item]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadWith(path, Exceptions{Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Models[0].Validate(); len(problems) > 0 {
		t.Errorf("problems %+v", problems)
	}
	_, err = Load(path)
	bad, ok := errors.AsType[*strictyaml.FileError](err)
	if !ok {
		t.Fatalf("a daemon takes it: %v", err)
	}
	var keys []string
	for _, p := range bad.Problems {
		keys = append(keys, p.Key)
	}
	slices.Sort(keys)
	if want := []string{"kafka.bootstrap_servers", "kafka.group_id", "models[0].input.topics"}; !slices.Equal(keys,
		want) {
		t.Errorf("a daemon misses %q, want %q", keys, want)
	}
}
