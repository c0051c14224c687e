package vectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/refitd/refitd/snapshot"
)

// setUp makes what is not there; {t} is the table, quoted where it may be a word of SQL. {t}_top finds the best names
// for an event's vector: the index of pgvector or its scan picks candidates by numbers of 4 bytes, which 8 bytes then
// put in order.
const setUp = `
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS refitd_vectors (
	table_name text PRIMARY KEY, model text NOT NULL, version bigint NOT NULL, sequence bigint NOT NULL,
	digest text NOT NULL, over text NOT NULL, class text NOT NULL, dim integer NOT NULL, width integer NOT NULL,
	written timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS "{t}" (
	name text PRIMARY KEY, place bigint, exact float8[] NOT NULL, embedding vector NOT NULL);
CREATE OR REPLACE FUNCTION {t}_wide(v float8[], width integer) RETURNS vector LANGUAGE sql IMMUTABLE AS
	'SELECT (v || array_fill(0::float8, ARRAY[width - cardinality(v)]))::vector';
CREATE OR REPLACE FUNCTION {t}_top(query float8[], of_version bigint, n integer DEFAULT 10)
RETURNS TABLE (name text, score float8, sequence bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE has refitd_vectors;
BEGIN
	SELECT * INTO has FROM refitd_vectors WHERE table_name = '{t}';
	IF has.version IS DISTINCT FROM of_version OR has.dim <> cardinality(query) THEN
		RAISE EXCEPTION 'the query vector is of version % with % numbers, the table {t} has version % with %: ask again',
			of_version, cardinality(query), has.version, has.dim USING ERRCODE = 'invalid_parameter_value';
	END IF;
	RETURN QUERY SELECT c.name, c.score, has.sequence FROM (
		SELECT i.name, i.place, (SELECT sum(a * b) FROM unnest(i.exact, query) AS p(a, b)) AS score FROM "{t}" i
		ORDER BY i.embedding <#> {t}_wide(query, has.width), i.place, i.name COLLATE "C" LIMIT 2 * n + 50) c
	ORDER BY c.score DESC, c.place, c.name COLLATE "C" LIMIT n;
END $$;`

// locking holds off others until the transaction ends: writers of the same table, or, of no table, all that set up.
const locking = `SELECT pg_advisory_xact_lock(hashtextextended('refitd_vectors' || $1, 0))`

// isRefused reports whether trying again is of no use before the next version.
func isRefused(err error) bool { return errors.Is(err, snapshot.ErrInput) }

func (w *Writer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := w.config.Copy()
	if w.Password != nil {
		password, err := w.Password()
		if err != nil {
			return fmt.Errorf("vectors: password_file: %w", err)
		}
		config.Password = cmp.Or(password, config.Password)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	w.conn = conn
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, locking, ""); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, strings.ReplaceAll(setUp, "{t}", w.Table)); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("vectors: tables in %s: %w", w.config.Database, err)
	}
	return nil
}

// write brings the table to a model in one transaction: rows that differ from the model that was written last, or, if
// that is not known, from those of the table.
func (w *Writer) write(ctx context.Context, now *snapshot.Model, v *snapshot.Vectors) (rows int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(w.limit, func() { cancel(errStalled) })
	defer limit.Stop()
	err = pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, locking, " "+w.Table)
		if err == nil {
			_, err = tx.Exec(ctx, "CREATE TEMP TABLE refitd_changed "+
				"(n bigint PRIMARY KEY, name text, place bigint, exact float8[]) ON COMMIT DROP")
		}
		var width int
		if err == nil {
			width, err = w.note(ctx, tx, now, v, limit)
		}
		if err == nil {
			rows, err = w.change(ctx, tx, v, width, limit)
		}
		return err
	})
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		err = errors.Join(cause, err)
	}
	if err != nil {
		return 0, fmt.Errorf("vectors: table %s: %w", w.Table, err)
	}
	w.written = now
	return rows, nil
}

// errStalled ends a transaction of a server that does not answer: what it locked is free once it notices.
var errStalled = errors.New("the database does not move on")

// note writes which version the table has, and returns how many numbers its vectors of pgvector have: as many as the
// longest so far, so that an index stays what it is. If another process has written the table since, all rows are
// written again.
func (w *Writer) note(ctx context.Context, tx pgx.Tx, now *snapshot.Model, v *snapshot.Vectors,
	limit *time.Timer) (width int, err error) {
	var model, digest string
	var version, sequence int64
	err = tx.QueryRow(ctx, "SELECT model, width, version, sequence, digest FROM refitd_vectors WHERE table_name = $1",
		w.Table).Scan(&model, &width, &version, &sequence, &digest)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		w.written = nil
	case err != nil:
		return 0, err
	case model != w.Model:
		return 0, fmt.Errorf("it has the vectors of model %s: choose another (publish.vectors.table)", model)
	}
	if w.written != nil {
		if was := w.written.Position(); was.Version != version || was.Sequence != sequence ||
			w.written.Manifest().Digest != digest {
			w.Log.Warn("another process writes the vectors of this model", "table", w.Table, "version", version,
				"delta", sequence)
			w.written = nil
		}
	}
	if v.Dim() > width {
		width = v.Dim()
		limit.Reset(widenTimeout)
		if _, err := tx.Exec(ctx, fmt.Sprintf(
			`ALTER TABLE "%s" ALTER COLUMN embedding TYPE vector(%d) USING %[1]s_wide(exact, %[2]d)`,
			w.Table, width)); err != nil {
			return 0, err
		}
	}
	limit.Reset(w.limit)
	at := now.Position()
	_, err = tx.Exec(ctx, `INSERT INTO refitd_vectors VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (table_name) DO UPDATE SET (version, sequence, digest, over, class, dim, width, written) =
		($3, $4, $5, $6, $7, $8, $9, now())`,
		w.Table, w.Model, at.Version, at.Sequence, now.Manifest().Digest, w.Over, w.Class, v.Dim(), width)
	return width, err
}

// change writes the rows and returns how many were changed or removed.
func (w *Writer) change(ctx context.Context, tx pgx.Tx, v *snapshot.Vectors, width int,
	limit *time.Timer) (rows int64, err error) {
	var before *snapshot.Vectors
	if w.written != nil {
		if before, err = w.written.Vectors(w.Over, w.Class); err != nil {
			return 0, err
		}
	}
	next, stop := iter.Pull(changed(before, v))
	defer stop()
	var sent int64
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"refitd_changed"}, []string{"n", "name", "place", "exact"},
		pgx.CopyFromFunc(func() ([]any, error) {
			row, ok := next()
			if !ok {
				return nil, nil
			}
			if sent++; sent%rowsEach == 0 {
				limit.Reset(w.limit)
			}
			return append([]any{sent}, row...), nil
		}))
	for from := int64(0); err == nil && from < sent; from += rowsEach {
		limit.Reset(w.limit)
		var written pgconn.CommandTag
		written, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO "%s" AS t
			SELECT name, place, exact, %[1]s_wide(exact, %d) FROM refitd_changed
			WHERE n > %d AND n <= %d AND exact IS NOT NULL ON CONFLICT (name) DO UPDATE SET
			(place, exact, embedding) = (excluded.place, excluded.exact, excluded.embedding)
			WHERE (t.place, t.exact) IS DISTINCT FROM (excluded.place, excluded.exact)`,
			w.Table, width, from, from+rowsEach))
		rows += written.RowsAffected()
	}
	if err != nil {
		return 0, err
	}
	limit.Reset(w.limit)
	gone := "t.name IN (SELECT name FROM refitd_changed WHERE exact IS NULL)"
	if before == nil {
		gone = "NOT EXISTS (SELECT FROM refitd_changed c WHERE c.name = t.name)"
	}
	removed, err := tx.Exec(ctx, fmt.Sprintf(`DELETE FROM "%s" t WHERE %s`, w.Table, gone))
	limit.Reset(w.limit) // for the commit
	return rows + removed.RowsAffected(), err
}

// changed returns name, place and vector of the names that differ from those before, nil for all; those that are gone
// have no vector. Names that the table cannot have are left out.
func changed(before, now *snapshot.Vectors) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		var old, vector []float64
		var scratch snapshot.Scratch
		if before != nil {
			before.Names(func(name string, _ int) bool {
				return now.Has(name) || !fits(name) || yield([]any{name, nil, nil})
			})
		}
		now.Names(func(name string, place int) bool {
			vector = now.Name(vector[:0], name, &scratch)
			if before != nil && before.Has(name) && before.IsPlaced(name) == (place >= 0) {
				if old = before.Name(old[:0], name, &scratch); slices.Equal(old, vector) {
					return true
				}
			}
			row := []any{name, nil, vector}
			if place >= 0 {
				row[1] = int64(place)
			}
			return !fits(name) || yield(row)
		})
	}
}

// maxNameBytes is what an index of PostgreSQL has room for: of pages of 8 KiB, 2704 bytes for a key with its header.
const maxNameBytes = 2600

// fits reports whether a name can be a key of PostgreSQL: one that cannot would keep out all others.
func fits(name string) bool {
	return len(name) <= maxNameBytes && utf8.ValidString(name) && !strings.Contains(name, "\x00")
}
