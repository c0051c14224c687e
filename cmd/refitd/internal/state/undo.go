package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// recreatedPartition means all partitions of a topic that was made anew.
const recreatedPartition = -1

// An acceptance is a line of config.AcceptedFile: what it changed, so that it can be undone until the next start of the
// daemon removes the file.
type acceptance struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"` // recreatedPartition for all of a topic that was made anew
	Change    *sketch.Change `json:"change"`
}

// undoably calls accept and writes down, before it is stored, what that changes.
func (g *Gap) undoably(store *sketch.Store, accept func() error) error {
	all, err := accepted(g.Dir)
	if err != nil {
		return err
	}
	return store.Recorded(func(c *sketch.Change) error {
		return writeAccepted(g.Dir, append(all, acceptance{g.Topic, g.Partition, c}))
	}, accept)
}

func accepted(dir string) (all []acceptance, err error) {
	text, err := os.ReadFile(filepath.Join(dir, config.AcceptedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	for line := range bytes.Lines(text) {
		var a acceptance
		if err := json.Unmarshal(line, &a); err != nil || a.Change == nil {
			return nil, fmt.Errorf("state: %s cannot be read: remove it, nothing can be undone then: %w",
				filepath.Join(dir, config.AcceptedFile), err)
		}
		all = append(all, a)
	}
	return all, nil
}

func writeAccepted(dir string, all []acceptance) error {
	var text []byte
	for i := range all {
		line, err := json.Marshal(&all[i])
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		text = append(append(text, line...), '\n')
	}
	return durable.WriteFile(filepath.Join(dir, config.AcceptedFile), 0o600, durable.Bytes(text))
}

// Undo takes back the last acceptance of the partition, or with Recreated of the topic, since the last start of the
// daemon. Exit code 1 if nothing was accepted or the state was changed by something else since, 5 if the state is in
// use, 6 without a state.
func (g *Gap) Undo(ctx context.Context, out *report.Emitter) error {
	if g.Recreated {
		g.Partition = recreatedPartition
	}
	if err := withStore(ctx, g.Dir, g.Log, g.undo); err != nil {
		return err
	}
	return withStore(ctx, g.Dir, g.Log, func(store *sketch.Store) error {
		for _, l := range store.Ledger() {
			if l.Topic != g.Topic || !g.Recreated && l.Partition != g.Partition {
				continue
			}
			line := report.Undone{
				Model:       g.Model,
				Topic:       l.Topic,
				Partition:   l.Partition,
				Incarnation: l.Incarnation,
				Next:        l.Next,
				Halted:      l.Halted,
			}
			if err := out.Emit("undone", line); err != nil {
				return err
			}
		}
		return out.Emit("summary", report.Empty{})
	})
}

func (g *Gap) undo(store *sketch.Store) error {
	all, err := accepted(g.Dir)
	if err != nil {
		return ingest.StateError(err, g.Dir)
	}
	no := func(format string, args ...any) error {
		e := &report.ExitError{Code: report.ExitNo, Key: "--undo", Topic: g.Topic, Err: fmt.Errorf(format, args...)}
		if !g.Recreated {
			e.Partition = &g.Partition
		}
		return e
	}
	at := len(all) - 1
	for at >= 0 && (all[at].Topic != g.Topic || all[at].Partition != g.Partition) {
		at--
	}
	if at < 0 {
		return no(
			"state: nothing to undo: no such acceptance since the last start of the daemon, which makes them final")
	}
	err = store.Undoable(all[at].Change)
	if errors.Is(err, sketch.ErrChanged) {
		return no(
			"state: cannot be undone: %w, by another acceptance, which has to be undone first, or by refitd state forget",
			err,
		)
	}
	what := fmt.Sprintf("%s/%d: acceptance undone", g.Topic, g.Partition)
	if g.Recreated {
		what = fmt.Sprintf("topic %s was made anew: acceptance undone", g.Topic)
	}
	if err == nil {
		err = decided(time.Now(), "accept-gap --undo", g.Why, "%s", what).write(g.Dir)
	}
	if err == nil {
		err = store.Undo(all[at].Change)
	}
	if err == nil {
		err = writeAccepted(g.Dir, slices.Delete(all, at, at+1))
	}
	if err != nil {
		return ingest.StateError(err, g.Dir)
	}
	return nil
}
