package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// lastSequence returns the largest sequence in a log.
func lastSequence(log []byte) (last int64) {
	for line := range bytes.Lines(log) {
		var r Record
		if json.Unmarshal(line, &r) == nil {
			last = max(last, r.Sequence)
		}
	}
	return last
}

// localLog returns the newest file of the log, nil without one.
func localLog(root *os.Root) ([]byte, error) {
	b, err := disk.ReadFile(root, logFile, maxLogObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// pullLog takes the log of the bucket if it has later records, and the files put aside that are missing.
func (s *Store) pullLog(ctx context.Context, root *os.Root, model string) error {
	key := model + "/" + logFile
	b, tag, err := s.Bucket.Get(ctx, key, s.mirror.tag(key), maxLogObject)
	if errors.Is(err, fs.ErrNotExist) {
		s.mirror.note(key, "")
		return nil
	}
	if err != nil || b == nil {
		return err
	}
	local, err := localLog(root)
	if err != nil && !isDamage(err) {
		return err
	}
	if err = clearWay(root, logFile); err == nil && lastSequence(b) > lastSequence(local) {
		if err = durable.Create(root, newLog, 0o644, durable.Bytes(b)); err == nil {
			err = durable.Rename(root, newLog, logFile)
		}
	}
	if err == nil && local == nil {
		err = s.pullAside(ctx, root, model)
	}
	if err == nil {
		s.mirror.note(key, tag)
	}
	return err
}

// pullAside takes the files of the log that were put aside.
func (s *Store) pullAside(ctx context.Context, root *os.Root, model string) error {
	keys, err := s.Bucket.List(ctx, model+"/"+logPrefix)
	for _, key := range keys {
		name := strings.TrimPrefix(key, model+"/")
		if _, ok := asideSequence(name); err != nil || !ok {
			continue
		}
		var b []byte
		if b, _, err = s.Bucket.Get(ctx, key, "", maxLogObject); err == nil {
			err = durable.Create(root, name, 0o644, durable.Bytes(b))
		}
	}
	return err
}

// pushLog writes the log to the bucket if that has fewer records. It is written after the aliases, whose conditional
// writes say whose turn it is; a log that another writer continued in between gets what it does not have.
func (s *Store) pushLog(ctx context.Context, root *os.Root, model string) error {
	if s.Bucket == nil {
		return nil
	}
	aside, err := asideLogs(root)
	if err != nil {
		return err
	}
	for _, sequence := range aside {
		key := model + "/" + asideLog(sequence)
		if s.mirror.whole(key) {
			continue
		}
		b, err := disk.ReadFile(root, asideLog(sequence), maxLogObject)
		if err == nil {
			_, err = s.Bucket.PutAbsent(ctx, key, b)
		}
		if err != nil && !errors.Is(err, disk.ErrConflict) {
			return err
		}
		s.mirror.setWhole(key)
	}
	local, err := localLog(root)
	if err != nil || len(local) == 0 {
		return err
	}
	key := model + "/" + logFile
	for tries := 0; ; tries++ {
		err := s.swap(ctx, key, local)
		if !errors.Is(err, disk.ErrConflict) || tries >= maxSwaps {
			return err
		}
		there, tag, err := s.Bucket.Get(ctx, key, "", maxLogObject)
		if err != nil {
			return err
		}
		s.mirror.note(key, tag)
		local = joined(there, local)
	}
}

// maxSwaps is how often a log is written that others write, too.
const maxSwaps = 5

// joined adds to a log the records of another one that are later than its own.
func joined(log, other []byte) []byte {
	last := lastSequence(log)
	for line := range bytes.Lines(other) {
		var r Record
		if json.Unmarshal(line, &r) == nil && r.Sequence > last {
			log = append(log, line...)
		}
	}
	return log
}

// pushDelta writes a delta as a segment of one. It returns ErrConflict if another writer did.
func (s *Store) pushDelta(ctx context.Context, model string, version, sequence int64, frame []byte) error {
	if s.Bucket == nil {
		return nil
	}
	if err := s.putOnce(ctx, DeltaKey(model, version, sequence), frame); err != nil {
		return fmt.Errorf("delta %d in the bucket: %w", sequence, err)
	}
	if err := s.Step("snapshot.object_delta"); err != nil {
		return err
	}
	return s.changeHead(ctx, model)
}

// DeltaKey is the key of a delta in a bucket.
func DeltaKey(model string, version, sequence int64) string {
	return versionKey(model, version, disk.DeltasDir+"/"+disk.SegmentName(sequence))
}

// pullDeltas takes the deltas of a version that follow the last one of the working copy.
func (s *Store) pullDeltas(ctx context.Context, root *os.Root, model string, version, last int64) (more bool,
	err error) {
	if s.Bucket == nil {
		return false, nil
	}
	dir, err := disk.VersionDir(root, version)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	for sequence := last + 1; ; sequence++ {
		b, _, err := s.Bucket.Get(ctx, DeltaKey(model, version, sequence), "", 2*format.MaxDeltaBytes)
		if errors.Is(err, fs.ErrNotExist) {
			return more, nil
		}
		if err == nil {
			err = dir.MkdirAll(disk.DeltasDir, 0o755)
		}
		if err == nil {
			err = durable.Create(dir, disk.DeltasDir+"/"+disk.SegmentName(sequence), 0o644, durable.Bytes(b))
		}
		if err != nil {
			return more, err
		}
		more = true
	}
}

// sweepBucket removes versions from the bucket, and what writers left of others below the newest: each manifest first,
// so that no reader finds a version with some of its files gone.
func (s *Store) sweepBucket(ctx context.Context, model string, newest int64, removed []int64) error {
	if s.Bucket == nil {
		return nil
	}
	keys, err := s.Bucket.List(ctx, model+"/")
	if err != nil {
		return err
	}
	gone, whole := make(map[int64]bool), make(map[int64]bool)
	for _, v := range removed {
		gone[v] = true
	}
	split := func(key string) (int64, string) {
		number, name, _ := strings.Cut(strings.TrimPrefix(key, model+"/"), "/")
		return disk.VersionNumber(number), name
	}
	for _, key := range keys {
		if v, name := split(key); v > 0 && name == disk.ManifestFile {
			if whole[v] = !gone[v]; gone[v] {
				err = errors.Join(err, s.Bucket.Delete(ctx, key))
			}
		}
	}
	for _, key := range keys {
		if v, name := split(key); err == nil && v > 0 && v < newest && !whole[v] && name != disk.ManifestFile {
			err = s.Bucket.Delete(ctx, key)
		}
	}
	return err
}
