package experiment

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestNoData: every experiment says which file it misses and which flag names the directory.
func TestNoData(t *testing.T) {
	o := quick(t.TempDir())
	for name, run := range map[string]func() error{
		"table2":  func() error { _, err := Table2(t.Context(), o); return err },
		"figure2": func() error { _, err := Figure2(t.Context(), o); return err },
		"figure3": func() error { _, err := Figure3(t.Context(), o); return err },
		"figure4": func() error { _, err := Figure4(t.Context(), o); return err },
		"figure5": func() error { _, err := Figure5(t.Context(), o); return err },
		"best":    func() error { _, err := Best(t.Context(), o); return err },
		"speed":   func() error { _, err := Speed(t.Context(), o); return err },
		"warm":    func() error { _, err := Warm(t.Context(), o); return err },
		"svm2020": func() error { _, err := SVM2020(t.Context(), o); return err },
		"fm2015":  func() error { _, err := FM2015(t.Context(), o); return err },
	} {
		if err := run(); !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), o.Data) ||
			!strings.Contains(err.Error(), "--data") {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.Sets = []string{"wovel"}
	if _, err := Table2(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "vowel.t") {
		t.Errorf("unknown set: %v", err)
	}
	o.Quick = false
	if _, err := Figure4(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "ML-1M") {
		t.Errorf("unknown rating set: %v", err)
	}
}

// TestMemory: a basis vector costs a number for each row and little more, and rows cost what they hold and some
// buffers.
func TestMemory(t *testing.T) {
	r, err := Memory(t.Context(), quick(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Tables[0].Rows {
		var cells [3]float64
		for i := range cells {
			if cells[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
				t.Fatal(err)
			}
		}
		if cells[0] < 40 || cells[0] > 400 || cells[1] < 100 || cells[1] > 2000 || cells[2] < 4 || cells[2] > 40 {
			t.Errorf("%v", row)
		}
	}
}

// TestTable2OnVowel runs the short form: accuracies are far above the linear model's.
func TestTable2OnVowel(t *testing.T) {
	tier.Need(t, tier.Long) // six paths on vowel take seconds, and minutes under the race detector
	o := quick(tier.Shared(t, "data"))
	r, err := Table2(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.Tables[0].Rows
	if len(rows) != 7 || len(r.Bars) != 0 {
		t.Fatalf("%d rows and %d bars in %v", len(rows), len(r.Bars), rows)
	}
	accuracy := func(row []string) float64 {
		v, err := strconv.ParseFloat(strings.Fields(row[3])[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	linear := accuracy(rows[6])
	for _, row := range rows[:6] {
		if got := accuracy(row); got < 80 || got < linear+15 {
			t.Errorf("%v: the linear model has %g", row, linear)
		}
	}
}

func TestReadClasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toy.scale")
	if err := os.WriteFile(path, []byte("10 2:-1\n9 1:0.5 2:1\n10 1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readClasses(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.classes != 2 || s.class[0] != 1 || s.class[1] != 0 || s.x.NumColumns != 3 {
		t.Fatalf("classes %v of %d, %d columns", s.class, s.classes, s.x.NumColumns)
	}
	if index, value := s.x.Row(1); len(index) != 3 || index[0] != 0 || value[0] != 1 || value[1] != 0.5 {
		t.Errorf("row %v %v, want the constant first", index, value)
	}
	p := s.problem([]int{2, 1})
	if err := p.Validate(); err != nil || p.Target(0)[1] != 1 || p.Target(1)[0] != 1 {
		t.Errorf("targets %v, %v", p.Targets, err)
	}
	m := solver.NewModel(solver.Homogeneous, 3, 2, false)
	m.Bias[1] = 1
	if got := s.accuracy(m, []int{0, 1, 2}); math.Abs(got-200.0/3) > 1e-9 {
		t.Errorf("accuracy %g of a model that always says class 10", got)
	}
	for _, text := range []string{"a 1:1\n", "1 1:x\n1 1:1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readClasses(path); err == nil {
			t.Errorf("read %q", text)
		}
	}
}

// toyRatings writes a MovieLens file of a few users and reads it.
func toyRatings(t *testing.T, users []int, levels []float64) *ratingSet {
	t.Helper()
	var text strings.Builder
	for i, u := range users {
		text.WriteString(
			strings.Join(
				[]string{strconv.Itoa(u + 1), strconv.Itoa(i%4 + 1), strconv.FormatFloat(levels[i], 'f', -1, 64)},
				"::",
			) + "\n",
		)
	}
	path := filepath.Join(t.TempDir(), "ratings.dat")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readRatings(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGoldenRanking: nDCG of given scores is that of the reference.
func TestGoldenRanking(t *testing.T) {
	raw, err := os.ReadFile(tier.Shared(t, "golden", "ordinal.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Ranking []struct {
			Users           []int
			Ratings, Scores []float64
			NDCG            map[string]float64
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil || len(golden.Ranking) == 0 {
		t.Fatalf("%v, %d cases", err, len(golden.Ranking))
	}
	for i, c := range golden.Ranking {
		s := toyRatings(t, c.Users, c.Ratings)
		rows := make([]int, len(c.Users))
		for r := range rows {
			rows[r] = r
		}
		got := s.judge(c.Scores, rows)
		if math.Abs(got.ndcg1-c.NDCG["exp@1"]) > 1e-12 || math.Abs(got.ndcg5-c.NDCG["exp@5"]) > 1e-12 {
			t.Errorf(
				"case %d: nDCG@1 %g and @5 %g, reference %g and %g",
				i,
				got.ndcg1,
				got.ndcg5,
				c.NDCG["exp@1"],
				c.NDCG["exp@5"],
			)
		}
	}
}

// TestRatings: columns and targets of a small file, and an error clipped to the levels.
func TestRatings(t *testing.T) {
	s := toyRatings(t, []int{0, 0, 1, 1}, []float64{5, 3, 1, 4})
	if s.users != 2 || s.items != 4 || s.x.NumColumns != 6 {
		t.Fatalf("%d users, %d items", s.users, s.items)
	}
	p := s.problem([]int{1}, true)
	if err := p.Validate(); err != nil || p.Outputs != 4 || p.Target(0)[1] != -1 || p.Target(0)[2] != 1 {
		t.Errorf("targets %v of level 3, %v", p.Targets, err)
	}
	if index, _ := p.X.Row(0); index[0] != 0 || index[1] != 3 || p.Field[1] != 0 || p.Field[3] != 1 {
		t.Errorf("row %v, fields %v", index, p.Field)
	}
	m := solver.NewModel(solver.ANOVA, 6, 1, true)
	m.Bias[0] = 7
	if got := s.rmse(m, []int{0, 1}); math.Abs(got-math.Sqrt2) > 1e-12 {
		t.Errorf("error %g of a constant 7 on the levels 5 and 3, want that of 5", got)
	}
	if got := s.quality(m, []int{0, 1}); math.Abs(got.rmse-math.Sqrt2) > 1e-12 {
		t.Errorf("quality %+v", got)
	}
}
