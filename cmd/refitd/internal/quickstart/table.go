package quickstart

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// headerEvery is the number of lines after which the head of the table is repeated, so that it is on the screen and near in a log.
const headerEvery = 15

// Tick is one line of the live table: the state of the run at one moment. A number that does not apply yet is NaN.
type Tick struct {
	Elapsed         time.Duration
	Events          int64 // applied by the daemon
	EventsPerSecond float64
	Lag             int64         // records between the daemon and the ends of the log
	Version         int64         // that consumers have; 0 before the first
	Gap             float64       // optimality gap of that version
	GapKind         string        // certified or estimated; empty before the first version
	SinceRefit      time.Duration // negative before the first refit
	Window          WindowLosses
}

// WindowLosses are progressive losses over the last window of events, all of one metric.
type WindowLosses struct {
	Published, Live               float64 // the version consumers have; the champion plus fold-in
	GlobalMean, ItemMean, SGDBias float64 // baselines over the same window
}

// Table writes ticks as aligned lines, with the head repeated, and notes as lines of their own. Lines are only ever added, so it reads
// the same on a terminal and in a log. Not safe for concurrent use.
type Table struct {
	w      io.Writer
	metric string
	lines  int // since the head was last written
}

// NewTable returns a table whose window losses are of the named metric, such as rmse.
func NewTable(w io.Writer, metric string) *Table { return &Table{w: w, metric: metric} }

// Tick writes one line, after the head if it is due.
func (t *Table) Tick(k Tick) error {
	var out strings.Builder
	if t.lines%headerEvery == 0 {
		writeHead(&out, t.metric)
	}
	t.lines++
	row(&out, seconds(k.Elapsed), strconv.FormatInt(k.Events, 10), number(k.EventsPerSecond, 'f', 0), strconv.FormatInt(k.Lag, 10),
		version(k.Version), gap(k.Gap, k.GapKind), age(k.SinceRefit),
		loss(k.Window.Published), loss(k.Window.Live), loss(k.Window.SGDBias), loss(k.Window.ItemMean), loss(k.Window.GlobalMean))
	_, err := io.WriteString(t.w, out.String())
	return err
}

// Note writes one line of text, such as a promotion or a recovery, between the ticks.
func (t *Table) Note(elapsed time.Duration, text string) error {
	_, err := fmt.Fprintf(t.w, "%*s  > %s\n", widths[0], seconds(elapsed), text)
	return err
}

// heads and widths are those of the columns, in order. The losses begin at firstLoss.
var (
	heads  = [...]string{"time", "events", "ev/s", "lag", "version", "gap", "refit", "published", "live", "sgd_bias", "item_mean", "global_mean"}
	widths = [...]int{5, 9, 7, 7, 7, 13, 8, 9, 7, 8, 9, 11}
)

const (
	firstLoss = 7
	between   = "  "
)

func writeHead(out *strings.Builder, metric string) {
	before := 0
	for _, w := range widths[:firstLoss] {
		before += w + len(between)
	}
	fmt.Fprintf(out, "\n%*s%s over the last window, each event scored before it is learned\n", before, "", metric)
	row(out, heads[:]...)
}

func row(out *strings.Builder, cells ...string) {
	for i, c := range cells {
		if i > 0 {
			out.WriteString(between)
		}
		fmt.Fprintf(out, "%*s", widths[i], c)
	}
	out.WriteByte('\n')
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(d.Round(time.Second)/time.Second), 10) + "s"
}

func version(v int64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatInt(v, 10)
}

func gap(g float64, kind string) string {
	text := number(g, 'g', 3)
	switch {
	case text == "-" || kind == "":
		return text
	case kind == "certified":
		return text + " cert"
	}
	return text + " est"
}

func age(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return number(d.Seconds(), 'f', 1) + "s ago"
}

func loss(v float64) string { return number(v, 'f', 4) }

func number(v float64, format byte, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v, format, digits, 64)
}
