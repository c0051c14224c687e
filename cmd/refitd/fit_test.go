package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/offline"
)

// TestFitRefitOfAlgorithm: --refit and --augment are heard beside --algorithm, which alone makes both automatic.
func TestFitRefitOfAlgorithm(t *testing.T) {
	data := filepath.Join(t.TempDir(), "u.data")
	if err := os.WriteFile(data, []byte("1\t2\t3\t874965758\n2\t1\t4\t874965759\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for refit, want := range map[string]string{"": "auto", "output": "output"} {
		c := fitCmd{AlgorithmFlags: offline.AlgorithmFlags{Algorithm: "convex_fm"}, Refit: refit, Augment: true}
		c.Format, c.Data = "movielens", data
		m, err := c.model()
		if err != nil {
			t.Fatal(err)
		}
		if m.Train.Algorithm != "convex_fm" || m.Train.Refit != want || m.Train.Augment != "true" {
			t.Errorf("--refit %q: algorithm %s, refit %s, augment %s", refit, m.Train.Algorithm, m.Train.Refit, m.Train.Augment)
		}
	}
}
