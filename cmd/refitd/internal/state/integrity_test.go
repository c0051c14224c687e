package state

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// childMode names the environment variable that makes the test binary a checking process.
const childMode = "INTEGRITY_CHILD"

func TestMain(m *testing.M) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	switch out, mode := report.NewEmitter(os.Stdout, true), os.Getenv(childMode); mode {
	case "":
		daemontest.Main(m)
	case "check":
		err := Check(context.Background(), os.Args[1], log)
		if err == nil {
			err = out.Emit("summary", report.Empty{})
		} else {
			out.Emit("error", report.ErrorOf(err))
		}
		os.Exit(report.CodeOf(err))
	case "restore", "backup":
		os.Exit(child(mode, out, log))
	case "panic":
		go panic("slice bounds out of range [7]")
		select {}
	case "fault":
		panic("fatal error: fault")
	}
}

func state(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := sketch.Open(t.Context(), sketch.Options{Dir: dir, Size: 100, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &sketch.Part{Topic: "a", Next: 500}
	for i := range p.Next {
		p.Records = append(p.Records,
			sketch.Record{Offset: i, Fate: sketch.Applied, Weight: 1, Payload: []byte("payload")})
	}
	if err := s.Begin("a", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(p, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestProcess: what the other process finds comes back with its exit code, and its death is damage.
func TestProcess(t *testing.T) {
	dir := state(t)
	process := &Process{Path: os.Args[0], Args: os.Args[:1]}
	for _, c := range []struct {
		name, mode, text string
		damage           func(t *testing.T)
		code             int
	}{
		{name: "whole", mode: "check"},
		{name: "panics", mode: "panic", text: "panic: slice bounds out of range [7]", code: report.ExitState},
		{name: "faults", mode: "fault", text: "fatal error: fault", code: report.ExitState},
		{name: "table cut", mode: "check", text: ".sst", code: report.ExitState, damage: func(t *testing.T) {
			names, err := filepath.Glob(filepath.Join(dir, "rows", "*.sst"))
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			if err := os.Truncate(names[0], 100); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.damage != nil {
				c.damage(t)
			}
			t.Setenv(childMode, c.mode)
			err := process.Check(t.Context(), dir)
			if report.CodeOf(err) != c.code || c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want exit code %d with %q", err, c.code, c.text)
			}
		})
	}
	if err := process.Check(t.Context(), t.TempDir()); err != nil {
		t.Errorf("a directory without a state: %v", err)
	}
}

// TestSayings: lines of progress are handed on as they come, however they are cut up, and the last line of another kind
// is the answer.
func TestSayings(t *testing.T) {
	var seen []string
	s := &sayings{
		progress: func(unit string, done, total int64) { seen = append(seen, fmt.Sprint(unit, done, "/", total)) },
	}
	text := `{"type":"progress","unit":"bytes","done":1,"total":9}` + "\n" +
		`{"type":"progress","unit":"rows","done":5,"total":7}` + "\n" +
		`{"type":"error","code":"state"}` + "\n" + `{"type":"progress","unit":"rows","done":6,"total":7}` + "\n"
	for len(text) > 0 {
		n := min(len(text), 11)
		if wrote, err := s.Write([]byte(text[:n])); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		text = text[n:]
	}
	if want := []string{"bytes1/9", "rows5/7", "rows6/7"}; !slices.Equal(seen, want) ||
		s.last != `{"type":"error","code":"state"}` {
		t.Errorf("progress %q, the answer is %s", seen, s.last)
	}
}
