package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// largeCut is the cut of partitions of topics with the longest names that Kafka takes.
func largeCut(partitions int) []format.Cut {
	cut := make([]format.Cut, partitions)
	for i := range cut {
		cut[i] = format.Cut{
			Topic:     fmt.Sprintf("%s%03d", strings.Repeat("t", 246), i/100),
			Partition: int32(i % 100),
			Next:      1<<52 + int64(i),
		}
	}
	return cut
}

// stored is a version in memory, to alter it quickly.
type stored map[string][]byte

func readStored(t *testing.T, dir string) stored {
	t.Helper()
	files := stored{}
	for _, name := range []string{disk.ManifestFile, format.SignatureFile, disk.TensorsFile, disk.VocabularyFile,
		disk.GoldenFile} {
		b, err := os.ReadFile(filepath.Join(dir, "m", "1", name))
		if errors.Is(err, os.ErrNotExist) && name == format.SignatureFile {
			continue
		}
		snapshottest.Must(t, err)
		files[name] = b
	}
	return files
}

func (f stored) Read(name string, limit int64) ([]byte, error) {
	b, ok := f[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return disk.ReadAtMost(bytes.NewReader(b), name, limit)
}

// randomInputs are events of the fields of TestContents: names that are known, unknown and absent, and numbers.
func randomInputs(seed uint64, n int) []format.Input {
	rng := rand.New(rand.NewPCG(seed, 6))
	name := func(names ...string) string { return names[rng.IntN(len(names))] }
	list := make([]format.Input, n)
	for i := range list {
		tags := []string{}
		for range rng.IntN(4) {
			tags = append(tags, name("a", "b", "zzz", "naïve \"<\\\u2028"))
		}
		list[i] = format.Input{
			Categorical: []string{name("u1", "u2", "u3", "u9", ""), name("i1", "i2", "i9", "")},
			Numeric:     []float64{40 + 30*rng.NormFloat64()},
			Multi:       [][]string{tags},
		}
	}
	return list
}

// withWeights gives the list of a model of TestContents a weight; golden outputs are those by definition.
func withWeights(s snapshottest.Shape, weights []string) *format.Contents {
	c := snapshottest.TestContents(s)
	c.Schema.MultiWeights, c.Golden = weights, nil
	for _, in := range append(snapshottest.TestInputs(), format.Input{Categorical: []string{"u1", "i2"}, Numeric: []float64{50},
		Multi: [][]string{longList()}}) {
		c.Golden = append(c.Golden, format.Golden{Input: in, Outputs: snapshottest.SlowOutputs(c, &in)})
	}
	return c
}

// longList has 200 names, of which two are known and come 50 times each.
func longList() []string {
	list := slices.Repeat([]string{"a", "b", "a", "b"}, 25)
	for i := range 100 {
		list = append(list, fmt.Sprint("unseen", i))
	}
	return list
}
