package guess

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// oddFile returns a file whose columns have an odd cell in one row each: numbers, times and labels.
func oddFile(price, at, label string) string {
	var b strings.Builder
	b.WriteString("user,price,at,clicked\n")
	for i := range 300 {
		cells := []string{fmt.Sprint("u", i%7), fmt.Sprintf("%d.5", 3*i), fmt.Sprintf("2024-01-02 %02d:%02d:07", i/60, i%60),
			fmt.Sprint(i % 2)}
		if i == 0 {
			cells[1], cells[2], cells[3] = price, at, label
		}
		b.WriteString(strings.Join(cells, ",") + "\n")
	}
	return b.String()
}

// TestInitOfOddCells: a line of units, or one cell that is no number, costs its row and not the column.
func TestInitOfOddCells(t *testing.T) {
	g, m := guesses(t, "x.csv", oddFile("EUR", "UTC", "0/1"), Options{})
	s, says := m.Schema, fmt.Sprint(g)
	if s.Task != "binary" || s.Time != "at" || len(s.Numeric) != 1 || s.Numeric[0] != "price" || len(s.Optional) > 0 {
		t.Errorf("schema %+v", s)
	}
	for _, want := range []string{`1 such as "EUR", are refused`, `1 such as "UTC", are refused`,
		`1 such as "0/1", are refused`} {
		if !strings.Contains(says, want) {
			t.Errorf("%s does not have %q", says, want)
		}
	}
	for name, text := range map[string]string{
		"units":   oddFile("EUR", "2024-01-02", "1"),
		"a label": oddFile("1", "2024-01-02", "0/1"), "a hole": oddFile("NA", "", "1"),
		"an infinity": oddFile("inf", "2024-01-02", "1"), "a fault": oddFile("#REF!", "2024-01-02", "1")} {
		if !sameEvents(t, offlinetest.WriteFile(t, strings.ReplaceAll(name, " ", "-")+".csv", text), "clicked") {
			t.Errorf("no configuration of %s", name)
		}
	}
}

// TestInitOfRareNames: a name among whole numbers that are names is one of them, and no mistake.
func TestInitOfRareNames(t *testing.T) {
	var b strings.Builder
	b.WriteString("user_id,size,clicked\n")
	for i := range 300 {
		user, size := fmt.Sprint(i%90), fmt.Sprint(38+i%8)
		if i%100 == 7 {
			user, size = "guest", "XL"
		}
		fmt.Fprintf(&b, "%s,%s,%d\n", user, size, i%3%2)
	}
	_, m := guesses(t, "x.csv", b.String(), Options{})
	if fmt.Sprint(m.Schema.Categorical) != "[user_id size]" {
		t.Errorf("schema %+v", m.Schema)
	}
}

// TestInitOfTwoLabels: which of two labels counts as 1 is said by their meaning, or by their size, and why is said.
func TestInitOfTwoLabels(t *testing.T) {
	for pair, want := range map[[2]string]string{
		{"no", "yes"}: "yes counts as 1, by its meaning", {"on", "off"}: "on counts as 1, by its meaning",
		{"ja", "nein"}: "ja counts as 1, by its meaning", {"Stayed", "Churned"}: "Churned counts as 1, by its meaning",
		{"👎", "👍"}: "👍 counts as 1, by its meaning", {"FALSCH", "WAHR"}: "WAHR counts as 1, by its meaning",
		{"lost", "kept"}: "kept counts as 1, by its meaning", {"a", "b"}: "a counts as 1, the rarer of them",
		{"0", "100"}: "100 counts as 1, which is the larger", {"2", "1"}: "2 counts as 1, which is the larger",
		{"active", "churned"}: "churned counts as 1, by its meaning", {"good", "spam"}: "spam counts as 1, by its meaning",
		{"fraud", "active"}: "fraud counts as 1, by its meaning", {"F", "T"}: "T counts as 1, by its meaning",
		{"F", "M"}: "F counts as 1, the rarer of them", {"A", "F"}: "A counts as 1, the rarer of them",
		{"failed", "none"}: "failed counts as 1, the rarer of them",
		{"100%", "20%"}:    "100% counts as 1, which is the larger",
		{"-1", "+1"}:       "+1 counts as 1, which is the larger", {"+1", "0"}: "it is 0 or 1, or false or true",
	} {
		var b strings.Builder
		b.WriteString("user,label\n")
		for i := range 300 {
			fmt.Fprintf(&b, "u%d,%s\n", i%7, pair[min(1, i%3)]) // the second is twice as frequent
		}
		g, m := guesses(t, "x.csv", b.String(), Options{})
		if says := fmt.Sprint(g["label_why"]); m.Schema.Task != "binary" || !strings.Contains(says, want) {
			t.Errorf("%q: %s %q", pair, m.Schema.Task, says)
		}
		if !sameEvents(t, offlinetest.WriteFile(t, "x.csv", b.String()), "label") {
			t.Errorf("no configuration of %q", pair)
		}
	}
	var file bytes.Buffer
	type row struct {
		User  string `parquet:"user"`
		Label string `parquet:"label"`
	}
	w := parquet.NewGenericWriter[row](&file)
	for i := range 300 {
		if _, err := w.Write([]row{{fmt.Sprint("u", i%7), []string{"0", "1", "1"}[i%3]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, m := guesses(t, "x.parquet", file.String(), Options{}); m.Schema.Positive != "1" {
		t.Errorf("digits that are text in Parquet: %q counts as 1", m.Schema.Positive)
	}
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, `{"user":"u%d","label":"%s"}`+"\n", i%7, []string{"True", "False"}[i%2])
	}
	if !sameEvents(t, offlinetest.WriteFile(t, "x.jsonl", b.String()), "label") {
		t.Error("no configuration of truths that are text in JSON")
	}
}

// TestInitOfTimesNotRead: times that are not read are left out with what they are, and so are those before 1970.
func TestInitOfTimesNotRead(t *testing.T) {
	for layout, want := range map[string]string{
		"%02d/03/2024 10:00":        "in which the day may be either number",
		"2024-03-%02d 10:00:00 CET": "in a form that is not read, such as",
		"1955-03-%02d 10:00:00":     "of which 300 are before 1970",
		"202403%02d":                "which are no times since 1970",
		"10:%02d:00":                "in a form that is not read, such as",
	} {
		var b strings.Builder
		b.WriteString("user,when,clicked\n")
		for i := range 300 {
			fmt.Fprintf(&b, "u%d,"+layout+",%d\n", i%7, 1+i/11, i%3%2)
		}
		g, m := guesses(t, "x.csv", b.String(), Options{})
		if says := fmt.Sprint(g["fields"]); !strings.Contains(says, want) || m.Schema.Time != "" {
			t.Errorf("%s: %s, want %q", layout, says, want)
		}
		if !sameEvents(t, offlinetest.WriteFile(t, "x.csv", b.String()), "clicked") {
			t.Errorf("no configuration of %s", layout)
		}
	}
}

// TestInitOfTwoLevels: two levels of a rating are levels of it, and numbers with a point are labels in JSON as numbers
// alone.
func TestInitOfTwoLevels(t *testing.T) {
	for name, c := range map[string]struct{ row, want string }{
		"x.csv":   {"u%d,%d\n", "ordinal"},
		"x.jsonl": {`{"user":"u%d","rating":%d.0}` + "\n", "ordinal"},
		"y.jsonl": {`{"user":"u%d","label":%d0.0}` + "\n", "regression"},
		"z.csv":   {"u%d,%d0\n", "binary"},
	} {
		var b strings.Builder
		if strings.HasSuffix(name, ".csv") {
			b.WriteString("user,rating\n")
		}
		for i := range 300 {
			fmt.Fprintf(&b, c.row, i%7, 4+i%2)
		}
		label := "rating"
		if name == "y.jsonl" {
			label = "label"
		}
		if _, m := guesses(t, name, b.String(), Options{}); m.Schema.Task != c.want {
			t.Errorf("%s: %s, want %s", name, m.Schema.Task, c.want)
		}
		if !sameEvents(t, offlinetest.WriteFile(t, name, b.String()), label) {
			t.Errorf("no events of %s", name)
		}
	}
}

// TestInitOfTwoMarks: a mark that groups thousands in one number and is a decimal one in another makes no numbers.
func TestInitOfTwoMarks(t *testing.T) {
	for name, c := range map[string]struct {
		separator string
		values    []string
		numeric   bool
	}{
		"thousands of tabs":         {"\t", []string{"999", "1,%03d", "1,234,%03d"}, false},
		"points of thousands":       {";", []string{"999", "1.%03d", "1.234.%03d"}, false},
		"cents":                     {"\t", []string{"$1,%03d", "$1,234.%03d"}, false},
		"fractions":                 {"\t", []string{"999", "1,%03d"}, true},
		"fractions below thousands": {";", []string{"0.%03d", "1.234.%03d"}, true},
		"points and commas":         {";", []string{"1.234.%03d", "12,%03d"}, true},
		"thousands of commas":       {",", []string{"999", `"1,%03d"`, `"1,234,%03d"`}, true},
	} {
		var b strings.Builder
		b.WriteString(strings.ReplaceAll("user,amount,clicked\n", ",", c.separator))
		for i := range 300 {
			value := c.values[i%len(c.values)]
			if strings.Contains(value, "%") {
				value = fmt.Sprintf(value, i)
			}
			fmt.Fprintln(&b, strings.Join([]string{fmt.Sprint("u", i%7), value, fmt.Sprint(i % 3 % 2)}, c.separator))
		}
		g, m := guesses(t, "x.csv", b.String(), Options{})
		if says := fmt.Sprint(g["fields"]); len(m.Schema.Numeric) == 1 != c.numeric ||
			strings.Contains(says, "more than a thousand or a fraction") == c.numeric {
			t.Errorf("%s: %s", name, says)
		}
	}
}

// TestInitOfMarkedTimes: times that a spreadsheet wrote with marks are read as what init takes them for.
func TestInitOfMarkedTimes(t *testing.T) {
	var b strings.Builder
	b.WriteString("user,ts,clicked\n")
	for i := range 300 {
		fmt.Fprintf(&b, "u%d,\"1,700,%03d,000\",%d\n", i%7, i, i%3%2)
	}
	if _, m := guesses(t, "x.csv", b.String(), Options{}); m.Schema.Time != "ts" {
		t.Fatalf("schema %+v", m.Schema)
	}
	if !sameEvents(t, offlinetest.WriteFile(t, "x.csv", b.String()), "clicked") {
		t.Error("no events")
	}
}

// TestInitOfVersionsAndHours: versions, and hours that come back, are names and no times.
func TestInitOfVersionsAndHours(t *testing.T) {
	var b strings.Builder
	b.WriteString("app,slot,clicked\n")
	for i := range 300 {
		fmt.Fprintf(&b, "4.%d.1,%02d:30,%d\n", i%7, i%5, i%3%2)
	}
	if _, m := guesses(t, "x.csv", b.String(), Options{}); fmt.Sprint(m.Schema.Categorical) != "[app slot]" {
		t.Errorf("schema %+v", m.Schema)
	}
}

// TestInitOfNamesOfYAML: a file called as YAML calls something else than text is quoted, and another is not.
func TestInitOfNamesOfYAML(t *testing.T) {
	for name, want := range map[string]string{"null": `"null"`, "true": `"true"`, "123": `"123"`, "yes": `"yes"`,
		"0x1f": `"0x1f"`, "1e5": `"1e5"`, "1_000": `"1_000"`, "2024-01-02": `"2024-01-02"`, "No": `"no"`, "~": "model",
		"ratings": "ratings", "inf": "inf", "nan": "nan", "2024-sales": "2024-sales", "u1": "u1", "100k": "100k"} {
		text := offlinetest.WriteFile(t, name+".csv", "user,clicked\n"+strings.Repeat("u1,0\nu2,1\n", 50))
		output := filepath.Join(t.TempDir(), "out.yaml")
		if err := Init(Options{Data: text, Output: output}, report.NewEmitter(io.Discard, true)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if yaml, err := os.ReadFile(output); err != nil || !strings.Contains(string(yaml), "\n  - name: "+want+"\n") {
			t.Errorf("%s: %v\n%s", name, err, yaml)
		}
	}
}
