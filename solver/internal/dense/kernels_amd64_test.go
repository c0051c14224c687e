package dense

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

var levelNames = [...]string{portable: "portable", avx2: "AVX2", avx512: "AVX-512"}

// forEachLevel runs f with each form that this machine can execute.
func forEachLevel(t *testing.T, f func(t *testing.T)) {
	best := inUse
	defer func() { inUse = best }()
	for l, name := range levelNames {
		if level(l) > best {
			t.Logf("%s: not executed, this machine does not have it", name)
			continue
		}
		inUse = level(l)
		t.Run(name, f)
	}
}

// TestLevels: no level is chosen that lacks an instruction or a register that the system saves.
func TestLevels(t *testing.T) {
	const all = hasFMA | hasXSave | hasAVX
	for _, test := range []struct {
		ecx, ebx, saved uint32
		want            level
	}{
		{all, hasAVX2 | hasAVX512, savedAVX512, avx512},
		{all, hasAVX2 | hasAVX512, savedAVX, avx2},
		{all, hasAVX2 | 1<<16, savedAVX512, avx2}, // F without VL
		{all, hasAVX2, savedAVX512, avx2},
		{all, hasAVX2, savedAVX, avx2},
		{all, hasAVX512, savedAVX512, portable},
		{all, hasAVX2, 1 << 1, portable},
		{all &^ hasFMA, hasAVX2 | hasAVX512, savedAVX512, portable},
		{all &^ hasXSave, hasAVX2 | hasAVX512, 0, portable},
		{all &^ hasAVX, hasAVX2, savedAVX, portable},
		{0, 0, 0, portable},
	} {
		if got := levelOf(test.ecx, test.ebx, test.saved); got != test.want {
			t.Errorf("%#x %#x %#x: %s, want %s", test.ecx, test.ebx, test.saved, levelNames[got], levelNames[test.want])
		}
	}
}

// TestSameBits compares the assembly with the form in Go, special values, untouched memory and all.
func TestSameBits(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(4, 1))
		for round := range 500 {
			s := randomShape(random, values)
			if round < 41*3 { // all numbers of columns where the tiles are smallest
				s = newShape(random, round%41, 1+round/41, random.IntN(40), values)
			}
			got, want := append([]float64(nil), s.tile...), append([]float64(nil), s.tile...)
			MulAdd(got, s.stride, s.a, s.lo, s.n, s.small, s.m)
			mulAddPortable(want, s.stride, s.a, s.lo, s.n, s.small, s.m)
			wantBits(t, "MulAdd", got, want)

			got, want = append(got[:0], s.small...), append(want[:0], s.small...)
			DotAdd(got, s.a, s.lo, s.n, s.tile, s.stride, s.m)
			dotAddPortable(want, s.a, s.lo, s.n, s.tile, s.stride, s.m)
			wantBits(t, "DotAdd", got, want)

			x, y := values(random, s.n), values(random, s.n+3)
			wantBits(t, "Dot", []float64{Dot(x, y[:s.n])}, []float64{0 + dotPortable(x, y[:s.n])})
			got, want = append(got[:0], y...), append(want[:0], y...)
			AddScaled(got[:s.n], y[0], x)
			addScaledPortable(want[:s.n], y[0], x)
			wantBits(t, "AddScaled", got, want)

			got, want = append(got[:0], y...), append(want[:0], y...)
			ScaleAdd(got[:s.n], y[0], x)
			scaleAddPortable(want[:s.n], y[0], x)
			wantBits(t, "ScaleAdd", got, want)
			got, want = append(got[:0], y...), append(want[:0], y...)
			AddScaledProduct(got[:s.n], y[0], x, y[1:][:s.n])
			addScaledProductPortable(want[:s.n], y[0], x, y[1:][:s.n])
			wantBits(t, "AddScaledProduct", got, want)

			n, stride := random.IntN(36), 0
			stride = (n + random.IntN(3) + 7) / 8 * 8
			a := values(random, n*stride+5)
			if round%2 == 0 {
				for i := range n {
					a[i*stride+i] = 50 + random.Float64()
				}
			}
			got, want = append(got[:0], a...), append(want[:0], a...)
			pivots, wanted := make([]float64, n), make([]float64, n)
			Sweep(got, stride, pivots)
			sweepPortable(want, stride, wanted)
			wantBits(t, "Sweep", got, want)
			wantBits(t, "Sweep: pivots", pivots, wanted)

			var x2, got2, a2, b2 [2][]float64
			n = random.IntN(MaxPair + 1)
			for s := range a2 {
				a2[s], b2[s], x2[s], got2[s] = values(random, n*(n+1)/2), values(random,
					n), make([]float64, n), make([]float64, n)
			}
			d, work := values(random, n), values(random, PairWork)
			for i := range d {
				d[i] += 20 * float64(round%2)
			}
			wantBits(t, "SolvePair: least pivot", []float64{SolvePair(got2, a2, b2, d, work)},
				[]float64{solvePairLeast(x2, a2, b2, d)})
			wantBits(t, "SolvePair", got2[0], x2[0])
			wantBits(t, "SolvePair", got2[1], x2[1])

			for i := range y {
				y[i] *= 100
			}
			got, want = append(got[:0], y...), append(want[:0], y...)
			Exp(got[:s.n], got[:s.n])
			expPortable(want[:s.n], want[:s.n])
			wantBits(t, "Exp", got, want)
		}
	})
}

// solvePairLeast is the form in Go, in separate memory.
func solvePairLeast(x, a, b [2][]float64, d []float64) float64 {
	if len(d) == 0 {
		return math.Inf(1)
	}
	return solvePairPortable(x, a, b, d, make([]float64, PairWork))
}

// TestUnderflowingLanes: products too small to represent leave lanes at −0, which padding and the sum with dst turn
// into 0 everywhere.
func TestUnderflowingLanes(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		for n := 1; n < 20; n++ {
			x, y := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i], y[i] = 1e-200, -1e-200
			}
			dst := []float64{math.Copysign(0, -1)}
			want := append([]float64(nil), dst...)
			DotAdd(dst, [][]float64{x}, 0, n, y, n, 1)
			dotAddPortable(want, [][]float64{x}, 0, n, y, n, 1)
			wantBits(t, "DotAdd", dst, want)
			wantBits(t, "Dot", []float64{Dot(x, y)}, []float64{0})
		}
	})
}

// TestGenerated runs the generator and compares. Where its module cannot be had, go generate && git diff --exit-code
// does the same.
func TestGenerated(t *testing.T) {
	tier.Need(t, tier.Long) // the generator is compiled
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "gen", "list", "-deps", ".").CombinedOutput(); err != nil {
		t.Skipf("the generator's module is not available: %v\n%s", err, out)
	}
	dir := t.TempDir()
	args := []string{
		"-C",
		"gen",
		"run",
		".",
		"-out",
		filepath.Join(dir, "dense_amd64.s"),
		"-stubs",
		filepath.Join(dir, "stub_amd64.go"),
		"-pkg",
		"dense",
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	for _, name := range []string{"dense_amd64.s", "stub_amd64.go"} {
		if got, want := afterCommand(t, name), afterCommand(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s is not what the generator writes: run go generate", name)
		}
	}
}

// TestRegistersOfAVX2: avo hands out registers 16 to 31 when it runs out of the others, and AVX2 does not have them.
func TestRegistersOfAVX2(t *testing.T) {
	text, err := os.ReadFile("dense_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	kernels := 0
	for function := range strings.SplitSeq(string(text), "\nTEXT ") {
		name, _, _ := strings.Cut(function, "(")
		if !strings.HasSuffix(name, "AVX2") {
			continue
		}
		kernels++
		if found := regexp.MustCompile(`\b(Z\d+|K\d|[XY](1[6-9]|2\d|3[01]))\b`).FindString(function); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
	}
	if kernels == 0 {
		t.Error("no kernel found")
	}
}

// afterCommand returns the file without its first line, which quotes the command with its paths.
func afterCommand(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range text {
		if b == '\n' {
			return string(text[i:])
		}
	}
	return string(text)
}
