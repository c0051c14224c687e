package progress

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/locked"
)

// plainLog writes lines without their time.
func plainLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestPass: work that reports how far it is sets the units; passes that follow one another have separate rates.
func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked.Buffer
		m := Start("verify", nil, plainLog(&out))
		m.Stage("opening the state", "", 0)
		time.Sleep(5 * time.Second)
		m.Pass("rows", 0, 1000)
		time.Sleep(4 * time.Second)
		m.Pass("rows", 250, 1000)
		time.Sleep(7 * time.Second)
		m.Pass("rows", 10, 1000) // the next pass
		time.Sleep(4*time.Second + time.Millisecond)
		m.Stop()
		const want = `level=INFO msg=progress of=verify stage="opening the state" seconds=5 rows=250 total=1000 per_second=50 percent=25 left=15s` + "\n" +
			`level=INFO msg=progress of=verify stage="opening the state" seconds=4 rows=10 total=1000 per_second=2.5 percent=1 left=6m36s` + "\n"
		if out.String() != want {
			t.Errorf("got\n%swant\n%s", &out, want)
		}
	})
	var none *Meter
	none.Pass("rows", 1, 2)
}

// TestLog: a line every ten seconds with the stage, the rate and what is left, none for work that is done before, none
// after Stop.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked.Buffer
		m := Start("backtest", nil, plainLog(&out))
		m.Stage("reading", "bytes", 0)
		time.Sleep(4 * time.Second)
		m.Stage("learning", "events", 3000)
		m.Add(500)
		time.Sleep(5 * time.Second)
		m.Add(500)
		synctest.Wait()
		if out.String() != "" {
			t.Errorf("after 9 s:\n%s", &out)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		m.Set(2000, 3000)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		m.Stop()
		m.Stop()
		time.Sleep(time.Minute)
		want := `level=INFO msg=progress of=backtest stage=learning seconds=6 events=1000 total=3000 per_second=166.7 percent=33 left=12s
level=INFO msg=progress of=backtest stage=learning seconds=16 events=2000 total=3000 per_second=125 percent=66 left=8s
`
		if out.String() != want {
			t.Errorf("log:\n%s, want\n%s", &out, want)
		}
	})
}

// screenOf plays a terminal: what its lines show after all that was written.
func screenOf(text string) (lines []string) {
	lines = []string{""}
	last := func() *string { return &lines[len(lines)-1] }
	for text != "" {
		switch {
		case strings.HasPrefix(text, clearLine):
			*last(), text = "", text[len(clearLine):]
		case text[0] == '\n':
			lines, text = append(lines, ""), text[1:]
		default:
			*last(), text = *last()+text[:1], text[1:]
		}
	}
	return lines
}

// TestScreen: one line is drawn over below what else is written, never into a line that has not ended, and is gone
// after Stop.
func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked.Buffer
		screen := NewScreen(&out)
		text := screen.Above(&out)
		m := Start("fit", screen, nil)
		shows := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := screenOf(out.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("the screen shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		m.Stage("path", "steps", 100)
		time.Sleep(time.Second)
		shows("fit: path [                    ]   0 %  0 steps, 0/s, 1s so far")
		m.Add(25)
		time.Sleep(time.Second)
		shows("fit: path [====>               ]  25 %  25 steps, 12/s, 6s left")
		fmt.Fprintln(text, "λ 1")
		shows("λ 1", "fit: path [====>               ]  25 %  25 steps, 12/s, 6s left")
		fmt.Fprint(text, "half")
		time.Sleep(2 * time.Second)
		shows("λ 1", "half")
		fmt.Fprintln(text, " a line")
		shows("λ 1", "half a line", "")
		m.Stage("comparing", "", 0)
		time.Sleep(time.Second)
		shows("λ 1", "half a line", "fit: comparing  1s so far")
		m.Stop()
		shows("λ 1", "half a line", "")
		time.Sleep(time.Minute)
		shows("λ 1", "half a line", "")
	})
}

func TestLine(t *testing.T) {
	began := time.Unix(0, 0)
	for _, c := range []struct {
		at   stage
		want string
	}{
		{stage{name: "s", unit: "records", count: 1_234_567}, "s  1,234,567 records, 123,457/s, 10s so far"},
		{stage{name: "s", unit: "records", count: 50, part: 1, whole: 2},
			"s [=========>          ]  50 %  50 records, 5/s, 10s left"},
		{stage{name: "s", unit: "bytes", count: 1 << 20, total: 4 << 20},
			"s [====>               ]  25 %  1.0 MiB, 0.1 MiB/s, 30s left"},
		{stage{name: "s", unit: "fits", count: 5, total: 5}, "s [====================] 100 %  5 fits, 0.5/s, 0s left"},
		{stage{name: "s", unit: "fits", count: 9, total: 5}, "s [====================] 100 %  9 fits, 0.9/s, 0s left"},
		{stage{name: "reading the long log", unit: "records", count: 3_655_568, total: 4_200_000},
			"reading the long log [=====>  ]  87 %  3,655,568 records, 365,557/s, 1s left"},
		{stage{name: "reading the long log", unit: "basis vectors", count: 365_556_800, total: 420_000_000},
			"reading the long log  87 %  365,556,800 basis vectors, 36,555,680/s, 1s left"},
	} {
		c.at.began = began
		if got := c.at.line(began.Add(10*time.Second), 76); got != c.want {
			t.Errorf("%+v:\n%s, want\n%s", c.at, got, c.want)
		}
	}
	var out locked.Buffer
	NewScreen(&out).draw(strings.Repeat("λ", 200))
	if got := screenOf(out.String())[0]; got != strings.Repeat("λ", lineWidth) {
		t.Errorf("a long line is drawn as %s", got)
	}
}

// TestNone: without a meter and without a screen everything is as it would be.
func TestNone(t *testing.T) {
	var m *Meter
	m.Stage("s", "events", 1)
	m.Add(1)
	m.Set(1, 1)
	m.Reach(1, 1)
	m.Stop()
	var out, errs bytes.Buffer
	if s, o, e := ScreenOf(&out, &errs); s != nil || o != &out || e != &errs {
		t.Error("a buffer is a terminal")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if IsTerminal(file) {
		t.Error("a file is a terminal")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	t.Setenv("TERM", "dumb")
	if IsTerminal(null) {
		t.Error("a dumb terminal can clear a line")
	}
}
