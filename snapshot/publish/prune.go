package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// Retention says which versions are kept. One that an alias names always is, and so is the newest.
type Retention struct {
	Keep   int           // the newest versions kept of each kind, at least 1: many updates do not push the refits out
	MaxAge time.Duration // versions created longer ago go too; 0 for no limit
	DryRun bool          // remove nothing, only say what would be
}

// maxPruned bounds what one call removes, so that its record in the log stays a line of moderate length.
const maxPruned = 1000

// Prune removes versions, oldest first, at most 1000 at a time, writes that into the publish log and returns them.
// Readers that have files of a removed version open can read them to the end.
func (s *Store) Prune(ctx context.Context, model string, keep Retention) (removed []int64, err error) {
	err = s.withModel(ctx, model, false, func(root *os.Root, last Numbers) error {
		due, err := s.prunable(root, model, keep)
		if err != nil || len(due) == 0 {
			return err
		}
		if keep.DryRun {
			removed = due
			return nil
		}
		for _, v := range due {
			// Renamed first, so that no reader finds a version with some of its files gone.
			name := strconv.FormatInt(v, 10)
			if err = errors.Join(ctx.Err(), root.Rename(name, staging+name)); err != nil {
				break
			}
			removed = append(removed, v)
			if err = errors.Join(s.Step("snapshot.pruned"), root.RemoveAll(staging+name)); err != nil {
				break
			}
		}
		if len(removed) > 0 {
			err = errors.Join(err, durable.SyncDir(root),
				s.commit(ctx, root, model, last, &Record{Event: EventPrune, Removed: removed}, nil),
				s.sweepBucket(ctx, model, last.Version, removed))
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("snapshot: prune %s: %w", model, err)
	}
	return removed, nil
}

// prunable lists the versions that may go.
func (s *Store) prunable(root *os.Root, model string, keep Retention) ([]int64, error) {
	versions, err := disk.NumbersIn(root)
	if err != nil {
		return nil, err
	}
	if versions = slices.DeleteFunc(versions, func(v int64) bool { return !disk.IsVersion(root, v) }); len(versions) == 0 {
		return nil, nil
	}
	aliases, odd, err := aliasesIn(root, model)
	if err != nil {
		return nil, err
	}
	logged, err := standingAliases(root)
	if err != nil {
		return nil, err
	}
	for _, f := range odd { // the version that a damaged alias names must not go
		if isDamaged(f.Path, logged) {
			return nil, fmt.Errorf("alias %s is damaged, and the version that it names is not known: set it again: %w",
				f.Path, f.Err)
		}
	}
	now, kept := s.Now(), map[string]int{}
	var due []int64
	for i, v := range slices.Backward(versions) {
		kind, expired := "", false // of a directory that is being copied, or was damaged, neither is known
		dir, m, err := verify.OpenVersion(root, model, v, s.Keys)
		if errors.Is(err, disk.ErrSignature) {
			continue // neither counted nor removed: it is not what this writer published
		}
		if err == nil {
			kind, expired = m.Kind, keep.MaxAge > 0 && now.Sub(m.Created) > keep.MaxAge
			if err := dir.Close(); err != nil {
				return nil, err
			}
		}
		kept[kind]++
		aliased := slices.ContainsFunc(aliases, func(a namedPointer) bool { return a.Version == v })
		if i < len(versions)-1 && !aliased && (expired || kept[kind] > max(keep.Keep, 1)) {
			due = append(due, v)
		}
	}
	slices.Reverse(due)
	return due[:min(len(due), maxPruned)], nil
}
