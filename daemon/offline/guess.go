package offline

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// guess is the schema that the columns of a file suggest, with a reason for each.
type guess struct {
	schema   config.Schema
	fields   []report.InitField
	format   dataset.Format
	rows     int // that were looked at
	total    int // of the file
	labelWhy string
	asNumber []string // fields that input.mapping reads so
}

// What names of columns suggest.
var (
	likelyLabels = []string{"label", "rating", "ratings", "stars", "score", "target", "outcome", "click", "clicked", "converted", "class", "y"}
	likelyYes    = []string{"up", "yes", "y", "true", "t", "positive", "pos", "good", "win", "won", "click", "clicked", "bought", "churned", "fraud", "spam", "1"}
	likeTime     = regexp.MustCompile(`(?i)^(ts|t|time|date|datetime|timestamp|.*(_at|_ts|_time|time_?stamp|date_?time)|.*(At|Time))$`)
	likeName     = regexp.MustCompile(`(?i)(^|_)(id|uid|guid|user|item|movie|product|sku|customer|account|session|store|shop|zip|zipcode|postcode|` +
		`code|country|city)$|(Id|ID)$`)
)

// ofExport are the members that export jsonl adds to the events of a sample.
var ofExport = []string{"_role", "_weight", "_inclusion_probability", "_topic", "_partition", "_offset"}

// What counts as few values, and as many rows for each.
const (
	fewClasses  = 100
	fewNumbers  = 50
	fewLevels   = 10
	rowsPerName = 20
)

// guessSchema guesses a schema. An empty label is looked for by name.
func guessSchema(p *dataset.Profile, label string) (*guess, error) {
	g := &guess{format: p.Format, rows: p.Rows, total: p.Total}
	var names []string
	var of *dataset.Column
	for _, c := range p.Columns {
		if c.Name == "" {
			continue
		}
		if names = append(names, c.Name); c.Name == label {
			of = c
		}
	}
	if label == "" {
		of = likelyLabel(p.Columns)
	}
	if of == nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--label",
			Err: fmt.Errorf("offline: which column is the label cannot be told: say --label NAME, one of %s", strings.Join(names, ", "))}
	}
	if err := g.label(of); err != nil {
		return nil, err
	}
	for _, c := range p.Columns {
		if c != of && c.Name != "" {
			g.add(c)
		}
	}
	if len(g.schema.Categorical)+len(g.schema.Numeric)+len(g.schema.Multi) == 0 {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--data",
			Err: errors.New("offline: beside the label there is no column to learn from: each is constant, or different in nearly every row")}
	}
	return g, nil
}

// likelyLabel returns the column that is called as labels are or, if there is one, the only one that has such a word in its name, as in "Star rating"; nil
// if there is none.
func likelyLabel(columns []*dataset.Column) *dataset.Column {
	for _, likely := range likelyLabels {
		if i := slices.IndexFunc(columns, func(c *dataset.Column) bool { return strings.EqualFold(c.Name, likely) }); i >= 0 {
			return columns[i]
		}
	}
	var of *dataset.Column
	for _, c := range columns {
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

// words are those of a name: of "user_rating", "Star rating" and "userRating".
var words = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// label guesses the task.
func (g *guess) label(c *dataset.Column) error {
	s, n := &g.schema, c.Present
	s.Label = c.Name
	distinct := c.Distinct()
	classes := g.namesIn(c)
	switch {
	case n == 0 || distinct < 2:
		return &report.ExitError{Code: report.ExitUsage, Key: "--label", Err: fmt.Errorf("offline: the column %q has %d different values in %d rows: "+
			"there is nothing to learn; --label names another", c.Name, distinct, g.rows)}
	case c.Booleans == n || c.Whole == n && c.Min == 0 && c.Max == 1:
		s.Task, g.labelWhy = string(event.Binary), "it is 0 or 1, or false or true"
	case c.Whole == n && c.Min >= 1 && c.Max <= fewLevels && distinct <= fewLevels:
		s.Task, s.Levels, g.labelWhy = string(event.Ordinal), int(c.Max), fmt.Sprintf("whole numbers from %g to %g: levels in order", c.Min, c.Max)
	case distinct == 2 && c.Lists == 0 && (c.Numbers == 0 || c.Whole == n):
		s.Task, s.Positive, s.Negative = string(event.Binary), c.Values()[0], c.Values()[1]
		if isYes(s.Negative) || !isYes(s.Positive) && c.Count(s.Negative) < c.Count(s.Positive) {
			s.Positive, s.Negative = s.Negative, s.Positive
		}
		g.labelWhy = fmt.Sprintf("it has two values; %s counts as 1", s.Positive)
	case c.Numbers == n:
		s.Task, g.labelWhy = string(event.Regression), fmt.Sprintf("numbers from %g to %g", c.Min, c.Max)
		if distinct <= fewNumbers && g.rows >= rowsPerName*distinct {
			s.LabelMin, s.LabelMax = c.Min, c.Max
		}
	case c.Lists > 0 && len(classes) > 1 && len(classes) <= fewClasses:
		s.Task, s.Classes, g.labelWhy = string(event.Multilabel), classes, fmt.Sprintf("lists of %d different names", len(classes))
	case distinct <= fewClasses && c.Lists == 0:
		s.Task, s.Classes, g.labelWhy = string(event.Multiclass), c.Values(), fmt.Sprintf("%d different names", distinct)
	default:
		return &report.ExitError{Code: report.ExitUsage, Key: "--label", Err: fmt.Errorf("offline: the column %q is text with %d different values, "+
			"more than %d classes: --label names another", c.Name, distinct, fewClasses)}
	}
	if c.Quoted > 0 && s.Positive == "" && len(s.Classes) == 0 {
		g.asNumber = append(g.asNumber, c.Name)
	}
	return nil
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

// isYes reports whether a name of one of two labels is by its meaning the one that counts as 1; of others it is the rarer one.
func isYes(name string) bool {
	return slices.ContainsFunc(likelyYes, func(yes string) bool { return strings.EqualFold(yes, name) })
}

// add guesses what a column that is not the label is.
func (g *guess) add(c *dataset.Column) {
	s, n := &g.schema, c.Present
	distinct := c.Distinct()
	isText := c.Quoted > 0 && c.Numbers+c.NaNs == n && c.Whole < c.Numbers // whole numbers that are text are names
	field := report.InitField{Name: c.Name, Optional: n < g.rows || isText && c.NaNs > 0}
	say := func(use, why string, arguments ...any) {
		field.Use, field.Why = use, fmt.Sprintf(why, arguments...)
	}
	const out = "left out"
	unit := timeUnit(c)
	switch {
	case n == 0:
		say(out, "it is empty")
	case slices.Contains(ofExport, c.Name):
		say(out, "it is what export says of a row")
	case c.Nested > 0:
		say(out, "it has objects, and a field is a name, a number or a list of names")
	case s.Time == "" && (unit != "" && (likeTime.MatchString(c.Name) || distinct > n/2) || c.Times == n && (g.format != dataset.JSONL || c.Stamps == n)):
		if s.Time, s.TimeUnit = c.Name, unit; unit == "" {
			s.TimeUnit = "ms"
			say("time", "written times")
		} else {
			words := map[string]string{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
			say("time", "numbers of about %s: %s since 1970", plausible(c), words[unit])
		}
	case c.Times == n:
		say(out, "written times, of which one is enough, in JSON by RFC 3339")
	case c.Lists > 0:
		say("multi", "lists of names")
	case distinct < 2:
		say(out, "it has one value")
	case c.Literals > 0 && c.Literals < n:
		say(out, "it has true and false beside other values")
	case c.Literals > 0:
		say("categorical", "true and false, as 1 and 0")
		g.asNumber = append(g.asNumber, c.Name)
	case isText && !likeName.MatchString(c.Name):
		say("numeric", "text that is numbers from %g to %g", c.Min, c.Max)
		g.asNumber = append(g.asNumber, c.Name)
	case c.Pointed > 0 && likeName.MatchString(c.Name):
		say(out, "a name by its name, but its numbers have a point: in JSON names are text or whole numbers")
	case c.Numbers == n && likeName.MatchString(c.Name):
		say("categorical", "%d different numbers, which by its name are names", distinct)
	case c.Whole == n && c.Pointed == 0 && distinct <= fewNumbers && g.rows >= rowsPerName*distinct:
		say("categorical", "%d different whole numbers", distinct)
	case c.Numbers == n && c.Quoted == 0:
		say("numeric", "numbers from %g to %g", c.Min, c.Max)
	case c.MaxBytes > event.DefaultLimits().MaxIDBytes:
		say(out, "text of up to %d bytes", c.MaxBytes)
	case distinct > n/2 && distinct > fewNumbers && !likeName.MatchString(c.Name):
		say(out, "%d different values in %d rows: no name comes back", distinct, n)
	default:
		say("categorical", "%d different names", distinct)
	}
	if field.Use == "time" || field.Use == out {
		field.Optional = false
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

// timeUnit returns the unit of numbers that are between 1990 and 2100 in it, or "".
func timeUnit(c *dataset.Column) string {
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
