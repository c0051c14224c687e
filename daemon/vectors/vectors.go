// Package vectors keeps a table of PostgreSQL in step with the version that consumers have: a row for each name of a
// field, whose vector of pgvector gives a pair's value by an inner product. A delta writes the rows that it changes, in
// one transaction with the version and the place in its chain. Nothing waits for the database: while it is away the
// daemon publishes on, and afterwards the table is compared with the newest version as a whole. A transaction takes as
// long as it moves on.
package vectors

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	lookEvery      = 100 * time.Millisecond // for another version or delta
	connectTimeout = 10 * time.Second       // of signing in and making the tables
	stepTimeout    = time.Minute            // of up to rowsEach rows, or of another statement
	widenTimeout   = 15 * time.Minute       // of vectors with more numbers, and their index, of a million names
	rowsEach       = 5000
	minBackoff     = time.Second
	maxBackoff     = time.Minute
)

// Options of a Writer. All but Class are required.
type Options struct {
	Model string
	URL   string // of PostgreSQL, without a password
	// Password is asked for with each connection; empty is for what the URL leaves out. Nil is empty.
	Password func() (string, error)
	Table    string // a name of lower-case letters, digits and '_'
	Over     string // categorical field whose names are written
	Class    string // of a model with several outputs
	// OnResult is called after each attempt to write: with the rows written, or with an error.
	OnResult func(rows int64, err error)
	Log      *slog.Logger
}

// Writer writes the vectors of one model. Make it with New and call Run, once at a time. Trouble is safe for concurrent
// use.
type Writer struct {
	Options
	config  *pgx.ConnConfig
	limit   time.Duration   // stepTimeout
	conn    *pgx.Conn       // nil without a connection
	written *snapshot.Model // what the table has; nil is not known
	trouble atomic.Pointer[string]
}

// New returns a writer, which connects when it runs. What the URL leaves out comes from the PG* variables of libpq. The
// error is one of the URL.
func New(o Options) (*Writer, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "refitd"
	return &Writer{Options: o, config: config, limit: stepTimeout}, nil
}

// Trouble says why the table is not in step, empty if it is.
func (w *Writer) Trouble() string {
	if text := w.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

// Run writes what published returns, nil for nothing, until ctx is done. A failure is reported to OnResult, logged once
// until it is over, and tried again. A model without vectors is left out until the next version.
func (w *Writer) Run(ctx context.Context, published func() *snapshot.Model) {
	defer w.disconnect()
	defer w.trouble.Store(nil) // another trainer may lead now
	var refused *snapshot.Model
	for failures := 0; ctx.Err() == nil; {
		pause := lookEvery
		if now := published(); now != nil && now != w.written && now != refused {
			rows, err := w.step(ctx, now)
			if err != nil && ctx.Err() != nil {
				return
			}
			w.OnResult(rows, err)
			switch {
			case err == nil:
				failures, refused = 0, nil
			case isRefused(err):
				failures, refused = 0, now
			default:
				failures++
				pause = backoff.Wait(failures, minBackoff, maxBackoff)
			}
			w.report(now, err)
		}
		_ = backoff.Sleep(ctx, pause) // the end is looked for above
	}
}

// step brings the table to a model and returns how many rows were changed.
func (w *Writer) step(ctx context.Context, now *snapshot.Model) (rows int64, err error) {
	v, err := now.Vectors(w.Over, w.Class)
	if err != nil {
		return 0, err
	}
	if w.written != nil && w.written.Manifest().Digest != now.Manifest().Digest {
		w.written = nil
	}
	if w.conn == nil {
		err = w.connect(ctx)
	}
	if err == nil {
		rows, err = w.write(ctx, now, v)
	}
	if err != nil {
		w.disconnect()
	}
	return rows, err
}

// report notes and logs what came of a step.
func (w *Writer) report(now *snapshot.Model, err error) {
	at := now.Position()
	if err == nil {
		if w.trouble.Swap(nil) != nil {
			w.Log.Info("vectors are in step again", "table", w.Table, "version", at.Version, "delta", at.Sequence)
		}
		return
	}
	text := err.Error()
	if last := w.trouble.Swap(&text); last == nil {
		w.Log.Error("vectors not written: tried again until they are", "table", w.Table, "version", at.Version,
			"error", err)
	}
}

// disconnect ends the connection. What the table has is then not known any more.
func (w *Writer) disconnect() {
	if w.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.conn.Close(ctx) // whether or not the server hears of it
	}
	w.conn, w.written = nil, nil
}
