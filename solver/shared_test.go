package solver

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/gamma"
)

// golden decodes a file of reference values.
func golden(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(tier.Shared(t, "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// dataLines calls f for every line of a data file, gzip or plain.
func dataLines(t testing.TB, f func(line string), parts ...string) {
	t.Helper()
	path := tier.Shared(t, append([]string{"data"}, parts...)...)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f(lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// rating is one event of MovieLens with dense user and item numbers.
type rating struct {
	user, item int32
	level      int
}

// movieLens100k returns the ratings in file order and the numbers of users and items.
func movieLens100k(t testing.TB) (events []rating, users, items int) {
	t.Helper()
	number := map[string]int32{}
	counts := [2]int32{}
	dense := func(kind int, name string) int32 {
		key := strconv.Itoa(kind) + name
		n, ok := number[key]
		if !ok {
			n = counts[kind]
			counts[kind]++
			number[key] = n
		}
		return n
	}
	dataLines(t, func(line string) {
		f := strings.Fields(line)
		level, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, rating{dense(0, f[0]), dense(1, f[1]), level})
	}, "ml-100k", "u.data.gz")
	return events, int(counts[0]), int(counts[1])
}

// mcrank returns the ordinal problem of the given ratings: one-hot user and item, four ±1 targets.
func mcrank(events []rating, users, items int) *Problem {
	x := NewRows(users+items, len(events), 2*len(events))
	targets := make([]float64, 0, 4*len(events))
	var row [4]float64
	for _, e := range events {
		x.Append([]int32{e.user, int32(users) + e.item}, []float64{1, 1})
		EncodeLevel(row[:], e.level)
		targets = append(targets, row[:]...)
	}
	return &Problem{X: x, Targets: targets, Outputs: 4, Loss: BinaryLogistic{}}
}

// mulTo stores Γ_c h in dst, in O(nnz(X)). Both have length d and do not overlap.
func mulTo(g *gamma.Gamma, dst []float64, c int, h []float64) {
	coef := make([]float64, g.Outputs)
	coef[c] = 1
	g.MulBlockTo(dst, h, 1, coef)
}
