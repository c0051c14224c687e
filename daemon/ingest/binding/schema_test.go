package binding_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestCheckSchema: what the rows of a state do not carry is refused with its key, what they do carry is kept, and
// other rules for events start a new lineage.
func TestCheckSchema(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*config.Model)
		key     string // refused
		lineage bool   // new
	}{
		"nothing":  {func(*config.Model) {}, "", false},
		"training": {func(m *config.Model) { m.Train.MaxBasis = 3 }, "", false},
		"fields swapped": {func(m *config.Model) { m.Schema.Categorical = []string{"item", "user"} }, "schema.categorical",
			false},
		"field added":     {func(m *config.Model) { m.Schema.Numeric = []string{"price"} }, "schema.numeric", false},
		"list added":      {func(m *config.Model) { m.Schema.Multi = []string{"tags"} }, "schema.multi", false},
		"other label":     {func(m *config.Model) { m.Schema.Label = "stars" }, "schema.label", false},
		"other task":      {func(m *config.Model) { m.Schema.Task = "regression" }, "schema.task", false},
		"positive label":  {func(m *config.Model) { m.Schema.Positive = "5" }, "schema.positive", false},
		"fewer levels":    {func(m *config.Model) { m.Schema.Levels = 4 }, "schema.levels", false},
		"more levels":     {func(m *config.Model) { m.Schema.Levels = 10 }, "", true},
		"optional field":  {func(m *config.Model) { m.Schema.Optional = []string{"item"} }, "", true},
		"longer names":    {func(m *config.Model) { m.Input.MaxIDBytes = 1024 }, "", true},
		"other half-life": {func(m *config.Model) { m.Sample.HalfLife = 1e15 }, "sample.half_life", false},
		"more rows":       {func(m *config.Model) { m.Sample.Size *= 2 }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := ingesttest.Ratings(100), t.TempDir()
			o := ingest.StoreOptions(m)
			o.Dir = dir
			store, err := sketch.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			lineage := store.Lineage()
			if err := errors.Join(store.Close(), os.WriteFile(filepath.Join(dir, config.ModelFile), m.Stored(),
				0o600)); err != nil {
				t.Fatal(err)
			}
			c.change(m)
			err = binding.CheckSchema(dir, m)
			if err == nil {
				o = ingest.StoreOptions(m)
				o.Dir = dir
				if store, err = sketch.Open(t.Context(), o); err == nil {
					if got := store.Lineage() != lineage; got != c.lineage {
						t.Errorf("new lineage: %t, want %t", got, c.lineage)
					}
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			key := ""
			if key, err = binding.Translate(err); err != nil &&
				(key == "" || !errors.Is(err, sketch.ErrConfig) || !strings.Contains(err.Error(), key+" is ")) {
				t.Fatal(err)
			}
			if key != c.key {
				t.Errorf("refused for %q, want %q", key, c.key)
			}
		})
	}
}

// TestListWeight: rows have no weights of names: a state is kept under another weight, also where other processes
// have the previous one.
func TestListWeight(t *testing.T) {
	m, dir := ingesttest.Ratings(100), t.TempDir()
	m.Schema.Multi = []string{"tags"}
	if err := os.WriteFile(filepath.Join(dir, config.ModelFile), m.Stored(), 0o600); err != nil {
		t.Fatal(err)
	}
	agreed := binding.Agreement(m)
	m.Schema.ListWeights = map[string]string{"tags": "sqrt"}
	if err := binding.CheckSchema(dir, m); err != nil {
		t.Error(err)
	}
	if got := binding.Agreement(m); !maps.Equal(got, agreed) {
		t.Errorf("agreed on %v and on %v", agreed, got)
	}
}

// TestOptionalFieldStaysOptional: rows may lack it.
func TestOptionalFieldStaysOptional(t *testing.T) {
	m, dir := ingesttest.Ratings(100), t.TempDir()
	m.Schema.Optional = []string{"item"}
	if err := os.WriteFile(filepath.Join(dir, config.ModelFile), m.Stored(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := binding.CheckSchema(dir, m); err != nil {
		t.Error(err)
	}
	m.Schema.Optional = nil
	if key, err := binding.Translate(binding.CheckSchema(dir, m)); key != "schema.categorical" ||
		!strings.Contains(err.Error(), "{name: item, optional: true}") {
		t.Errorf("%s: %v", key, err)
	}
}
