package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// A DeltaSource is a Source that also hands out what changed since a version was published. It is not trusted with that
// either.
type DeltaSource interface {
	Source
	// Deltas returns the deltas of a version that follow the one with sequence after, 0 being the version itself: at
	// least the next one, whole frames as ReadFrame reads them; the caller closes the stream and asks again for those
	// that follow. Until the next delta is there it waits, and may give up after a while and return an empty stream.
	// It returns ErrNotFound if there is no such version, ErrChain if there is no delta with sequence after or the
	// next one is missing though later ones are there, ErrFormat for what is damaged, and the error of ctx.
	Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error)
}

// Deltas looks at the segments of a version when their directory has changed, and at least every pause.
func (s DirSource) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	var at place
	if r, err := s.lookForDeltas(&at, model, version, after); r != nil || err != nil {
		return r, err
	}
	for {
		path := s.deltasPath(model, version)
		changes := watchDir(path)
		r, err := s.lookForDeltas(&at, model, version, after)
		if r == nil && err == nil &&
			s.deltasPath(model, version) == path { // else their directory came while nobody watched it
			err = changes.wait(ctx, jitter(s.every()))
		}
		changes.close()
		if r != nil || err != nil {
			return r, err
		}
	}
}

// deltasPath is where the next delta of a version will be seen: in the directory of its deltas, or, before there is
// one, of its files.
func (s DirSource) deltasPath(model string, version int64) string {
	dir := filepath.Join(s.Dir, model, strconv.FormatInt(version, 10))
	if _, err := os.Lstat(filepath.Join(dir, disk.DeltasDir)); err != nil {
		return dir
	}
	return filepath.Join(dir, disk.DeltasDir)
}

// lookForDeltas returns the deltas of a version after a sequence, nil if the next one is not there yet.
func (s DirSource) lookForDeltas(at *place, model string, version, after int64) (io.ReadCloser, error) {
	r, err := disk.InModel(s.Dir, model, func(root *os.Root) (io.ReadCloser, error) {
		dir, err := disk.VersionDir(root, version)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return at.deltas(dir, after)
	})
	if err != nil {
		return nil, fmt.Errorf("deltas of version %d: %w", version, err)
	}
	return r, nil
}

// place is where the delta that is waited for begins, or will: so that a look at a segment reads what came since the
// last one.
type place struct {
	segment int64 // 0 is not known
	next    int64 // sequence
	offset  int64
}

// deltas returns the whole deltas of one segment that follow the one with sequence after, nil if the next one is not
// there yet.
func (p *place) deltas(version *os.Root, after int64) (io.ReadCloser, error) {
	dir, err := disk.OpenDeltas(version)
	if err != nil {
		return nil, err
	}
	var segments []int64
	if dir != nil {
		defer dir.Close()
		if segments, err = disk.SegmentsIn(dir); err != nil {
			return nil, err
		}
	}
	i, found := slices.BinarySearch(segments, after+1)
	if !found {
		i--
	}
	switch {
	case i >= 0:
	case after == 0 && len(segments) == 0:
		return nil, nil
	case len(segments) == 0:
		return nil, fmt.Errorf("%w: delta %d is not there, and none before it", disk.ErrChain, after)
	default:
		return nil, fmt.Errorf("%w: delta %d is not there, the first is %d", disk.ErrChain, after+1, segments[0])
	}
	f, err := disk.OpenRegular(dir, disk.SegmentName(segments[i]))
	if err != nil {
		return nil, err
	}
	end, err := p.seek(f, segments[i], after)
	switch {
	case err != nil:
	case end > p.offset:
		return section{io.NewSectionReader(f, p.offset, end-p.offset), f}, nil
	case p.next <= after:
		err = fmt.Errorf("%w: delta %d is not there, the newest is %d", disk.ErrChain, after, p.next-1)
	case i+1 < len(segments):
		err = fmt.Errorf("%w: it ends before delta %d, and %s follows it", disk.ErrChain, p.next, disk.SegmentName(segments[i+
			1]))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", disk.SegmentName(segments[i]), err)
	}
	return nil, errors.Join(err, f.Close())
}

// section is a part of a file that closes it.
type section struct {
	io.Reader
	io.Closer
}

// seek moves to the delta after a sequence, or to the end of the whole ones, and returns where the last whole one ends.
func (p *place) seek(f *os.File, segment, after int64) (end int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if p.segment != segment || p.offset > st.Size() {
		*p = place{segment: segment, next: segment}
	}
	next := p.next
	for end = p.offset; ; next++ {
		if next <= after+1 {
			p.next, p.offset = next, end
		}
		size, err := frameBytes(io.NewSectionReader(f, end, st.Size()-end))
		if err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && end+size > st.Size() {
			return end, nil // of one that is being written, or whose writer was killed, there is a part
		}
		if err != nil {
			return 0, fmt.Errorf("delta %d: %w", next, err)
		}
		end += size
	}
}

// frameBytes returns how long the frame is that a stream begins with.
func frameBytes(r io.Reader) (int64, error) {
	frame := make([]byte, format.DeltaFixedBytes)
	if _, err := io.ReadFull(r, frame); err != nil {
		return 0, err
	}
	length, err := format.HeaderLength(frame)
	if err != nil {
		return 0, err
	}
	if frame, err = format.ReadMore(r, frame, length); err != nil {
		return 0, err
	}
	h, err := format.ReadDeltaHeader(frame)
	if err != nil {
		return 0, err
	}
	return int64(len(frame)) + h.Rest(), nil
}
