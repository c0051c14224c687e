package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines returns what was written as one object for each line.
func lines(t *testing.T, b *bytes.Buffer) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, m)
	}
	b.Reset()
	return out
}

func TestRepeatedLinesAreCounted(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(1000, 0)
	log := slog.New(NewHandler(slog.NewJSONHandler(&b, nil), func() time.Time { return now }))
	one, other := log.With("model", "a"), log.WithGroup("g").With("model", "b")
	for i := range 100 {
		one.Warn("again", "i", i)
		other.Warn("again", "i", i)
		if i == 50 {
			one.Error("once")
		}
	}
	got := lines(t, &b)
	if len(got) != Burst+1 || got[Burst]["msg"] != "once" || got[0]["model"] != "a" || got[1]["g"] == nil {
		t.Errorf("%d lines: %v", len(got), got)
	}
	now = now.Add(Window)
	one.Warn("again")
	one.Info("again") // another level is another line
	one.Warn("again")
	got = lines(t, &b)
	if len(got) != 3 || got[0]["suppressed"] != float64(200-Burst) || got[1]["suppressed"] != nil ||
		got[2]["suppressed"] != nil {
		t.Errorf("after a window %v", got)
	}
	one.Debug("not enabled")
	if b.Len() > 0 {
		t.Error("a line below the level")
	}
}

// TestFlood (D16): a flood of lines, of whatever kinds, is at most ten lines a second.
func TestFlood(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(1000, 0)
	log := slog.New(NewHandler(slog.NewJSONHandler(&b, nil), func() time.Time { return now }))
	const seconds = 100
	for range seconds * 1000 {
		now = now.Add(time.Millisecond)
		for kind := range 5 {
			log.Warn(fmt.Sprintf("kind %d", kind))
		}
	}
	if n := len(lines(t, &b)); n > 10*seconds || n < 5*seconds {
		t.Errorf("%d lines in %d seconds", n, seconds)
	}
	for i := range 10 * maxMessages { // messages that are not constants are no way out
		log.Warn(fmt.Sprintf("message %d", i))
	}
	if n := len(lines(t, &b)); n > maxMessages+Burst {
		t.Errorf("%d lines", n)
	}
}

// TestInjection (D15): whatever a field holds, it is one line of text, which parses, and no field is long.
func TestInjection(t *testing.T) {
	hostile := []string{
		"a\nlevel=ERROR msg=forged",
		"\x1b[2J\x1b[31mred",
		"\r\n\r\nGET / HTTP/1.1",
		"\u202egnp",
		"\x00",
		"\xff\xfe",
		strings.Repeat("x", 1<<20),
		strings.Repeat("ü", 1<<19),
		`"}{"msg":"forged"}`,
		"\u2028",
	}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		for _, text := range hostile {
			var b bytes.Buffer
			log := slog.New(NewHandler(handler(&b), time.Now))
			log.With("with", text).
				Warn(text, "field", text, "error", errors.New(text), slog.Group("g", "inner", text), "number", 7)
			out := b.String()
			if strings.Count(out, "\n") != 1 || strings.ContainsAny(strings.TrimSuffix(out, "\n"), "\r\n\x1b\x00") ||
				len(out) > 20*MaxFieldBytes {
				t.Errorf("%s: %.20q became %d bytes: %.200q", name, text, len(out), out)
			}
			if name == "json" {
				m := lines(t, &b)[0]
				for _, field := range []string{"msg", "with", "field"} {
					if s, ok := m[field].(string); !ok || len(s) > MaxFieldBytes {
						t.Errorf("%s: field %s of %.20q has %d bytes", name, field, text, len(s))
					}
				}
				if m["number"] != 7.0 || len(m["error"].(string)) > maxErrorBytes {
					t.Errorf("line %v", m)
				}
			}
		}
	}
}

func TestConcurrentLines(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewHandler(slog.NewJSONHandler(&b, nil), time.Now))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				log.Warn("again")
			}
		})
	}
	wg.Wait()
	if n := len(lines(t, &b)); n != Burst {
		t.Errorf("%d lines", n)
	}
}

// FuzzShort: a text that is cut is at most as long as it may be and stays UTF-8 if it was.
func FuzzShort(f *testing.F) {
	f.Add("ü🙈", 5)
	f.Add("\xff\xfe\xfd\xfc", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 3 + max(limit, -limit, 0)%300
		got := short(s, limit)
		if len(got) > limit || len(s) <= limit && got != s {
			t.Errorf("%q cut to %q, at most %d bytes", s, got, limit)
		}
	})
}
