package web

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
)

// quoted matches what the parser of the file with TLS and authentication quotes of it: values of a wrong type, and
// names of anchors.
var quoted = regexp.MustCompile("(?s)`.*?` into|anchor '.*?' ")

// redacted takes the place of a value which may have been a password, its hash or a key.
const redacted = "<redacted>"

// withoutValues returns an error of reading that file without what it quotes of it.
func withoutValues(err error) error {
	if err == nil || !quoted.MatchString(err.Error()) {
		return err
	}
	return errors.New(quoted.ReplaceAllLiteralString(err.Error(), redacted+" "))
}

// withoutQuotes is a handler of log lines that hides what they quote of that file: the toolkit reads it again for each
// request.
type withoutQuotes struct{ slog.Handler }

// Handle passes a record on without quotes.
func (h withoutQuotes) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, quoted.ReplaceAllLiteralString(r.Message, redacted+" "), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value = a.Value.Resolve(); a.Value.Kind() != slog.KindGroup {
			if text := a.Value.String(); quoted.MatchString(text) {
				a.Value = slog.StringValue(quoted.ReplaceAllLiteralString(text, redacted+" "))
			}
		}
		out.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs returns such a handler with more fields.
func (h withoutQuotes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutQuotes{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns such a handler that groups what follows.
func (h withoutQuotes) WithGroup(name string) slog.Handler {
	return withoutQuotes{h.Handler.WithGroup(name)}
}
