package quickstart

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon/report"
)

// headerEvery is the number of lines after which the head of the table is repeated, so that it is on the screen and
// near in a log.
const headerEvery = 15

// Table writes ticks as aligned lines, with the head repeated, and notes as separate lines. Lines are only ever
// added, so it reads the same on a terminal and in a log. Not safe for concurrent use.
type Table struct {
	w       io.Writer
	width   int   // of a line at most, 0 without a limit
	columns []int // that there is room for, in order
	lines   int   // since the head was last written
}

// NewTable returns a table whose window losses are root mean squared errors, with the columns that fit a line of so
// many characters; 0 is no limit.
func NewTable(w io.Writer, width int) *Table {
	t := &Table{w: w, width: width}
	for i := range heads {
		t.columns = append(t.columns, i)
	}
	for _, i := range dispensable {
		if width == 0 || t.before(len(t.columns)) <= width+len(between) {
			break
		}
		t.columns = slices.DeleteFunc(t.columns, func(c int) bool { return c == i })
	}
	return t
}

// before is the number of characters to the left of the n-th column that is shown.
func (t *Table) before(n int) (chars int) {
	for _, i := range t.columns[:n] {
		chars += widths[i] + len(between)
	}
	return chars
}

// Tick writes one line, after the head if it is due.
func (t *Table) Tick(k *report.Tick) error {
	var out strings.Builder
	if t.lines%headerEvery == 0 {
		t.writeHead(&out)
	}
	t.lines++
	version, form, age := "-", cmp.Or(k.Form, "-"), "-"
	if k.Version != nil {
		version = strconv.FormatInt(*k.Version, 10)
	}
	if k.SinceRefitSeconds != nil {
		age = number(float64(*k.SinceRefitSeconds), 'f', 1) + "s ago"
	}
	window, baselines := &k.Progressive.Window, &k.Progressive.Baselines
	t.row(&out, seconds(float64(k.ElapsedSeconds)), strconv.FormatInt(k.Events, 10),
		number(float64(k.EventsPerSecond), 'f', 0), strconv.FormatInt(k.Lag, 10), version, form, age,
		loss(window.Published), loss(window.Live), loss(baselines.SGDBias), loss(baselines.ItemMean),
		loss(baselines.GlobalMean))
	_, err := io.WriteString(t.w, out.String())
	return err
}

// Note writes one line of text, such as a promotion or a recovery, between the ticks.
func (t *Table) Note(elapsed time.Duration, text string) error {
	lines := []string{text}
	indent := widths[0] + len("  > ")
	if t.width > 0 {
		lines = terminal.Wrap(text, t.width-indent)
	}
	_, err := fmt.Fprintf(t.w, "%*s  > %s\n", widths[0], seconds(elapsed.Seconds()),
		strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
	return err
}

// heads and widths are those of the columns, in order. The losses begin at firstLoss.
var (
	heads = [...]string{"time", "events", "ev/s", "lag", "version", "model", "refit", "published", "live", "sgd_bias",
		"item_mean", "global_mean"}
	widths = [...]int{5, 9, 7, 7, 7, 11, 8, 9, 7, 8, 9, 11}
)

// dispensable are the columns that a narrow table is without, first the one that is missed least: time, version,
// published and live remain.
var dispensable = [...]int{5, 6, 2, 11, 10, 9, 3, 1}

const (
	firstLoss = 7
	between   = "  "
	headLine  = "rmse over the last window, each event scored before it is learned"
)

func (t *Table) writeHead(out *strings.Builder) {
	at := t.before(slices.IndexFunc(t.columns, func(c int) bool { return c >= firstLoss }))
	lines := []string{headLine}
	if t.width > 0 && at+len(headLine) > t.width {
		at, lines = 0, terminal.Wrap(headLine, t.width)
	}
	out.WriteByte('\n')
	for _, line := range lines {
		fmt.Fprintf(out, "%*s%s\n", at, "", line)
	}
	t.row(out, heads[:]...)
}

func (t *Table) row(out *strings.Builder, cells ...string) {
	for i, c := range t.columns {
		if i > 0 {
			out.WriteString(between)
		}
		fmt.Fprintf(out, "%*s", widths[c], cells[c])
	}
	out.WriteByte('\n')
}

func seconds(s float64) string { return strconv.FormatInt(int64(math.Round(s)), 10) + "s" }

func loss(m *report.Metrics) string { return number(rmse(m), 'f', 4) }

// number is "-" for a number that does not apply yet.
func number(v float64, format byte, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v, format, digits, 64)
}
