package state_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/cmd/refitd/internal/verify"
	"github.com/refitd/refitd/consumer/registry/registrytest"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

// TestWithoutTheRegistry: rebuild, verify, backup, restore, a rebuild from a backup and the runs after them read by the
// schemas of the state, with the registry gone for good.
func TestWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/schemas/ids/7" && r.URL.Path != "/schemas/ids/8" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"schema": registrytest.RatingSchema})
	}))
	defer registry.Close()
	b := daemontest.New(t)
	produce := func(from, to int) {
		b.Produce(registrytest.Ratings(from, to, func(k int) byte { return byte(7 + k%2) })...)
	}
	produce(0, 900)
	path := b.Configure("avro", append([]string{"start: earliest", "start: earliest, format: avro",
		"fetch_max_wait: 100ms", "fetch_max_wait: 100ms, schema_registry: {url: \"" + registry.URL + "\"}"},
		daemontest.Simple...)...)
	if o := b.Run(path); o.Err != nil || daemontest.Balanced(t, o.State(t)) != 900 {
		t.Fatalf("%v, %v", o.Err, o.State(t))
	}
	registry.Close()

	conf, model, dir := daemontest.Load(t, path)
	var out bytes.Buffer
	emitter := report.NewEmitter(&out, true)
	file := filepath.Join(b.Dir, "state.backup")
	if err := state.Backup(t.Context(), dir, model.Name, file, nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	produce(900, 1400)
	second := b.Run(path)
	if second.Err != nil || daemontest.Balanced(t, second.State(t)) != 1400 {
		t.Fatalf("a run without the registry: %v, %v", second.Err, second.State(t))
	}
	proved := func(what string) {
		t.Helper()
		result, err := verify.Run(t.Context(), verify.Options{Dir: dir, Model: model, Kafka: &conf.Kafka,
			Log: daemontest.Quiet()})
		if err != nil || !result.Summary.OK || result.Summary.RecomputedDigest == nil {
			t.Errorf("verify of %s: %v, %+v", what, err, result)
		}
	}
	proved("the state")

	rebuild := func(what, backup string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, "rows")); err != nil {
			t.Fatal(err)
		}
		r := state.Rebuild{Config: conf, Model: model, Backup: backup, Out: emitter, Log: daemontest.Quiet()}
		if err := r.Run(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		again := b.Run(path)
		if again.Err != nil {
			t.Fatalf("%s: %v", what, again.Err)
		}
		sameState(t, what, again.State(t), second.State(t))
		proved(what)
	}
	rebuild("the state rebuilt from the log", "")
	if err := os.RemoveAll(filepath.Join(dir, "rows")); err != nil {
		t.Fatal(err)
	}
	if err := state.Restore(t.Context(), dir, model, file, "", nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	restored := b.Run(path)
	if restored.Err != nil {
		t.Fatal(restored.Err)
	}
	sameState(t, "the restored state read on", restored.State(t), second.State(t))
	proved("the restored state")
	rebuild("the state rebuilt from a backup", file)
	rebuild("the state rebuilt again", "")
}
