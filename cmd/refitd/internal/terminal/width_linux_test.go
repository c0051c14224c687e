package terminal

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/refitd/refitd/daemon/progress"
)

// The width is that of a pseudo terminal, also behind a screen of progress; it is Columns of one that says none, and
// what is no terminal has none.
func TestWidthIsOfTheTerminal(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal here: ", err)
	}
	defer pty.Close()
	writer := progress.NewScreen(pty).Above(pty)
	for columns, want := range map[uint16]int{60: 60, 200: 200, 0: Columns} {
		if err := unix.IoctlSetWinsize(int(pty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
		if got, behind := Width(pty), Width(writer); got != want || behind != want {
			t.Errorf("a terminal of %d columns: %d, and %d behind a screen of progress, want %d", columns, got, behind,
				want)
		}
		if got := New(pty, "", "", nil).Width(); got != min(want, Columns) {
			t.Errorf("a screen on %d columns takes %d", columns, got)
		}
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if a, b := Width(file), Width(new(strings.Builder)); a != 0 || b != 0 {
		t.Errorf("a file is %d columns wide, text in memory %d", a, b)
	}
}

// TestColours: a terminal has trouble in red and the marks of notes in bold, unless the user wants no colours or it has
// none; a file has none.
func TestColours(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer pty.Close()
	for _, c := range []struct {
		term, no string
		want     bool
	}{{"xterm", "", true}, {"xterm", "1", false}, {"dumb", "", false}} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.no)
		if got := hasColours(pty); got != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: colours %v", c.term, c.no, got)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, colours := range []bool{false, true} {
		var out strings.Builder
		s := New(&out, "page", "log", nil)
		if s.paint {
			t.Error("a file has colours")
		}
		s.paint = colours
		if err := errors.Join(s.Draw([]string{"fine", Trouble + "not ready"}), s.Note(0, "a note")); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{red + Trouble + "not ready" + plain + "\n", bold, faint + "page page" + plain} {
			if got := strings.Contains(out.String(), text); got != colours {
				t.Errorf("colours %v: %q is there: %v", colours, text, got)
			}
		}
		if strings.Contains(out.String(), plain+"fine") {
			t.Error("a line without trouble is coloured")
		}
	}
}
