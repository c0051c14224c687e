package snapshot

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// The Python package safetensors reads the tensors, and a scorer written from the format alone agrees on the golden events.
func TestPythonReadsSnapshots(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import numpy, safetensors").CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 with numpy and safetensors is needed (%v): %s", err, out)
	}
	dir := t.TempDir()
	checks := [][]string{{filepath.Join("testdata", "v1", "ratings", "1")}}
	some := tier.Size(append(slices.Clone(shapes[:3]), shapes[len(shapes)-3:]...), shapes) // each starts Python, which takes a second
	tasks := map[string]bool{}
	for _, s := range some {
		types := []string{F64}
		if !tasks[s.task] { // F32 of every task
			types = append(types, F32)
		}
		tasks[s.task] = true
		for _, tensors := range types {
			name, c := strings.ToLower(s.String()+"-"+tensors), testContents(s)
			c.Tensors = tensors
			if _, err := NewStore(dir).Publish(t.Context(), name, c); err != nil {
				t.Fatal(err)
			}
			checks = append(checks, []string{filepath.Join(dir, name, "1"), randomEvents(t, s, tensors)})
		}
	}
	for _, s := range some {
		name := strings.ToLower(s.String() + "-crosses")
		if _, err := NewStore(dir).Publish(t.Context(), name, withCrosses(s)); err != nil {
			t.Fatal(err)
		}
		checks = append(checks, []string{filepath.Join(dir, name, "1")})
	}
	for _, files := range checks {
		arguments := append([]string{filepath.Join("testdata", "score.py")}, files...)
		if out, err := exec.Command("python3", arguments...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", files[0], err, out)
		}
	}
}

// randomEvents writes 1,000 events with the library's scores, in the form of golden.jsonl, and returns the path.
func randomEvents(t *testing.T, s shape, tensors string) string {
	t.Helper()
	c := testContents(s)
	c.Tensors = tensors
	rng := rand.New(rand.NewPCG(2, 3))
	name := func(names ...string) string { return names[rng.IntN(len(names))] }
	c.Golden = nil
	for range 1000 {
		in := Input{Categorical: []string{name("u1", "u2", "u3", "u9", ""), name("i1", "i2", "i9")}, Numeric: []float64{40 + 30*rng.NormFloat64()},
			Multi: [][]string{nil}}
		for range rng.IntN(5) {
			in.Multi[0] = append(in.Multi[0], name("a", "b", "zzz", "naïve \"<\\\u2028"))
		}
		c.Golden = append(c.Golden, Golden{Input: in})
	}
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := encodeGolden(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, lines, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
