package guess

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// guess is the schema that the columns of a file suggest, with a reason for each.
type guess struct {
	schema   config.Schema
	fields   []report.InitField
	format   dataset.Format
	rows     int // that were looked at
	total    int // of the file
	labelled int // of rows, those with a label
	labelWhy string
	mapped   []config.MappedField // fields that input.mapping reads
	of       outcomes             // labels of the first rows
	time     *dataset.Column      // nil without any
	chosen   string               // of a log of choices, the field with what is chosen
	sample   *Sample              // of a topic; of a file without a record
	joined   *joined              // with outcomes; nil without
	encoding string               // of a file that is not in Unicode
	skipped  string               // what was skipped, to end a message with
}

// What names of columns suggest.
var (
	likelyLabels = []string{"label", "rating", "ratings", "stars", "score", "target", "outcome", "click", "clicked",
		"converted", "class", "y"}
	likelyYes = []string{"up", "yes", "y", "true", "t", "positive", "pos", "good", "win", "won", "click", "clicked",
		"bought", "churned", "fraud", "spam", "on", "like", "liked", "active", "pass", "passed", "success", "ja", "oui",
		"sí", "si", "sim", "да", "wahr", "vrai", "verdadero", "👍", "✓", "✔", "☑", "✅"}
	likelyNo = []string{"no", "n", "not", "false", "f", "negative", "neg", "bad", "loss", "lost", "off", "dislike",
		"inactive", "fail", "failed", "failure", "none", "nein", "non", "não", "нет", "falsch", "faux", "falso", "ham",
		"down", "👎", "✗", "✘", "☐", "❌"}
	// happens are those of likelyYes that happen to what is active or good else.
	happens  = []string{"click", "clicked", "bought", "churned", "fraud", "spam", "won", "win"}
	ofLevels = []string{"rating", "ratings", "stars", "score", "scores", "level", "grade"}
)

// sentinel is a number that means "no value" in old files, where it is the only one below zero.
var sentinel = regexp.MustCompile(`^-99+(\.0+)?$`)

// ofExport are the members that versions export jsonl adds to the events of a sample.
var ofExport = []string{"_role", "_weight", "_inclusion_probability", "_topic", "_partition", "_offset"}

// What counts as few values, and as many rows for each.
const (
	fewClasses  = 100
	fewNumbers  = 50
	fewLevels   = 10
	rowsPerName = 20
)

// guessSchema guesses a schema. An empty label is looked for by name, unless the task is that of choices.
func guessSchema(p *dataset.Profile, sample *Sample, label, task string) (*guess, error) {
	g := &guess{format: p.Format, rows: p.Rows, total: p.Total, sample: sample, encoding: p.Encoding}
	sample.settle(p.Columns)
	if p.Skipped.Lines > 0 {
		g.skipped = "; " + p.Skipped.String()
	}
	var names []string
	var of *dataset.Column
	columns := g.columns(p)
	if err := oneRow(p, columns); err != nil {
		return nil, err
	}
	for _, c := range columns {
		if names = append(names, c.Name); c.Name == label {
			of = c
		}
	}
	switch {
	case label != "" && of == nil:
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--label",
			Err: fmt.Errorf("offline: %q is not a column: the nearest name is "+
				"%q of %s%s", label, nearest(label, columns), dataset.List(names), g.noHeader(columns))}
	case label == "" && task == "":
		of = likelyLabel(columns)
	}
	g.setOddAside(columns, of)
	if g.labelled = g.rows; of != nil {
		g.of, g.labelled = outcomesOf(of), of.Present
		if err := g.label(of, columns); err != nil {
			return nil, err
		}
	} else if kind, ok := g.choices(columns, task != ""); ok {
		of = kind
	} else if task != "" {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--task",
			Err: fmt.Errorf("offline: a log of choices has a column that says who chose "+
				"and one that says what, with names that come back: there are %s", dataset.List(names))}
	} else {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--label",
			Err: fmt.Errorf("offline: no column is clearly the label: say "+
				"--label NAME, one of %s; or, if every row is a choice, such as a purchase, and none says no, --task implicit%s",
				dataset.List(names), g.noHeader(columns))}
	}
	g.addAll(columns, of)
	g.findFunctions(columns)
	if len(g.schema.Categorical)+len(g.schema.Numeric)+len(g.schema.Multi) == 0 {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--data",
			Err: errors.New(
				"offline: other than the label there is no column to learn from: each is constant, or different in nearly " +
					"every row",
			)}
	}
	return g, nil
}

// What counts as odd among numbers, times or truths, and of labels. Chosen by hand: a name may be rare.
const (
	oddShare      = 0.02
	oddLabels     = 3
	oddLabelShare = 0.01
)

// setOddAside takes what is odd out of columns of numbers or times that would have many names. The label, which may be
// nil, may have few values.
func (g *guess) setOddAside(columns []*dataset.Column, label *dataset.Column) {
	for _, c := range columns {
		switch isMany := c.Distinct() > fewNumbers && nameOfNames(ownName(c)) == notByName; {
		case g.format == dataset.JSONL: // whose types say it
		case c == label:
			c.SetOddAside(min(oddLabels, int(oddLabelShare*float64(c.Present))))
		case isMany:
			c.SetOddAside(int(oddShare * float64(c.Present)))
		}
	}
}

// oddWhy says what SetOddAside took out.
func oddWhy(c *dataset.Column) string {
	if c.Odd == 0 {
		return ""
	}
	return fmt.Sprintf("; rows with something else, %d such as %s, are refused", c.Odd, quoted(c.OddText))
}

// oneRow refuses a file of JSON with one row, which may have its rows in a member.
func oneRow(p *dataset.Profile, columns []*dataset.Column) error {
	if p.Rows != 1 || p.Total > 1 || p.Format != dataset.JSONL {
		return nil
	}
	text := "offline: it has one row: there is nothing to learn"
	for _, c := range columns {
		if c.Lists > 0 && c.Path == nil {
			text += fmt.Sprintf("; if its rows are in %q, jq -c '.%s[]' writes each as a line", c.Name, offline.PathOf(c.Name))
			break
		}
	}
	return &report.ExitError{Code: report.ExitUsage, Key: "--data", Err: errors.New(text)}
}

// noHeader says that a file may have no header, if a column is called as a number is, or that nothing separates its
// cells, if there is one column.
func (g *guess) noHeader(columns []*dataset.Column) string {
	isNumber := func(c *dataset.Column) bool { _, err := strconv.ParseFloat(c.Name, 64); return err == nil }
	switch {
	case g.format != dataset.CSV:
		return ""
	case len(columns) == 1:
		return "; the first line has no comma, tab, semicolon or |, of which one separates cells"
	case slices.ContainsFunc(columns, isNumber):
		return "; the first line, which is taken for the names of the columns, has numbers: write a line with names before it"
	}
	return ""
}

// addAll guesses what the columns other than the label are; of, the label, may be nil.
func (g *guess) addAll(columns []*dataset.Column, of *dataset.Column) {
	g.time = g.likelyTime(columns, of)
	taken := make(map[string]bool, len(columns)) // names of paths have dots, as other names may
	if of != nil {
		taken[of.Name] = true
	}
	for _, c := range columns {
		if c != of && taken[c.Name] {
			g.fields = append(g.fields, report.InitField{Name: c.Name, Use: leftOut, Why: "another field is called so"})
		} else if c != of {
			g.add(c)
		}
		taken[c.Name] = true
	}
	why, names := g.sample.unseen(columns)
	for _, name := range names {
		g.fields = append(g.fields, report.InitField{Name: name, Use: leftOut, Why: why[name]})
	}
}

// columns returns the columns of a file that have a name and are not members of a map.
func (g *guess) columns(p *dataset.Profile) []*dataset.Column {
	maps := make(map[string]bool) // by their names, as those of their members begin with them
	for _, c := range p.Columns {
		if c.Members > dataset.MaxMembers {
			maps[c.Name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(p.Columns), func(c *dataset.Column) bool {
		return c.Name == "" ||
			isIn(maps, c.Path)
	})
}

// isIn reports whether a path leads into one of the objects.
func isIn(objects map[string]bool, path []string) bool {
	for i := 1; i < len(path); i++ {
		if objects[strings.Join(path[:i], ".")] {
			return true
		}
	}
	return false
}

// read has input.mapping read a field: a member of an object in events by its path, and what is no number as one where
// asNumber.
func (g *guess) read(c *dataset.Column, asNumber bool) {
	leaf := g.sample.leaf(c)
	f := config.MappedField{Name: c.Name, Path: PlaceOf(pathOf(c), g.sample.Envelope, leaf.IsKey)}
	if asNumber {
		f.As = "number"
	}
	if asNumber || c.Path != nil || leaf.IsKey {
		g.mapped = append(g.mapped, f)
	}
}

// likelyLabel returns the column that is called as labels are or, if there is one, the only one that has such a word
// in its name, as in "Star rating"; nil if no column is.
func likelyLabel(columns []*dataset.Column) *dataset.Column {
	for _, likely := range likelyLabels {
		if i := slices.IndexFunc(columns, func(c *dataset.Column) bool { return strings.EqualFold(c.Name, likely) }); i >= 0 {
			return columns[i]
		}
	}
	var of *dataset.Column
	for _, c := range columns {
		if own := ownName(c); c.Times > 0 && c.Times == c.Present || isTime(c, own) || nameOfNames(own) == surelyNames {
			continue // the time of a click, the ID of a target
		}
		for _, word := range words.FindAllString(c.Name, -1) {
			if word = strings.ToLower(word); len(word) == 1 || !slices.Contains(likelyLabels, word) {
				continue
			}
			if of != nil && of != c {
				return nil
			}
			of = c
		}
	}
	return of
}

// label guesses the task.
func (g *guess) label(c *dataset.Column, columns []*dataset.Column) error {
	s, n := &g.schema, c.Present
	s.Label = c.Name
	distinct := c.Distinct()
	classes, whyClasses := g.namesIn(c), g.classesOfNumbers(c, columns)
	switch {
	case n == 0 || distinct < 2:
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--label",
			Err: fmt.Errorf("offline: the column %q has %d different values in %d rows: "+
				"there is nothing to learn; --label names another%s%s", c.Name, distinct, g.rows, g.onlyYes(c), g.skipped),
		}
	case c.Booleans == n && (g.format != dataset.JSONL || c.Literals == n), c.Whole == n && c.Min == 0 && c.Max == 1:
		s.Task, g.labelWhy = string(event.Binary), "it is 0 or 1, or false or true"
	case whyClasses != "" && distinct > 2:
		s.Task, s.Classes, g.labelWhy = string(event.Multiclass), c.Values(), whyClasses
	case whyClasses == "" && c.Whole == n && c.Min >= 1 && c.Max <= fewLevels && distinct <= fewLevels &&
		(distinct > 2 || c.Pointed > 0 || c.Max > 2 && areLevels(c)):
		s.Task, s.Levels, g.labelWhy = string(event.Ordinal), int(
			c.Max), fmt.Sprintf("whole numbers from %g to %g: levels in order", c.Min, c.Max)
	case distinct == 2 && c.Lists == 0 && c.Pointed == 0 && (c.Numbers == 0 || c.Whole == n):
		g.twoLabels(c)
	case c.Numbers == n && twoMarks(c) != "":
		return &report.ExitError{Code: report.ExitUsage, Key: "--label",
			Err: fmt.Errorf("offline: the column %q is no label: %s", c.Name, twoMarks(c))}
	case c.Numbers == n && g.largeLabels(c):
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--label",
			Err: fmt.Errorf("offline: the column %q has numbers from %g to %g, and most are beyond ±%g, "+
				"the largest label: divide them, or say another --label", c.Name, c.Min, c.Max, event.MaxLabel),
		}
	case c.Numbers == n:
		s.Task, g.labelWhy = string(event.Regression), fmt.Sprintf("numbers from %g to %g", c.Min, c.Max)
		if distinct <= fewNumbers && g.rows >= rowsPerName*distinct {
			s.LabelMin, s.LabelMax = c.Min, c.Max
		}
	case c.Lists > 0 && len(classes) > 1 && len(classes) <= fewClasses:
		s.Task, s.Classes, g.labelWhy = string(event.Multilabel), classes, fmt.Sprintf("lists of %d different names",
			len(classes))
	case distinct <= fewClasses && c.Lists == 0:
		s.Task, s.Classes = string(event.Multiclass), symbolsOf(c, c.Values())
		g.labelWhy = fmt.Sprintf("%d different names%s", distinct, sameLetters(c.Values()))
	default:
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--label",
			Err: fmt.Errorf("offline: the column %q is text with %d different values, "+
				"more than %d classes: --label names another", c.Name, distinct, fewClasses),
		}
	}
	g.labelWhy += oddWhy(c) + doc(c)
	g.read(c, c.Quoted > 0 && s.Positive == "" && len(s.Classes) == 0)
	return nil
}

// onlyYes says of a label with one value in a part of the rows that the others have to have one, too.
func (g *guess) onlyYes(c *dataset.Column) string {
	if c.Distinct() != 1 || c.Present == g.rows {
		return ""
	}
	return fmt.Sprintf("; %s is in %d rows and nothing in the others: if that means no, write so", quoted(c.Values()[0]),
		c.Present)
}

// sameLetters says of classes that some differ in capital letters alone.
func sameLetters(classes []string) string {
	seen := make(map[string]string, len(classes))
	for _, name := range classes {
		small := strings.ToLower(name)
		if other, ok := seen[small]; ok {
			return fmt.Sprintf(", of which some differ in capital letters alone, such as %s and %s", quoted(other),
				quoted(name))
		}
		seen[small] = name
	}
	return ""
}

// largeLabels reports whether most of the numbers of a label are larger than labels may be.
func (g *guess) largeLabels(c *dataset.Column) bool {
	large, all := 0, 0
	for i, v := range c.HeadNumbers() {
		if all += c.CountOf(i); math.Abs(v) > event.MaxLabel {
			large += c.CountOf(i)
		}
	}
	return 2*large > all
}

// namesIn returns the names in the values of a column; of CSV a cell with | in it is a list.
func (g *guess) namesIn(c *dataset.Column) []string {
	var classes []string
	for _, value := range c.Values() {
		names := []string{value}
		if g.format == dataset.CSV {
			names = strings.Split(value, "|")
		}
		for _, name := range names {
			if name != "" && !slices.Contains(classes, name) && len(classes) <= fewClasses {
				classes = append(classes, name)
			}
		}
	}
	return classes
}

// areLevels reports whether a label is called as levels are, of which the rows looked at may have two.
func areLevels(c *dataset.Column) bool {
	return slices.ContainsFunc(wordsOf(c.Name), func(word string) bool { return slices.Contains(ofLevels, word) })
}

// twoLabels makes the task binary for two names. The one that counts as 1 is that which means yes, of two such the one
// that happens, of two that do not say it the one whose other means no, of numbers the larger, and else the rarer.
func (g *guess) twoLabels(c *dataset.Column) {
	no, yes := c.Values()[0], c.Values()[1] // numbers by size
	why := "which is the larger"
	means := func(name string, words []string) bool { return slices.Contains(words, strings.ToLower(name)) }
	yesWords, noWords := likelyYes, likelyNo
	switch {
	case means(no, likelyYes) && means(yes, likelyYes):
		yesWords = happens
	case means(no, likelyNo) && means(yes, likelyNo), strings.EqualFold(no, "f"), strings.EqualFold(yes, "f"):
		noWords = nil // F is false where T is the other, which means yes, and else a woman or a grade
	}
	numbers, values := c.HeadNumbers(), c.HeadValues()
	of := func(name string) float64 { return numbers[slices.Index(values, name)] }
	switch {
	case of(no) < of(yes):
	case of(yes) < of(no):
		no, yes = yes, no
	case means(no, yesWords) && !means(yes, yesWords), means(yes, noWords) && !means(yes, yesWords):
		no, yes, why = yes, no, "by its meaning"
	case means(yes, yesWords) && !means(no, yesWords), means(no, noWords):
		why = "by its meaning"
	default:
		if why = "the rarer of them"; c.Count(no) < c.Count(yes) {
			no, yes = yes, no
		}
	}
	g.schema.Task, g.schema.Positive, g.schema.Negative = string(event.Binary), yes, no
	g.labelWhy = fmt.Sprintf("it has two values; %s counts as 1, %s", yes, why)
}

// add guesses what a column that is not the label is.
func (g *guess) add(c *dataset.Column) {
	s, of := &g.schema, g.columnOf(c)
	field := report.InitField{Name: c.Name, Optional: c.Present+c.Odd < g.rows || of.isText && c.NaNs > 0}
	field.Use, field.Why = g.use(&of)
	asNumber := field.Use == "categorical" && c.Literals > 0 || field.Use == "numeric" && of.isText
	if field.Use == "numeric" && c.Quoted == 0 {
		if values := c.Values(); sentinel.MatchString(values[0]) && c.Count(values[0]) > 1 &&
			!strings.HasPrefix(values[1],
				"-") {
			field.Why += fmt.Sprintf(
				": if %s, in %d rows, means \"no value\", write null there and optional: true here", values[0],
				c.Count(values[0]))
		}
	}
	if field.Use == "time" || field.Use == leftOut {
		field.Optional = false
	}
	if field.Use != leftOut && field.Use != "categorical" {
		field.Why += oddWhy(c)
	}
	field.Why += doc(c)
	if field.Use != leftOut {
		g.read(c, asNumber)
	}
	switch field.Use {
	case "categorical":
		s.Categorical = append(s.Categorical, c.Name)
	case "numeric":
		s.Numeric = append(s.Numeric, c.Name)
	case "multi":
		s.Multi = append(s.Multi, c.Name)
	}
	g.fields = append(g.fields, field)
}

// unitNames are the units of times that schemas say, as schema.time_unit has them. A day has none.
var unitNames = map[event.Unit]string{event.Seconds: "s", event.Milliseconds: "ms", event.Microseconds: "us",
	event.Nanoseconds: "ns", event.Days: "ms"}

// isTyped reports whether the schema of a topic says that a column has times that are numbers.
func isTyped(c *dataset.Column) bool {
	return c.Leaf != nil && c.Leaf.IsTime && c.Numbers == c.Present && c.Present > 0
}

// timeUnit returns the unit of numbers that are times by their schema, or between 1990 and 2100 in it, or "".
func timeUnit(c *dataset.Column) string {
	if isTyped(c) {
		return unitNames[c.Leaf.Unit]
	}
	const from, to = 631_152_000, 4_102_444_800 // seconds
	if c.Present == 0 || c.Numbers != c.Present {
		return ""
	}
	for unit, scale := range map[string]float64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9} {
		if c.Min >= from*scale && c.Max <= to*scale {
			return unit
		}
	}
	return ""
}

// plausible returns a value of the column, to two digits.
func plausible(c *dataset.Column) string { return fmt.Sprintf("%.1e", math.Round(c.Max)) }
