package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// DeltasDir is in the directory of a version that has deltas. The manifest does not vouch for it, for it grows: each
// delta proves itself.
const DeltasDir = "deltas"

// A segment is a file of deltas, whole ones one after another, named after the first: <sequence, 12 digits>.seg. The
// next one is begun when it has MaxSegmentBytes, or MaxSegmentDeltas, which bounds how much of a file is walked to find
// a delta in it.
const (
	MaxSegmentBytes  = 16 << 20
	MaxSegmentDeltas = 256
	segmentSuffix    = ".seg"
	segmentDigits    = 12
)

// OpenDeltas opens the directory of a version's deltas, nil if it does not exist.
func OpenDeltas(version *os.Root) (*os.Root, error) {
	st, err := version.Lstat(DeltasDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s: %w: not a directory", DeltasDir, ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	dir, err := version.OpenRoot(DeltasDir)
	if errors.Is(err, fs.ErrNotExist) { // pruned since Lstat
		return nil, nil
	}
	return dir, err
}

// SegmentsIn lists the first sequences of the segments there are, ascending. Whatever else lies there is left alone.
func SegmentsIn(deltas *os.Root) ([]int64, error) {
	names, err := List(deltas, ".")
	if err != nil {
		return nil, err
	}
	var segments []int64
	for _, name := range names {
		first, err := strconv.ParseInt(strings.TrimSuffix(name, segmentSuffix), 10, 64)
		if err == nil && first > 0 && SegmentName(first) == name {
			segments = append(segments, first)
		}
	}
	slices.Sort(segments)
	return segments, nil
}

func SegmentName(first int64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, first, segmentSuffix)
}
