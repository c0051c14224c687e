package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// Chain appends deltas to a version of a store, for one goroutine at a time. A second writer, of this process or
// another, is noticed.
type Chain struct {
	store    *Store
	model    string
	base     format.Manifest
	last     int64  // sequence of the newest delta, 0 before the first
	previous string // its digest, or that of the base
	segment  int64  // that is appended to, by its first sequence; 0 before there is one
	size     int64  // bytes of it
}

// OpenChain continues the deltas of a version, or begins them. What a killed writer left of a delta is cut off. It
// returns ErrNotFound, ErrSignature, ErrDigest or ErrFormat: a chain that is damaged further back, or whose end
// Store.Keys did not sign, is not continued. The next deltas then belong to another version.
func (s *Store) OpenChain(ctx context.Context, model string, version int64) (*Chain, error) {
	c := &Chain{store: s, model: model}
	err := s.locked(ctx, model, deltaLockFile, false, func(root *os.Root) error {
		dir, manifest, err := verify.OpenVersion(root, model, version, s.Keys)
		if err != nil {
			return err
		}
		defer dir.Close()
		c.base, c.previous = manifest, manifest.Digest
		if err := c.recoverIn(dir); err != nil {
			return err
		}
		more, err := s.pullDeltas(ctx, root, model, version, c.last)
		if err != nil || !more {
			return err
		}
		return c.recoverIn(dir)
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: deltas of %s version %d: %w", model, version, err)
	}
	return c, nil
}

// Store returns the store that the chain is in.
func (c *Chain) Store() *Store { return c.store }

// Sequence returns the number of the newest delta, 0 before the first. The next one is one more.
func (c *Chain) Sequence() int64 { return c.last }

// Previous returns the digest of the newest delta, before the first that of the version's manifest: what the next delta
// has to name.
func (c *Chain) Previous() string { return c.previous }

// Append writes the next delta of the chain, as Delta.Encode made it. It is durable when Append returns nil; with an
// error, readers may have seen it, and the chain can be continued unless the error is ErrConflict: somebody else
// appends to the chain, or its files were changed. ErrChain is a delta that does not follow the newest one,
// ErrNotFound that the version was pruned.
func (c *Chain) Append(ctx context.Context, frame []byte) error {
	d, err := format.DecodeDeltaHeader(frame, c.store.Keys)
	if err == nil {
		err = c.follows(d)
	}
	if err == nil {
		err = c.store.locked(ctx, c.model, deltaLockFile, false,
			func(root *os.Root) error { return c.write(ctx, root, frame, d.Sequence) })
	}
	if err != nil {
		return fmt.Errorf("snapshot: delta of %s version %d: %w", c.model, c.base.Version, err)
	}
	c.last, c.previous = d.Sequence, d.Digest
	return nil
}

// follows returns ErrChain unless a delta is the next one.
func (c *Chain) follows(d *format.Delta) error {
	if d.Model != c.model || d.Base != c.base.Version || d.BaseDigest != c.base.Digest || d.Sequence != c.last+1 ||
		d.Previous != c.previous {
		return fmt.Errorf("%w: delta %d of %s version %d (%s) after %s, want delta %d of version %d (%s) after %s",
			disk.ErrChain, d.Sequence, d.Model, d.Base, d.BaseDigest, d.Previous, c.last+1, c.base.Version,
			c.base.Digest, c.previous)
	}
	return nil
}

// write appends a frame to the newest segment, or begins another one. The caller holds the lock.
func (c *Chain) write(ctx context.Context, root *os.Root, frame []byte, sequence int64) (err error) {
	dir, err := disk.VersionDir(root, c.base.Version)
	if err != nil {
		return err
	}
	defer dir.Close()
	deltas, err := disk.OpenDeltas(dir)
	if err == nil && deltas == nil && c.segment == 0 {
		err = dir.Mkdir(disk.DeltasDir, 0o755)
		if err = errors.Join(err, durable.SyncDir(dir), c.store.Step("snapshot.deltas")); err == nil {
			deltas, err = disk.OpenDeltas(dir)
		}
	}
	if err != nil {
		return err
	}
	if deltas == nil {
		return fmt.Errorf("%w: the directory %s is gone", disk.ErrConflict, disk.DeltasDir)
	}
	defer deltas.Close()
	if err := c.alone(deltas); err != nil {
		return err
	}
	if err := c.store.pushDelta(ctx, c.model, c.base.Version, sequence, frame); err != nil {
		return err
	}
	segment, size := c.segment, c.size
	if segment == 0 || size+int64(len(frame)) > disk.MaxSegmentBytes || sequence-segment >= disk.MaxSegmentDeltas {
		segment, size = sequence, 0
	}
	if err := c.append(deltas, segment, size, frame); err != nil {
		return fmt.Errorf("%s: %w", disk.SegmentName(segment), err)
	}
	c.segment, c.size = segment, size+int64(len(frame))
	return nil
}

// alone returns ErrConflict unless the segments on disk are those that this writer left.
func (c *Chain) alone(deltas *os.Root) error {
	segments, err := disk.SegmentsIn(deltas)
	if err != nil {
		return err
	}
	found, size := int64(0), int64(0)
	if len(segments) > 0 {
		found = segments[len(segments)-1]
		st, err := deltas.Lstat(disk.SegmentName(found))
		if err != nil {
			return err
		}
		if size = st.Size(); !st.Mode().IsRegular() {
			return fmt.Errorf("%s: %w: not a regular file (%s)", disk.SegmentName(found), disk.ErrConflict, st.Mode().Type())
		}
	}
	if found != c.segment || size != c.size {
		return fmt.Errorf(
			"%w: segment %d has %d bytes, this writer left segment %d with %d: another one appends to the chain, or files "+
				"were changed: "+
				"publish deltas of another version",
			disk.ErrConflict,
			found,
			size,
			c.segment,
			c.size,
		)
	}
	return nil
}

// append writes a frame at the end of a segment, durably. If it cannot, what came of it is cut off again.
func (c *Chain) append(deltas *os.Root, segment, size int64, frame []byte) (err error) {
	name, flags := disk.SegmentName(segment), os.O_RDWR
	if size == 0 {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := deltas.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = f.WriteAt(frame, size); err == nil {
		err = errors.Join(c.store.Step("snapshot.delta_written"), f.Sync())
	}
	if err == nil && size == 0 {
		err = durable.SyncDir(deltas)
	}
	switch {
	case err == nil:
		return c.store.Step("snapshot.delta")
	case size == 0:
		return errors.Join(err, deltas.Remove(name))
	}
	return errors.Join(err, f.Truncate(size))
}

// recoverIn finds the end of the chain of a version, if it has one.
func (c *Chain) recoverIn(version *os.Root) error {
	deltas, err := disk.OpenDeltas(version)
	if deltas == nil || err != nil {
		return err
	}
	defer deltas.Close()
	return c.recover(deltas)
}

// recover finds the end of a chain and cuts off what follows the last whole delta. The caller holds the lock.
func (c *Chain) recover(deltas *os.Root) error {
	segments, err := disk.SegmentsIn(deltas)
	if err != nil {
		return err
	}
	for _, first := range slices.Backward(segments) {
		last, end, err := c.wholeDeltas(deltas, first)
		if err != nil {
			return fmt.Errorf("%s: %w", disk.SegmentName(first), err)
		}
		if last == nil { // begun, and no delta of it written
			if err := errors.Join(deltas.Remove(disk.SegmentName(first)), durable.SyncDir(deltas)); err != nil {
				return err
			}
			continue
		}
		if last.Model != c.model || last.BaseDigest != c.base.Digest {
			return fmt.Errorf("%s: %w: it is of %s, version %d", disk.SegmentName(first), disk.ErrChain, last.Model, last.Base)
		}
		c.last, c.previous, c.segment, c.size = last.Sequence, last.Digest, first, end
		return nil
	}
	return nil
}

// wholeDeltas reads a segment and truncates it after its last whole delta, which it returns with the bytes that are
// left. Nil is none. What is damaged and not the end of the file is no killed writer's.
func (c *Chain) wholeDeltas(deltas *os.Root, first int64) (last *format.Delta, end int64, err error) {
	f, err := disk.OpenRegularAs(deltas, disk.SegmentName(first), os.O_RDWR)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	for next := first; ; next++ {
		frame, err := format.ReadFrame(f)
		if err == io.EOF {
			return last, end, nil
		}
		var d *format.Delta
		if err == nil {
			d, err = format.DecodeDeltaHeader(frame, c.store.Keys)
		}
		if torn := errors.Is(err, io.ErrUnexpectedEOF) || isDamage(err) && frame != nil && end+int64(len(
			frame)) == st.Size(); torn {
			c.store.logger().
				Warn("torn delta cut off", "model", c.model, "version", c.base.Version, "segment", disk.SegmentName(first), "delta",
					next,
					"bytes", st.Size()-end, "error", err)
			return last, end, errors.Join(f.Truncate(end), f.Sync())
		}
		if err == nil && d.Sequence != next {
			err = fmt.Errorf("%w: it is delta %d", disk.ErrFormat, d.Sequence)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("delta %d: %w", next, err)
		}
		last, end = d, end+int64(len(frame))
	}
}
