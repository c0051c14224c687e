package guess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// aColumn makes the values of a column, and what each adds to the label.
type aColumn func(r *rand.Rand) (value string, effect float64)

// codesOf are whole numbers without order: each has a separate effect. The first ones are frequent.
func codesOf(seed uint64, distinct, step, from int) aColumn {
	own := rand.New(rand.NewPCG(seed, 9))
	effects := make([]float64, distinct)
	for i := range effects {
		effects[i] = own.NormFloat64()
	}
	return func(r *rand.Rand) (string, float64) {
		i := int(float64(distinct) * math.Pow(r.Float64(), 2))
		return fmt.Sprint(from + step*i), effects[i]
	}
}

// quantityOf are whole numbers whose effect grows with them.
func quantityOf(most int) aColumn {
	return func(r *rand.Rand) (string, float64) {
		v := r.IntN(most)
		return fmt.Sprint(v), 3 * (float64(v)/float64(most) - 0.5)
	}
}

// noiseOf are whole numbers that say nothing.
func noiseOf(from, most int) aColumn {
	return func(r *rand.Rand) (string, float64) { return fmt.Sprint(from + r.IntN(most)), 0 }
}

// useOf returns what init takes a column for with whole numbers, and why. The label is of a task.
func useOf(t *testing.T, name, task, format string, values aColumn) (use, why string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	if format == "csv" {
		fmt.Fprintf(&b, "who,%s,target\n", name)
	}
	for range 6000 {
		v, effect := values(r)
		z := effect + r.NormFloat64()/2
		label := fmt.Sprintf("%.3f", z)
		switch task {
		case "binary":
			label = fmt.Sprint(map[bool]int{true: 1}[z > 0.7])
		case "ordinal":
			label = fmt.Sprint(max(1, min(5, 3+int(math.Round(z)))))
		case "multiclass":
			label = []string{"a", "b", "c"}[max(0, min(2, 1+int(math.Round(z))))]
		}
		if format == "csv" {
			fmt.Fprintf(&b, "w%d,%s,%s\n", r.IntN(9), v, label)
		} else {
			if task == "multiclass" {
				label = `"` + label + `"`
			}
			fmt.Fprintf(&b, `{"who":"w%d",%q:%s,"target":%s}`+"\n", r.IntN(9), name, v, label)
		}
	}
	o := Options{
		Data:  offlinetest.WriteFile(t, "x."+format, b.String()),
		Label: "target",
		Output: filepath.Join(t.TempDir(),
			"x.yaml"),
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range offlinetest.Last(lines)["fields"].([]any) {
		if f := f.(offlinetest.Line); f["name"] == name {
			return f["use"].(string), f["why"].(string)
		}
	}
	t.Fatalf("no word of %s in %v", name, offlinetest.Last(lines))
	return "", ""
}

// TestWholeNumbers: whether whole numbers are names is decided by the name of their column where that says it, and by
// what predicts the label where it does not, whatever the label is; the reason is said.
func TestWholeNumbers(t *testing.T) {
	codes, many, ids := codesOf(1, 150, 7, 11), codesOf(2, 1200, 1, 0), codesOf(3, 300, 1, 276_700)
	for _, c := range []struct {
		column    string
		values    aColumn
		use, says string
	}{
		{"User-ID", ids, "categorical", "by its name"}, {"visitorid", many, "categorical", "by its name"},
		{"steamid", codesOf(4, 100, 1, 76_561_197_960_265_728), "categorical", "beyond 1e+15"},
		{"v7", codesOf(4, 100, 1, 76_561_197_960_265_728), "categorical", "beyond 1e+15"},
		{"ip", many, "categorical", "by its name"}, {"app", codes, "categorical", "by its name"}, {"os", noiseOf(3, 90),
			"categorical", "by its name"},
		{"C14", codes, "categorical", "without order: over 6000 rows"}, {"v", many, "categorical",
			"without order"}, {"number", ids, "categorical", "without order"},
		{"zzz", noiseOf(200_000, 900), "categorical", "close together far from 0"},
		{"x1", quantityOf(400), "numeric", "by those nearby"}, {"v", quantityOf(2000), "numeric", "by those nearby"},
		{"type", quantityOf(700), "numeric", "by those nearby"}, // against what its name suggests
		{"age", noiseOf(1, 90), "numeric", "numbers from"}, {"price", codes, "numeric", "numbers from"}, {"num_user", many,
			"numeric", "numbers from"},
		{"x", noiseOf(0, 400), "numeric", "numbers from"}, {"bid", noiseOf(0, 400), "numeric", "numbers from"}, {"humid",
			quantityOf(300), "numeric", ""},
		{"few", noiseOf(0, 12), "categorical", "12 different whole numbers"},
	} {
		for i, task := range []string{"regression", "binary", "ordinal", "multiclass"} {
			format := []string{"csv", "jsonl"}[i%2]
			if use, why := useOf(t, c.column, task, format, c.values); use != c.use || !strings.Contains(why, c.says) {
				t.Errorf("%s of %s in %s: %s: %s, want %s: %s", c.column, task, format, use, why, c.use, c.says)
			}
		}
	}
	if use, why := useOf(t, "shop_code", "binary", "csv", func(r *rand.Rand) (string,
		float64) {
		return fmt.Sprintf("%05d", r.IntN(80)), 0
	}); use != "categorical" {
		t.Errorf("codes with zeros: %s: %s", use, why)
	}
	if use, why := useOf(t, "v", "binary", "csv", func(r *rand.Rand) (string, float64) {
		return fmt.Sprintf("%05d",
			r.IntN(900)), 0
	}); use != "categorical" ||
		!strings.Contains(why, "begin with 0") {
		t.Errorf("codes with zeros: %s: %s", use, why)
	}
	if use, why := useOf(t, "user_id", "binary", "csv", func(r *rand.Rand) (string, float64) {
		return fmt.Sprintf("%.2f",
			r.Float64()), 0
	}); use != "numeric" {
		t.Errorf("fractions: %s: %s", use, why)
	}
}

// TestTimesByTheirValues: numbers are times by what they are, too; of two times that of the order of the events is
// theirs.
func TestTimesByTheirValues(t *testing.T) {
	for name, c := range map[string]struct {
		header, row, want, unit string
	}{
		"milliseconds that come back": {"user,created,rating", "USER,CREATED,RATING", "created", "ms"},
		"whatever the name":           {"user,v3,rating", "USER,CREATED,RATING", "v3", "ms"},
		"the one in order":            {"user,created,clock,rating", "USER,CREATED,CLOCK,RATING", "clock", "s"},
		"an id in their range":        {"user_id,rating", "CLOCK,RATING", "", "ms"},
		"numbers of phones":           {"caller,rating", "PHONE,RATING", "", "ms"},
		"numbers of articles":         {"barcode,rating", "EAN,RATING", "", "ms"},
		"late ones":                   {"v3,user,rating", "LATE,USER,RATING", "v3", "ms"},
		"minutes":                     {"user,made,rating", "USER,2024-01-02 10:MM,RATING", "made", "ms"},
		"a warehouse's":               {"user,made,rating", "USER,2024-01-02 10:MM:07.5 UTC,RATING", "made", "ms"},
		"a zone without a colon":      {"user,made,rating", "USER,2024-01-02T10:MM:07+0530,RATING", "made", "ms"},
	} {
		text := c.header + "\n"
		for i := range 500 {
			text += strings.NewReplacer("USER", fmt.Sprint("u", i%9), "RATING", fmt.Sprint(1+i%5), "CREATED",
				fmt.Sprint(1_600_000_000_000+i*7919%40*86_400_000),
				"CLOCK", fmt.Sprint(1_700_000_000+i/3*3), "PHONE", fmt.Sprint(919_812_300_000+i*7919%60*13), "EAN",
				fmt.Sprint(4_006_381_300_000+i*7919%60*31), "LATE", fmt.Sprint(1_600_000_000_001+(i/3-i%20/19*9)*777),
				"MM", fmt.Sprintf("%02d", i/9)).Replace(c.row) + "\n"
		}
		_, m := guesses(t, "x.csv", text, Options{})
		if s := m.Schema; s.Time != c.want || s.TimeUnit != c.unit || slices.Contains(s.Numeric, "created") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestLabelsOfWholeNumbers: whole numbers of a label are classes by its name, as text, or where they have no order,
// and levels or numbers else.
func TestLabelsOfWholeNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		label string
		value func(r *rand.Rand, x int) int // x, from 0 to 9, is what the row says of it
		text  bool
		task  string
	}{
		"text of a class":  {"class", func(r *rand.Rand, _ int) int { return 1 + r.IntN(5) }, true, "multiclass"},
		"a class":          {"class", func(r *rand.Rand, _ int) int { return 1 + r.IntN(5) }, false, "multiclass"},
		"two classes":      {"class", func(r *rand.Rand, _ int) int { return 1 + r.IntN(2) }, false, "binary"},
		"text of a rating": {"rating", func(r *rand.Rand, _ int) int { return 1 + r.IntN(5) }, true, "ordinal"},
		"a rating":         {"rating", func(_ *rand.Rand, x int) int { return 1 + x*7%5 }, false, "ordinal"},
		"digits": {"label", func(r *rand.Rand, x int) int { return []int{x, x, r.IntN(10)}[r.IntN(3)] },
			false, "multiclass"},
		"classes from 1": {"target", func(r *rand.Rand, x int) int {
			return []int{1 + x*3%7,
				1 + r.IntN(7)}[r.IntN(2)]
		}, false, "multiclass"},
		"levels": {"target", func(r *rand.Rand, x int) int { return 1 + max(0, min(6, x*7/10+r.IntN(3)-1)) },
			false, "ordinal"},
		"counts":                {"y", func(r *rand.Rand, x int) int { return x + r.IntN(4) }, false, "regression"},
		"levels of nothing":     {"label", func(r *rand.Rand, _ int) int { return 1 + r.IntN(4) }, false, "ordinal"},
		"text of numbers as is": {"y", func(r *rand.Rand, _ int) int { return r.IntN(300) }, true, "regression"},
	} {
		r := rand.New(rand.NewPCG(3, 3))
		var b strings.Builder
		for range 4000 {
			x := r.IntN(10)
			value := fmt.Sprint(c.value(r, x))
			if c.text {
				value = `"` + value + `"`
			}
			fmt.Fprintf(&b, `{"x":"n%d","other":%.3f,%q:%s}`+"\n", x, r.NormFloat64(), c.label, value)
		}
		summary, m := guesses(t, "x.jsonl", b.String(), Options{Label: c.label})
		if m.Schema.Task != c.task {
			t.Errorf("%s: %s, %s", name, m.Schema.Task, summary["label_why"])
		}
		if set, err := offline.ReadEvents(m, summary["data"].(string), dataset.JSONL, offline.TableOptions{},
			nil); err != nil ||
			len(set.Examples) != 4000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInitOfWideFiles: a file with more columns than a configuration can name is refused by those words; one with
// thousands gets one.
func TestInitOfWideFiles(t *testing.T) {
	wide := func(columns int) string {
		var b strings.Builder
		b.WriteString("rating")
		for j := range columns {
			fmt.Fprintf(&b, ",c%d", j)
		}
		for i := range 6 {
			fmt.Fprintf(&b, "\n%d", 1+i%3)
			for j := range columns {
				fmt.Fprintf(&b, ",%d.5", (i+j)%9)
			}
		}
		return b.String() + "\n"
	}
	if _, m := guesses(t, "x.csv", wide(3000), Options{}); len(m.Schema.Numeric) != 3000 {
		t.Errorf("%d numbers", len(m.Schema.Numeric))
	}
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Init(
			Options{
				Data:   offlinetest.WriteFile(t, "x.csv", wide(60_000)),
				Output: filepath.Join(t.TempDir(), "x.yaml"),
			},
			out,
		)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "has 60001 columns", "leave columns out")
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		data := offlinetest.WriteFile(t, "x.csv", wide(3000))
		return Init(Options{Data: data, Label: "buyed", Output: filepath.Join(t.TempDir(), "x.yaml")}, out)
	})
	if offlinetest.WantExit(t, err, report.ExitUsage, "and 2981 more"); len(err.Error()) > 500 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}
