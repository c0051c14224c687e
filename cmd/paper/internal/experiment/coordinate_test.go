package experiment

import (
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestNoData2016 checks that the experiments of 2016 say which file they miss, and which sets there are.
func TestNoData2016(t *testing.T) {
	o := quick(t.TempDir())
	for name, run := range map[string]func() (*Report, error){
		"figure1": func() (*Report, error) { return Weights2016(t.Context(), o) },
		"figure2": func() (*Report, error) { return Lifting2016(t.Context(), o) },
		"figure3": func() (*Report, error) { return Recommend2016(t.Context(), o) },
		"figure4": func() (*Report, error) { return Budget2016(t.Context(), o) },
	} {
		if _, err := run(); !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), o.Data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.Quick, o.Sets = false, []string{"wovel"}
	if _, err := Budget2016(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "cpusmall") {
		t.Errorf("unknown set: %v", err)
	}
	if _, err := Recommend2016(t.Context(), o); !errors.Is(err, ErrOptions) ||
		!strings.Contains(err.Error(), "Last.fm") {
		t.Errorf("unknown set: %v", err)
	}
}

// TestReadTags: tags of an artist are counted over the users.
func TestReadTags(t *testing.T) {
	o := quick(t.TempDir())
	dir := filepath.Join(o.Data, "lastfm-hetrec2011")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	w := gzip.NewWriter(&text)
	if _, err := w.Write([]byte(
		"userID\tartistID\ttagID\tday\n2\t52\t13\t1\n2\t52\t15\t1\n3\t52\t13\t4\n3\t7\t13\t4\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "user_taggedartists.dat.gz"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := o.readTags()
	if err != nil {
		t.Fatal(err)
	}
	if s.users != 2 || s.items != 2 || len(s.level) != 3 || s.level[0] != 2 || s.level[1] != 1 {
		t.Fatalf("%d artists, %d tags, counts %v", s.users, s.items, s.level)
	}
	if index, _ := s.x.Row(2); index[0] != 1 || index[1] != 2 {
		t.Errorf("columns %v of the second artist and the first tag", index)
	}
}

// TestRecommendChoice: β falls until two errors in a row are above the least, and the other ridges are tried with the
// best.
func TestRecommendChoice(t *testing.T) {
	errs, seen := map[float64]float64{32: 3, 16: 4, 8: 3, 4: 1, 2: 2, 1: 1.5, 0.5: 0}, [][2]float64(nil)
	err := recommendChoice(
		[]float64{32, 16, 8, 4, 2, 1, 0.5},
		[]float64{3, 1},
		func(beta, ridge float64) (float64, error) {
			seen = append(seen, [2]float64{beta, ridge})
			return errs[beta], nil
		},
	)
	if want := [][2]float64{{32, 3}, {16, 3}, {8, 3}, {4, 3}, {2, 3}, {1, 3}, {4, 1}}; err != nil ||
		!slices.Equal(seen, want) {
		t.Errorf("tried %v, not %v: %v", seen, want, err)
	}
	broken := errors.New("broken")
	if err := recommendChoice([]float64{1}, []float64{0}, func(_, _ float64) (float64, error) {
		return 0,
			broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestFigures2016 runs the short forms: signs lower the objective as far as fitted weights, ones do not, and models
// explain what linear ones do not.
func TestFigures2016(t *testing.T) {
	tier.NotUnderRace(t)
	o := quick(tier.Shared(t, "data"))
	number := func(cell string) float64 {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	one, err := Weights2016(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := one.Tables[0].Rows
	if fitted, ones, signs := number(rows[0][1]), number(rows[1][1]), number(rows[2][1]); !(fitted < ones) ||
		math.Abs(signs-fitted) > 0.01*fitted {
		t.Errorf("objectives %v", rows)
	}
	two, err := Lifting2016(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 13} { // the same start, for both
		if a, b := two.Numbers[0].Rows[at][4], two.Numbers[0].Rows[0][4]; math.Abs(
			number(a)-number(b),
		) > 1e-4*number(b) {
			t.Errorf("objectives %s and %s at the start", a, b)
		}
	}
	four, err := Budget2016(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range four.Tables[0].Rows[:len(budgetModels)] {
		if got := number(row[3]); got < 0.5 || got > 0.7 {
			t.Errorf("%v", row)
		}
	}
}
