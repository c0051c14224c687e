// Package terminal draws the state of something that runs at the end of a terminal, in place, below the lines that
// stay.
package terminal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Columns is the width of a screen on a terminal that is wider, or that does not say how wide it is.
const Columns = 80

// Trouble begins a line of the state that needs attention: it is red where the terminal has colours.
const Trouble = "  ! "

// Attributes of text, as ANSI terminals take them (ECMA-48, 8.3.117), and their end.
const (
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// hasColours reports whether w is a terminal with colours whose user has not asked for none (https://no-color.org).
func hasColours(w io.Writer) bool {
	return Width(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// coloured returns a text with an attribute, where there are colours.
func (s *Screen) coloured(text, attribute string) string {
	if !s.paint || attribute == "" {
		return text
	}
	return attribute + text + plain
}

// narrowest is the least width that a screen takes for that of a terminal.
const narrowest = 20

// LogFile is the name of the file that the log goes to while a terminal shows the state.
const LogFile = "refitd.log"

// OpenLog opens that file of a directory, which it makes, to append to it. Its owner alone can read it.
func OpenLog(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, LogFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Screen shows a state at the end of a terminal, redrawn in place, and texts above it, which stay. No line of the state
// is longer than the terminal is wide, so that none wraps and the lines to go up are known. It is safe for concurrent
// use.
type Screen struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int
	head  []string // where the page and the log are
	body  []string // as drawn last
	drawn int      // lines of the last drawing, to go up for the next one
	paint bool     // lines are coloured
}

// New returns a screen that names the page and the file of the log. Nothing is drawn yet. A nil width is that of the
// terminal behind w, asked for at each drawing.
func New(w io.Writer, page, log string, width func() int) *Screen {
	if width == nil {
		width = func() int { return Width(w) }
	}
	return &Screen{
		w:     w,
		width: width,
		head:  []string{"page " + page, "log  " + log, "Ctrl-C ends it"},
		body:  []string{"starting …"},
		paint: hasColours(w),
	}
}

// Width returns the number of columns that a line may have now.
func (s *Screen) Width() int {
	n := s.width()
	if n <= 0 {
		n = Columns
	}
	return min(Columns, max(narrowest, n))
}

// Draw shows a state in the place of the one before.
func (s *Screen) Draw(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = lines
	return s.draw("")
}

// Note writes what happened after a time above the state.
func (s *Screen) Note(elapsed time.Duration, text string) error {
	var out strings.Builder
	for i, line := range Wrap(text, s.Width()-10) {
		mark := strings.Repeat(" ", 10)
		if i == 0 {
			mark = s.coloured(fmt.Sprintf("%5.0fs  > ", elapsed.Seconds()), bold)
		}
		out.WriteString(mark + line + "\n")
	}
	_, err := s.Write([]byte(out.String()))
	return err
}

// Write writes whole lines above the state.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(text), s.draw(string(text))
}

// draw replaces the last drawing by a text that stays and the state below it, in one write.
func (s *Screen) draw(above string) error {
	width := s.Width()
	head := append([]string{strings.Repeat("─", width)}, s.head...)
	var out strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", s.drawn) // up, to the left, and all below is gone
	}
	out.WriteString(above)
	for _, line := range head {
		out.WriteString(s.coloured(cut(line, width), faint) + "\n")
	}
	for _, line := range s.body {
		colour := ""
		if strings.HasPrefix(line, Trouble) {
			colour = red
		}
		out.WriteString(s.coloured(cut(line, width), colour) + "\n")
	}
	s.drawn = len(head) + len(s.body)
	_, err := io.WriteString(s.w, out.String())
	return err
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

// Wrap divides a text between words into lines of so many characters at most; a longer word is cut in its middle.
func Wrap(text string, columns int) (lines []string) {
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
