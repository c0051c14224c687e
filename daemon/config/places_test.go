package config

import (
	"errors"
	"fmt"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCollisions (J15): what would write to the place of something else is refused with its key, whatever the paths
// look like.
func TestCollisions(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "state", "ratings"), 0o755),
		os.Symlink("state", filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(dir, "later"), filepath.Join(dir, "dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	second := strings.NewReplacer("name: ratings", "name: other", "topics: [ratings]", "topics: [others]",
		"store: snapshots", "#STORE").
		Replace(smallest[strings.Index(smallest, "  - name"):])
	for _, test := range []struct {
		name    string
		edit    []string // replacements in a configuration of two models
		problem string   // key and part of the message; empty for none
	}{
		{"apart", nil, ""},
		{"same as the state", []string{"store: snapshots", "store: state"},
			"models[0].publish.store | apart from storage.path: it is "},
		{"written differently", []string{"store: snapshots", "store: ./x/../state/"}, "models[0].publish.store | it is "},
		{"absolute", []string{"store: snapshots", "store: " + filepath.Join(dir, "state")},
			"models[0].publish.store | it is "},
		{"by a link", []string{"store: snapshots", "store: link"}, "models[0].publish.store | it is "},
		{"by a link to what is not there yet", []string{"path: state", "path: later", "store: snapshots", "store: dangling"},
			"models[0].publish.store | it is "},
		{"inside the state", []string{"store: snapshots", "store: state/ratings"}, "models[0].publish.store | it is inside "},
		{"inside it by a link", []string{"store: snapshots", "store: link/deep/er"},
			"models[0].publish.store | it is inside "},
		{"around the state", []string{"path: state", "path: snapshots/state"}, "models[0].publish.store | it contains "},
		{"a name that begins alike", []string{"store: snapshots", "store: state-of-the-art"}, ""},
		{"a name with dots", []string{"store: snapshots", "store: ..state"}, ""},
		{"a store inside a store", []string{"#STORE", "store: snapshots/ratings"}, "models[1].publish.store | it is inside "},
		{"restore", []string{"name: other", "name: ratings.restore"}, "models[1].name | does not end in .restore"},
		{"rebuild", []string{"name: other", "name: ratings.rebuild"}, "models[1].name | does not end in .rebuild"},
		{"old", []string{"name: other", "name: ratings.old-1"}, "models[1].name | does not end in .old-1"},
		{"lock", []string{"name: other", "name: ratings.lock"}, "models[1].name | does not end in .lock"},
		{"forgotten", []string{"name: other", "name: ratings.forgotten"}, "models[1].name | does not end in .forgotten"},
		{"a name with another suffix", []string{"name: other", "name: ratings.new"}, ""},
		{"champions to a topic that is read", []string{"#STORE", "store: snapshots, topic: ratings"},
			"models[1].publish.topic | models[0].input.topics"},
		{"champions in the topic of dead letters", []string{"format: json", "format: json, dead_letter: {topic: d}", "#STORE",
			"store: snapshots, topic: d"},
			"models[1].publish.topic | models[0].input.dead_letter.topic"},
		{"deltas to the topic of champions", []string{"#STORE", "store: snapshots, topic: c, deltas: {topic: c}"},
			"models[1].publish.topic | models[1].publish.deltas.topic"},
		{"deltas of two models", []string{"store: snapshots", "store: snapshots, deltas: {topic: c}", "#STORE",
			"store: snapshots, deltas: {topic: c}"}, ""},
		{"champions of two models", []string{"store: snapshots", "store: snapshots, topic: c", "#STORE",
			"store: snapshots, topic: c"}, ""},
		{"the health socket", []string{`listen_address: "127.0.0.1:0"`,
			`listen_address: "127.0.0.1:0", health_address: "unix:state/ratings/s"`},
			"web.health_address | outside of storage.path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.NewReplacer(test.edit...).Replace(smallest + second)
			text = strings.Replace(text, "#STORE", "store: snapshots", 1)
			_, err := Parse(filepath.Join(dir, "refitd.yaml"), []byte(text), noEnv)
			if test.problem == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			key, message, _ := strings.Cut(test.problem, " | ")
			bad, ok := errors.AsType[*strictyaml.FileError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			for _, p := range bad.Problems {
				if p.Key == key && strings.Contains(p.Message, message) && p.Line > 0 {
					return
				}
			}
			t.Errorf("problems %+v, want %s", bad.Problems, test.problem)
		})
	}
}

// TestStorageFlag (J15): --storage.path is held to the same, and a file inside a state or a store is known.
func TestStorageFlag(t *testing.T) {
	dir := t.TempDir()
	c, err := Parse(filepath.Join(dir, "refitd.yaml"), []byte(smallest), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for path, inside := range map[string]bool{"state/ratings/b": true, "state/b": true, "snapshots/b": true, "b": false,
		"state.b": false} {
		if err := c.Outside(filepath.Join(dir, path)); errors.Is(err, ErrInside) != inside {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, good := range map[string]bool{"elsewhere": true, "snapshots": false, "snapshots/state": false, ".": false} {
		if err := c.SetStorage(filepath.Join(dir, path)); (err == nil) != good ||
			!good && !strings.Contains(fmt.Sprint(err), "publish.store") {
			t.Errorf("--storage.path %s: %v", path, err)
		}
	}
}
