package quickstart

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/daemon/report"
)

// screenColumns is the width of the terminals that the screen fits.
const screenColumns = 80

// display shows ticks and notes to people.
type display interface {
	Tick(k *report.Tick) error
	Note(elapsed time.Duration, text string) error
}

// Screen shows the newest tick at the end of a terminal, redrawn in place, and notes above it, which stay. No line is longer than screenColumns, so
// that none wraps and the lines to go up are known. Not safe for concurrent use.
type Screen struct {
	w     io.Writer
	head  []string // where the page and the log are
	drawn int      // lines of the last drawing, to go up for the next one
	last  *report.Tick
}

// NewScreen returns a screen that names the page and the file of the log.
func NewScreen(w io.Writer, page, log string) *Screen {
	return &Screen{w: w, head: []string{"page " + page, "log  " + log, "Ctrl-C ends it"}}
}

// Tick draws the newest state in the place of the one before.
func (s *Screen) Tick(k *report.Tick) error {
	s.last = k
	return s.draw("")
}

// Note writes a text above the state.
func (s *Screen) Note(elapsed time.Duration, text string) error {
	var out strings.Builder
	for i, line := range wrapped(text, screenColumns-10) {
		mark := strings.Repeat(" ", 10)
		if i == 0 {
			mark = fmt.Sprintf("%6s  > ", seconds(elapsed.Seconds()))
		}
		out.WriteString(mark + line + "\n")
	}
	return s.draw(out.String())
}

// draw replaces the last drawing by a text that stays and the state below it, in one write.
func (s *Screen) draw(above string) error {
	lines := s.lines()
	var out strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", s.drawn) // up, to the left, and all below is gone
	}
	out.WriteString(above)
	for _, line := range lines {
		out.WriteString(cut(line, screenColumns) + "\n")
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.w, out.String())
	return err
}

// lines are the state as of the last tick.
func (s *Screen) lines() []string {
	lines := append([]string{strings.Repeat("─", screenColumns)}, s.head...)
	k := s.last
	if k == nil {
		return append(lines, "starting …")
	}
	version := "no version yet"
	if k.Version != nil {
		version = fmt.Sprintf("version %d (%s)", *k.Version, k.Form)
	}
	if k.SinceRefitSeconds != nil {
		version += fmt.Sprintf(", last refit %s ago", seconds(float64(*k.SinceRefitSeconds)))
	}
	w, b := &k.Progressive.Window, &k.Progressive.Baselines
	cells := func(texts ...string) string {
		line := ""
		for _, text := range texts {
			line += fmt.Sprintf("%-13s", text)
		}
		return strings.TrimRight(line, " ")
	}
	return append(lines,
		fmt.Sprintf("%s: %d events, %s a second, %d to do", seconds(float64(k.ElapsedSeconds)), k.Events, number(float64(k.EventsPerSecond), 'f', 0), k.Lag),
		version,
		cells("rmse of", "published", "live", "sgd_bias", "item_mean", "global_mean"),
		cells("the window", loss(w.Published), loss(w.Live), loss(b.SGDBias), loss(b.ItemMean), loss(b.GlobalMean)))
}

// cut shortens a line to so many characters; what is left out of the middle of a long path or address is "…".
func cut(line string, columns int) string {
	runes := []rune(line)
	if len(runes) <= columns {
		return line
	}
	half := (columns - 1) / 2
	return string(runes[:half]) + "…" + string(runes[len(runes)-(columns-1-half):])
}

// wrapped divides a text between words into lines of so many characters at most.
func wrapped(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += cut(word, columns)
	}
	return append(lines, line)
}
