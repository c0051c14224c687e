package guess

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
)

// column is one that is not the label, with what its name and its values say of it.
type column struct {
	*dataset.Column
	own        string // its name, of nested fields the last part
	unit       string // of numbers that are times
	distinct   int
	isName     byName
	isQuantity bool
	isText     bool // whole numbers that are text are names, others are not
}

// leftOut is the use of a column that is no field.
const leftOut = "left out"

func (g *guess) columnOf(c *dataset.Column) column {
	out := column{Column: c, own: ownName(c), unit: timeUnit(c), distinct: c.Distinct()}
	out.isName, out.isQuantity = nameOfNames(out.own), nameOfQuantity(out.own)
	if isNumber := c.Numbers+c.NaNs == c.Present; isNumber && c.Whole < c.Numbers {
		out.isName = notByName // numbers with fractions are none
		out.isText = c.Quoted > 0
	}
	if out.Quoted > 0 && out.Numbers == out.Present && (out.isQuantity || isWrapped(c)) {
		out.isText = true // digits in quotes, and a quantity by its name
	}
	return out
}

// isWrapped reports whether MongoDB says of a value that it is a number: {"$numberInt": "5"}.
func isWrapped(c *dataset.Column) bool {
	return len(c.Path) > 1 && strings.HasPrefix(c.Path[len(c.Path)-1], "$number")
}

// use guesses what a column is, and says why. Of the rules the first that knows counts.
func (g *guess) use(c *column) (use, why string) {
	if why = g.noField(c); why != "" {
		return leftOut, why
	}
	for _, rule := range []func(*column) (use, why string){g.timeUse, g.mixedUse, g.identityUse, g.nameUse} {
		if use, why = rule(c); use != "" {
			return use, why
		}
	}
	return "categorical", fmt.Sprintf("%d different names", c.distinct)
}

// noField says why what a column has is no field, whatever its values are.
func (g *guess) noField(c *column) (why string) {
	switch {
	case c.Present == 0:
		return "it is empty"
	case slices.Contains(ofExport, c.Name):
		return "it is what export says of a row"
	case c.Leaf != nil && c.Leaf.Kind == event.LeafMap:
		return g.sample.mapWhy(c.Leaf)
	case c.Members > dataset.MaxMembers:
		return fmt.Sprintf("it has objects with more than %d different members, which are no fields", dataset.MaxMembers)
	case c.Members > 0:
		return "it has objects, whose members are separate fields"
	case c.What != "":
		return fmt.Sprintf("it has %s, and a field is a name, a number or a list of names", c.What)
	case c.Nested > 0:
		return "it has objects, and a field is a name, a number or a list of names"
	case c.NoTexts > 0:
		return fmt.Sprintf("it has bytes that are not UTF-8 in %d rows, and a name is text", c.NoTexts)
	}
	return ""
}

// timeUse knows times: those of the events, and those that are one too many.
func (g *guess) timeUse(c *column) (use, why string) {
	n := c.Present
	switch {
	case c.Column == g.time:
		g.schema.Time, g.schema.TimeUnit = c.Name, cmp.Or(c.unit, "ms")
		return "time", c.timeWhy()
	case g.format == dataset.JSONL && c.Quoted > 0 && isTime(c.Column, c.own):
		return leftOut, "times that are numbers as text: events have them as numbers, or by RFC 3339"
	case c.Beyond > 0 && c.Whole < c.Numbers && c.Numbers == n && float64(c.Beyond) > timeless*float64(n):
		return leftOut, fmt.Sprintf("numbers from %g to %g, of which %d are beyond %g or too near 0", c.Min, c.Max,
			c.Beyond, largestNumber)
	case !g.hasTimes(c.Column) && (c.Times == n || isTime(c.Column, c.own)):
		return leftOut, fmt.Sprintf("times, which %d rows lack: an event without its time is refused", g.rows-n)
	case c.Times == n && tooEarly(c.Column):
		return leftOut, fmt.Sprintf("written times, of which %d are before 1970, and no event has such", c.Early)
	case c.isUnreadTime():
		return leftOut, c.unreadWhy()
	case c.Times == n:
		return leftOut, "written times, of which one is enough, in JSON by RFC 3339"
	case g.time != nil && isTyped(c.Column):
		return leftOut, fmt.Sprintf("times by their type, of which one is enough, and %s is it", g.time.Name)
	case g.time != nil && isTime(c.Column, c.own):
		return leftOut, fmt.Sprintf("numbers of about %s, which are times: one is enough, and %s is it",
			plausible(c.Column), g.time.Name)
	}
	return "", ""
}

// isUnreadTime reports whether a column has text that seems to be times, which are not read so.
func (c *column) isUnreadTime() bool {
	if c.Present == 0 || c.Times == c.Present || c.Numbers+c.Lists+c.Nested+c.Literals > 0 {
		return false
	}
	like, all := 0, 0
	if c.distinct <= fewNumbers && c.Present >= rowsPerName*c.distinct && !slices.ContainsFunc(c.Values(),
		func(value string) bool { return !clock.MatchString(value) }) {
		return false // such as the hours of shows, which are names
	}
	for i, value := range c.HeadValues() {
		if all += c.CountOf(i); dataset.LooksLikeTime(value) {
			like += c.CountOf(i)
		}
	}
	return float64(like) > inOrder*float64(all)
}

// unreadWhy says what its text is.
func (c *column) unreadWhy() string {
	example := quoted(c.HeadValues()[0])
	if slashed.MatchString(c.HeadValues()[0]) {
		return fmt.Sprintf("times such as %s, in which the day may be either number: write 2024-01-31 12:00:00", example)
	}
	return fmt.Sprintf("times in a form that is not read, such as %s: write 2024-01-31 12:00:00", example)
}

// clock matches a time of a day.
var clock = regexp.MustCompile(`^\d{1,2}:\d\d(:\d\d)?$`)

// slashed matches a date that begins with its day, or with its month.
var slashed = regexp.MustCompile(`^\d{1,2}[/-]\d{1,2}[/-]\d`)

// tooEarly reports whether many of the times are before 1970.
func tooEarly(c *dataset.Column) bool { return float64(c.Early) > timeless*float64(c.Present) }

// timeWhy says why a column is the time of events.
func (c *column) timeWhy() string {
	switch {
	case c.unit == "":
		return "written times"
	case isTyped(c.Column):
		return "times by their type"
	}
	return fmt.Sprintf("numbers of about %s: %s since 1970", plausible(c.Column), unitWords[c.unit])
}

// mixedUse knows lists, true and false, numbers that are text, and values of several kinds.
func (g *guess) mixedUse(c *column) (use, why string) {
	n := c.Present
	switch {
	case isEnum(c.Column) && c.distinct > 1 && c.Numbers+c.Lists == 0:
		return "categorical", enumWhy(c.Column)
	case c.NoNames > 0 || c.Lists > 0 && c.Lists < n && g.format == dataset.JSONL:
		return leftOut, "it has lists of something else than names, which are text or whole numbers, or lists mixed with " +
			"other values"
	case c.Lists > 0:
		return "multi", "lists of names"
	case c.distinct < 2:
		return leftOut, "it has one value"
	case c.Literals > 0 && c.Literals < n:
		return leftOut, "it has true and false mixed with other values"
	case c.Literals > 0:
		return "categorical", "true and false, as 1 and 0"
	case c.isText && c.isName == notByName:
		return "numeric", fmt.Sprintf("text that is numbers from %g to %g", c.Min, c.Max)
	case c.Empty > 0 && float64(c.Empty) > timeless*float64(g.rows):
		return leftOut, fmt.Sprintf("it is empty text in %d rows, which is no name: write null there", c.Empty)
	}
	return "", ""
}

// identityUse knows columns in which no value comes back.
func (g *guess) identityUse(c *column) (use, why string) {
	if c.distinct <= fewNumbers {
		return "", ""
	}
	n, everyRow := c.Present, c.distinct == c.Present && c.Present == g.rows
	switch {
	case everyRow && g.schema.Identity == "" && identifies(c.own) && (c.Numbers == 0 || c.Whole == n) && c.Lists == 0:
		g.schema.Identity = c.Name
		return "identity", "it differs in every row: an event that comes again, or is corrected, counts once"
	case c.Whole == n && c.Steps == n-1:
		return leftOut, "it counts the rows"
	case c.distinct == n && c.isName != notByName:
		return leftOut, c.noNameWhy()
	}
	return "", ""
}

// noNameWhy says that a column has no names, and what it may be instead.
func (c *column) noNameWhy() string {
	why := fmt.Sprintf("%d different values in %d rows: no name comes back", c.distinct, c.Present)
	if 2*c.Numbers > c.Present && c.Numbers < c.Present {
		why += fmt.Sprintf("; %d of them are numbers, and the others would have to be empty", c.Numbers)
	}
	return why
}

// nameUse decides between names and numbers.
func (g *guess) nameUse(c *column) (use, why string) {
	n := c.Present
	switch {
	case c.Pointed > 0 && c.isName != notByName:
		return leftOut, "a name by its name, but its numbers have a point: in JSON names are text or whole numbers"
	case c.Numbers == n && c.Whole == n && (c.Padded > 0 || c.Quoted == 0):
		use, why = g.whole(c.Column, c.isName, c.isQuantity)
		return use, why + c.noTimeWhy()
	case c.Numbers == n && twoMarks(c.Column) != "":
		return leftOut, twoMarks(c.Column)
	case c.Numbers == n && c.Quoted == 0:
		return "numeric", fmt.Sprintf("numbers from %g to %g", c.Min, c.Max) + c.noTimeWhy()
	case c.MaxBytes > event.DefaultLimits().MaxIDBytes:
		return leftOut, fmt.Sprintf("text of up to %d bytes", c.MaxBytes)
	case c.distinct > n/2 && c.distinct > fewNumbers && c.isName == notByName:
		return leftOut, c.noNameWhy()
	}
	return "", ""
}

// twoMarks says of numbers that some have marks between thousands that others may have as a decimal mark, "" of others.
func twoMarks(c *dataset.Column) string {
	if grouped, once := c.TwoMarks(); grouped != "" {
		return fmt.Sprintf("it has %s, and %s may be more than a thousand or a fraction: write numbers without marks "+
			"between thousands", quoted(grouped), quoted(once))
	}
	return ""
}

// noTimeWhy says of numbers that are called as times are that they are none.
func (c *column) noTimeWhy() string {
	if !isTimeName(c.own) || c.isQuantity || c.unit != "" {
		return ""
	}
	return ", which are no times since 1970: write them as 2024-01-31 12:00:00 if they are times"
}
