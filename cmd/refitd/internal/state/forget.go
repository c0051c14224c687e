package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// Erasure says whose events a stopped daemon's state has to forget.
type Erasure struct {
	Dir   string        `kong:"-"` // state directory of the model
	Model *config.Model `kong:"-"`
	Field string        `         required:"" placeholder:"FIELD" help:"Field of the events that names the subject: categorical, multi or the identity."`
	Value string        `         required:"" placeholder:"VALUE" help:"The subject."`
	Why   string        `                     placeholder:"TEXT"  help:"Kept in the journal of the state."`
	Log   *slog.Logger  `kong:"-"`
}

// Forget removes what was kept of the subject outside the rows and writes the marker. It takes rows and dead letters
// out, rewrites the files they were in, and reads everything again for the proof. After a crash in between the marker
// is still there, and the next run or Forget continues. Exit code 1 if rows are left, 2 for a field that rows do not
// carry, 5 if the state is in use, 6 without a state.
func (e *Erasure) Forget(ctx context.Context, out *report.Emitter) error {
	if fields := ingest.SubjectFields(e.Model); !slices.Contains(fields, e.Field) {
		return &report.ExitError{Code: report.ExitUsage, Key: "--field",
			Err: fmt.Errorf("state: rows of model %s have no field %q to be found by: --field must be one of %q",
				e.Model.Name, e.Field, fields)}
	}
	if e.Model.Shard.IsShard() {
		return &report.ExitError{Code: report.ExitUsage, Key: "role",
			Err: errors.New(
				"state: this is the state of a shard: forget the subject in that of the trainer, from which all shards take it up",
			)}
	}
	if e.Value == "" {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--value",
			Err:  errors.New("state: --value is empty: name the subject"),
		}
	}
	return withStore(ctx, e.Dir, e.Log, func(store *sketch.Store) error {
		summary, err := e.erase(ctx, store)
		if err != nil {
			return ingest.StateError(err, e.Dir)
		}
		if summary.Versions, err = e.versions(); err != nil {
			return err
		}
		if err := out.Emit("summary", summary); err != nil {
			return err
		}
		if summary.RowsLeft > 0 {
			return &report.ExitError{Code: report.ExitNo, Reported: true}
		}
		return nil
	})
}

// erase changes the state, in an order that a crash at any point leaves to be gone on with.
func (e *Erasure) erase(ctx context.Context, store *sketch.Store) (report.Erasure, error) {
	s := report.Erasure{Model: e.Model.Name, Field: e.Field, Versions: []int64{}}
	// What is stored with the versions goes before the marker, too: no run would look for it.
	var err error
	if s.KeptSamples, err = reproduce.Forget(e.Model.Publish.Store, e.Model.Name, ingest.Names(e.Field,
		e.Value)); err != nil {
		return s, e.storeError(fmt.Errorf("state: nothing was forgotten: %w", err))
	}
	// What the last refit keeps here knows the subject by name. Without it the next run begins with what the rows
	// teach, which loses nothing:
	// so it is removed before the marker is written, after which a run would finish the rest.
	if err := ingest.RemoveLearned(e.Dir); err != nil {
		return s, err
	}
	if _, err := store.ForgetSubject(e.Field, []byte(e.Value)); err != nil {
		return s, err
	}
	forgotten := ingest.Forgotten{Dir: e.Dir, Model: e.Model, Log: e.Log}
	stored, err := forgotten.KeepBoth(store)
	if err != nil {
		return s, err
	}
	if stored != nil {
		return s, e.storeError(fmt.Errorf("state: the subject is marked to be forgotten, but "+
			"that cannot be written down in the store of versions: "+
			"say it again once it can: %w", stored))
	}
	s.Subject = sketch.SubjectHash(e.Field, []byte(e.Value)).String()
	if err := decided(time.Now(), "forget", e.Why, "%s %s", e.Field, s.Subject).write(e.Dir); err != nil {
		return s, err
	}
	if s.Rows, err = ingest.Erase(ctx, e.Model, store); err != nil {
		return s, err
	}
	if s.Letters, err = store.DropOutbox(e.namedBy); err != nil {
		return s, err
	}
	if err := store.Purge(); err != nil {
		return s, err
	}
	if s.RowsLeft, err = ingest.CountRows(e.Model, store, e.Field, e.Value); err != nil {
		return s, err
	}
	if err := store.Check(); err != nil {
		return s, err
	}
	state, err := store.State()
	if err != nil {
		return s, err
	}
	s.State = ingest.StateOf(e.Model.Name, state)
	s.State.Outcomes, err = ingest.OutcomesOf(e.Model, store, nil)
	return s, err
}

// versions returns the published versions that name the subject, in their vocabulary or among their golden events: they
// are not changed, and leave with publish.keep.
func (e *Erasure) versions() (named []int64, err error) {
	named = []int64{}
	store := publish.NewStore(e.Model.Publish.Store)
	versions, err := store.Versions(e.Model.Name)
	if errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return named, nil
	}
	if err != nil {
		return named, e.storeError(
			fmt.Errorf("state: the state has forgotten the subject, but the versions cannot be listed: %w", err))
	}
	for _, version := range versions {
		m, err := snapshot.Trust{
			AllowExpired: true,
		}.Open(e.Model.Publish.Store, e.Model.Name, snapshot.Selector{Version: version})
		if err != nil {
			e.Log.Warn("version cannot be read",
				"note", "whether it names the subject is not known", "version", version, "error",
				err)
			continue
		}
		if e.names(m.Schema(), m.Contents()) {
			named = append(named, version)
		}
	}
	return named, nil
}

// storeError is about the store of versions.
func (e *Erasure) storeError(err error) error {
	return &report.ExitError{Code: report.ExitState, Err: err, Path: e.Model.Publish.Store, Key: "publish.store"}
}

// names reports whether a version knows the subject by name, in its field or in the lists of names of that field.
func (e *Erasure) names(schema *snapshot.Schema, c *format.Contents) bool {
	if e.namesIn(e.Field, schema, c) {
		return true
	}
	if slices.ContainsFunc(c.Tables,
		func(t *format.Table) bool { return t.Of == e.Field && t.Find(e.Value) >= 0 }) {
		return true
	}
	return slices.ContainsFunc(schema.Derived,
		func(d format.Derived) bool { return d.Field == e.Field && e.namesIn(d.Name, schema, c) })
}

func (e *Erasure) namesIn(field string, schema *snapshot.Schema, c *format.Contents) bool {
	f := slices.Index(schema.Named(), field)
	if f >= 0 && f < len(c.Vocabulary) && slices.Contains(c.Vocabulary[f], e.Value) {
		return true
	}
	for i, parts := range schema.Cross { // the pairs of a name that found no room may have found some
		if slices.Contains(parts, field) &&
			slices.ContainsFunc(c.Vocabulary[len(schema.Categorical)+i], func(name string) bool {
				return strings.Contains(format.CrossName("", name, ""), format.CrossName("", e.Value, ""))
			}) {
			return true
		}
	}
	categorical, multi := slices.Index(schema.Categorical, field), slices.Index(schema.Multi, field)
	return slices.ContainsFunc(
		c.Golden,
		func(g format.Golden) bool { // of an event whose names found no room in the vocabulary
			return categorical >= 0 && len(g.Input.Categorical) > categorical &&
				g.Input.Categorical[categorical] == e.Value ||
				multi >= 0 && len(g.Input.Multi) > multi && slices.Contains(g.Input.Multi[multi], e.Value)
		},
	)
}

// namedBy reports whether a dead letter may name the subject, in its key, a header or its value. In values that are not
// text the byte before a name is its length, which may look like a letter.
func (e *Erasure) namedBy(l *sketch.DeadLetter) bool {
	word, has := []byte(e.Value), hasWord
	if e.Model.IsFramed() {
		has = bytes.Contains
	}
	headers, _ := framing.Headers(l.Headers)
	return has(l.Payload, word) || has(l.Key, word) ||
		slices.ContainsFunc(headers, func(h framing.Header) bool { return has(h.Value, word) })
}

// hasWord reports whether text has word with no letter or digit at either side: dead letters hold what could not be
// decoded.
func hasWord(text, word []byte) bool {
	for at := 0; ; at++ {
		i := bytes.Index(text[at:], word)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(word)
		if (at == 0 || !isWordByte(text[at-1])) && (end == len(text) || !isWordByte(text[end])) {
			return true
		}
	}
}

func isWordByte(b byte) bool {
	return b >= 0x80 || strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", b) >= 0
}
