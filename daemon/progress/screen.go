package progress

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// A Screen is a terminal with a line of progress at its end. What else is written there goes through Above, so that
// neither spoils the other.
// It is safe for concurrent use.
type Screen struct {
	mu   sync.Mutex
	w    io.Writer
	line string // on the screen now
	open bool   // the last other text has not ended its line, so that none can be drawn
}

// NewScreen returns the terminal behind w.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

// ScreenOf returns the screen behind the standard error of a program, nil if that is no terminal, and what to write
// to in place of its two outputs, so that lines of either that a person sees are above the line of progress.
func ScreenOf(stdout, stderr io.Writer) (s *Screen, out, errs io.Writer) {
	if !IsTerminal(stderr) {
		return nil, stdout, stderr
	}
	s = NewScreen(stderr)
	if IsTerminal(stdout) {
		stdout = s.Above(stdout)
	}
	return s, stdout, s.Above(stderr)
}

// IsTerminal reports whether what is written to w is seen by a person at once, on a terminal that can clear a line.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if term := os.Getenv("TERM"); !ok || term == "" || term == "dumb" {
		return false
	}
	st, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && (nullErr != nil || !os.SameFile(st, null))
}

const clearLine = "\r\x1b[K" // from its start

// draw puts the line at the end of the screen, in place of the one there; an empty one clears it.
func (s *Screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || line == "" && s.line == "" {
		return
	}
	if runes := []rune(line); len(runes) > lineWidth {
		line = string(runes[:lineWidth])
	}
	s.line = line
	_, _ = io.WriteString(s.w, clearLine+line) // nothing depends on its being seen
}

// Above returns a writer to w, which shows on this terminal, too: its lines are above the line of progress.
func (s *Screen) Above(w io.Writer) io.Writer {
	return &otherText{screen: s, w: w}
}

type otherText struct {
	screen *Screen
	w      io.Writer
}

// Unwrap returns what is written to.
func (b *otherText) Unwrap() io.Writer { return b.w }

func (b *otherText) Write(text []byte) (int, error) {
	s := b.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != "" {
		_, _ = io.WriteString(s.w, clearLine)
	}
	n, err := b.w.Write(text)
	if len(text) > 0 {
		s.open = !bytes.HasSuffix(text, []byte("\n"))
	}
	if s.open {
		s.line = ""
	} else if s.line != "" {
		_, _ = io.WriteString(s.w, s.line)
	}
	return n, err
}
