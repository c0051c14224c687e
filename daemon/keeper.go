package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/space"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// failuresFile lists, in the state directory, when storage errors ended the daemon: one RFC 3339 time a line.
const failuresFile = "storage-errors"

// A disk that fails again and again is not tried for ever: every try may write to it.
const (
	maxFailures   = 3
	failureWindow = 10 * time.Minute
)

// committedTimeout bounds the question for the group's offsets.
const committedTimeout = 5 * time.Second

// keeper looks after the state of one model: the space it needs, what its witnesses say, and how often its storage has failed.
type keeper struct {
	*space.Guard
	dir       string
	empty     bool           // the state was when it was opened
	fresh     bool           // it still is, and nobody has asked the group
	rollbacks int64          // offsets that were applied once and have to be read again
	published []snapshot.Cut // of the newest version in the store
}

// openState opens the store of a unit, unless its storage has failed too often.
func (u *unit) openState(ctx context.Context) (err error) {
	options := ingest.StoreOptions(u.config)
	options.Dir, options.Logger = u.daemon.config.StatePath(u.config), u.log
	options.MinFreeBytes, options.AllowNetwork = int64(u.daemon.config.Storage.MinFreeBytes), u.daemon.config.Storage.AllowNetwork
	if letters := &u.config.Input.DeadLetter; letters.Topic != "" {
		options.OutboxRows = letters.MaxRows
	}
	u.keeper = &keeper{Guard: space.New(options.Dir, options.MinFreeBytes, u.log), dir: options.Dir}
	if err := failedOften(options.Dir, time.Now()); err != nil {
		return err
	}
	if u.daemon.CheckState != nil {
		if err := u.daemon.CheckState(ctx, options.Dir); err != nil {
			return ingest.StateError(err, options.Dir)
		}
	}
	if err := ingest.CheckSchema(options.Dir, u.config); err != nil {
		return ingest.StateError(err, options.Dir)
	}
	if u.store, err = sketch.Open(ctx, options); err != nil {
		return ingest.StateError(err, options.Dir)
	}
	if rows, err := ingest.Erase(ctx, u.config, u.store); err != nil {
		return ingest.StateError(err, options.Dir)
	} else if rows > 0 {
		u.log.Warn("rows of forgotten subjects were still in the state, and are out now", "rows", rows)
	}
	u.Look()
	u.keeper.empty = len(u.store.Ledger()) == 0
	u.keeper.fresh = u.keeper.empty
	for _, r := range u.store.Rollbacks() {
		u.rollbacks += r.Offsets()
	}
	return nil
}

// compare looks at the newest version in the store, which is a witness outside the state directory: an older copy of that directory brings
// its own WITNESS along.
func (u *unit) compare() {
	store := u.versions.Store()
	if store == nil {
		return
	}
	latest, err := store.Alias(u.config.Name, snapshot.Latest)
	version := latest.Version
	if err != nil {
		return // nothing was published, or what there is cannot be read, which the first publication says
	}
	manifest, err := store.Manifest(u.config.Name, version)
	if err != nil {
		u.log.Warn("newest version cannot be read: state is not compared with it", "version", version, "error", err)
		return
	}
	u.keeper.published = manifest.Cut
	behind := int64(0)
	incarnation := make(map[string]uint32)
	for _, l := range u.store.Ledger() {
		incarnation[l.Topic] = max(incarnation[l.Topic], l.Incarnation)
	}
	for _, c := range manifest.Cut {
		if incarnation[c.Topic] > 0 {
			continue // which topic of that name was cut is not said
		}
		if next, ok := u.store.Position(c.Topic, c.Partition); ok && next < c.Next {
			behind += c.Next - next
			u.log.Warn("state is behind the newest version: offsets are read again before the next one is published",
				"topic", c.Topic, "partition", c.Partition, "next", next, "published", c.Next, "version", version)
		}
	}
	u.rollbacks = max(u.rollbacks, behind)
}

// behindPublished says where the state, or the cut of a refit that was taken before the state had caught up, is behind the newest version, or
// is empty: published cuts only grow. cut is nil for an update. A log that ends below a cut is not the one that was cut.
func (u *unit) behindPublished(cut []report.Cut) string {
	ends := make(map[string]int64)
	for _, p := range u.consumer.Status().Partitions {
		ends[fmt.Sprint(p.Topic, "/", p.Partition)] = p.HighWatermark
	}
	for _, c := range u.keeper.published {
		if !slices.Contains(u.config.Input.Topics, c.Topic) {
			continue
		}
		name := fmt.Sprint(c.Topic, "/", c.Partition)
		next, _ := u.store.Position(c.Topic, c.Partition)
		for _, own := range cut {
			if own.Topic == c.Topic && own.Partition == c.Partition {
				next = min(next, own.Next)
			}
		}
		if end, known := ends[name]; next < c.Next && !(known && end >= 0 && end < c.Next) {
			return fmt.Sprintf("%s is at offset %d, the newest version was cut at %d", name, next, c.Next)
		}
	}
	if cut != nil {
		u.keeper.published = nil // caught up, and so are the cuts of later refits
	}
	return ""
}

// witness writes down how far the state has come. A full disk is the guard's to tell.
func (u *unit) witness() error {
	if err := u.store.Witness(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return u.storageError(err)
	}
	return nil
}

// begin stores where a partition starts. A state that is empty while the group of the daemon has offsets was lost, and reading on at the
// start policy's offset could skip what the lost state had not read.
func (u *unit) begin(topic string, partition int32, offset int64) error {
	if err := u.lostState(); err != nil {
		return err
	}
	return u.store.Begin(topic, partition, offset)
}

// storageError counts a storage error and gives it its exit code.
func (u *unit) storageError(err error) error {
	if errors.Is(err, sketch.ErrStorage) {
		if noteErr := noteFailure(u.dir, time.Now()); noteErr != nil {
			u.log.Error("storage error not written down", "error", noteErr)
		}
	}
	return ingest.StateError(err, u.dir)
}

// noteFailure appends the time of a storage error, as well as a failing disk allows.
func noteFailure(dir string, now time.Time) error {
	f, err := os.OpenFile(filepath.Join(dir, failuresFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, report.Time(now))
	return errors.Join(err, f.Sync(), f.Close())
}

// failedOften refuses a state whose storage failed maxFailures times within failureWindow.
func failedOften(dir string, now time.Time) error {
	path := filepath.Join(dir, failuresFile)
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &report.ExitError{Code: report.ExitState, Err: fmt.Errorf("daemon: user id %d: %w", os.Geteuid(), err), Path: path}
	}
	recent := 0
	for line := range strings.Lines(string(text)) {
		at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(line))
		if age := now.Sub(at); err == nil && age >= 0 && age < failureWindow { // a clock that was set back does not keep the daemon down
			recent++
		}
	}
	if recent < maxFailures {
		return nil
	}
	return &report.ExitError{Code: report.ExitState, Path: path,
		Err: fmt.Errorf("daemon: %s: storage error %d times in %v: check the disk, then remove this file or wait", path, recent, failureWindow)}
}

// lostState refuses to begin the first partition of an empty state whose group has offsets, unless that was asked for. Models that read a
// topic together show their offsets in the same group: then only all of them could have lost their state.
func (u *unit) lostState() error {
	if !u.keeper.fresh {
		return nil
	}
	u.keeper.fresh = false
	if u.daemon.StartFresh {
		return nil
	}
	for _, other := range u.daemon.units {
		if other != u && !other.empty && slices.ContainsFunc(other.config.Input.Topics, func(t string) bool { return slices.Contains(u.config.Input.Topics, t) }) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), committedTimeout)
	defer cancel()
	committed, err := u.consumer.Committed(ctx)
	if err != nil {
		u.log.Warn("offsets of the group cannot be read: state is taken for new", "error", err)
		return nil
	}
	for tp, offset := range committed {
		group := u.daemon.config.Kafka.GroupID
		return &report.ExitError{Code: report.ExitState, Topic: tp.Topic, Partition: &tp.Partition, Offset: &offset, Path: u.dir, Key: "--start-fresh",
			Err: fmt.Errorf("daemon: %s: state is empty but group %s has offsets (%s: %d): restore a backup, run refitd rebuild, or start with --start-fresh",
				u.dir, group, tp, offset)}
	}
	return nil
}
