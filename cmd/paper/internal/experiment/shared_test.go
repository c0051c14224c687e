package experiment

import (
	"log/slog"
	"time"
)

// quick are the options of a short form.
func quick(data string) Options {
	return Options{Data: data, Quick: true, Threads: 2, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}
