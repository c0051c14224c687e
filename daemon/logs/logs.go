// Package logs keeps the log of a daemon readable whatever happens: a line that is repeated is printed a few times and
// then counted, and no field of a line is long. Escaping is the business of the handlers of log/slog, which put each
// line into one line of text.
package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// Burst is how often the same line is printed in each Window: two a second, which leaves room for several models'
	// decisions and for several kinds of trouble at once within ten lines a second.
	Burst = 20
	// Window is the time over which lines are counted.
	Window = 10 * time.Second
	// MaxFieldBytes bounds a text field.
	MaxFieldBytes = 256
	maxErrorBytes = 1024 // of the fields that explain: errors and reasons are for people to act on
	maxMessages   = 1000 // messages that are counted; they are constants, so that there are no more unless one is not
)

// Handler passes on at most Burst records of the same level and message in each Window. The first of the next window
// has the number of those that were left out, as the field suppressed. It is safe for concurrent use.
type Handler struct {
	next   slog.Handler
	counts *counts
}

// counts are shared by the handlers that With made of one another.
type counts struct {
	now func() time.Time

	mu  sync.Mutex
	all map[key]*count
}

type key struct {
	level   slog.Level
	message string
}

type count struct {
	began      time.Time
	printed    int
	suppressed int
}

// NewHandler returns a handler in front of another one. now is the clock.
func NewHandler(next slog.Handler, now func() time.Time) *Handler {
	return &Handler{next: next, counts: &counts{now: now, all: make(map[key]*count)}}
}

// Enabled asks the handler behind.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes a record on, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	left, ok := h.counts.take(key{r.Level, r.Message})
	if !ok {
		return nil
	}
	out := slog.NewRecord(r.Time, r.Level, short(r.Message, MaxFieldBytes), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(shortAttr(a))
		return true
	})
	if left > 0 {
		out.AddAttrs(slog.Int("suppressed", left))
	}
	return h.next.Handle(ctx, out)
}

// WithAttrs returns a handler that adds fields and shares the counts.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	bounded := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		bounded[i] = shortAttr(a)
	}
	return &Handler{next: h.next.WithAttrs(bounded), counts: h.counts}
}

// WithGroup returns a handler that groups what follows and shares the counts.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), counts: h.counts}
}

// take reports whether a line may be printed, and how many like it were not before.
func (c *counts) take(k key) (suppressed int, ok bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.all[k]
	if n == nil {
		if len(c.all) >= maxMessages {
			k = key{}
			n = c.all[k]
		}
		if n == nil {
			n = &count{began: now}
			c.all[k] = n
		}
	}
	if now.Sub(n.began) >= Window {
		suppressed = n.suppressed
		*n = count{began: now}
	}
	if n.printed >= Burst {
		n.suppressed++
		return 0, false
	}
	n.printed++
	return suppressed, true
}

func shortAttr(a slog.Attr) slog.Attr {
	limit := MaxFieldBytes
	switch a.Key {
	case "error", "reason":
		limit = maxErrorBytes
	}
	switch a.Value = a.Value.Resolve(); a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(short(a.Value.String(), limit))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(short(err.Error(), limit))
		}
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(a.Value.Group()))
		for _, inner := range a.Value.Group() {
			group = append(group, shortAttr(inner))
		}
		a.Value = slog.GroupValue(group...)
	}
	return a
}

// short cuts a text to at most limit bytes, between two characters, and marks the cut.
func short(s string, limit int) string {
	const cut = "…"
	if len(s) <= limit {
		return s
	}
	n := limit - len(cut)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cut
}
