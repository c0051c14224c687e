package faults_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// batch is a record batch in a segment file, by the parts of its header that matter here.
type batch struct {
	file      string
	at        int64 // position in the file
	bytes     int64
	base      int64
	lastDelta int32
	count     int32
}

// Positions in the header of a record batch, Kafka protocol guide, "Record Batch".
const (
	batchLengthAt    = 8
	batchLastDeltaAt = 23
	batchCountAt     = 57
	batchHeader      = 61
)

// batchesOf reads the batch headers of a partition's segments as the broker has them on disk.
func (k *kafka) batchesOf(t *testing.T, topic string) (all []batch) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k.nodes[0].dir, "log", topic+"-0", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("segments of %s: %v %v", topic, files, err)
	}
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the cleaner has just replaced it
		}
		for at := 0; at+batchHeader <= len(b); {
			length := int(binary.BigEndian.Uint32(b[at+batchLengthAt:])) + batchLengthAt + 4
			if length <= batchHeader-1 || at+length > len(b) {
				break
			}
			all = append(
				all,
				batch{file: f, at: int64(at), bytes: int64(length), base: int64(binary.BigEndian.Uint64(b[at:])),
					lastDelta: int32(
						binary.BigEndian.Uint32(b[at+batchLastDeltaAt:]),
					), count: int32(binary.BigEndian.Uint32(b[at+batchCountAt:]))},
			)
			at += length
		}
	}
	return all
}

// flip inverts one bit in the last quarter of the batch that holds an offset, in the segment file, and returns the base
// of the batch.
func (k *kafka) flip(t *testing.T, topic string, offset int64) (base int64) {
	t.Helper()
	for _, b := range k.batchesOf(t, topic) {
		if offset < b.base || offset > b.base+int64(b.lastDelta) {
			continue
		}
		f, err := os.OpenFile(b.file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		at := b.at + b.bytes*3/4
		var x [1]byte
		if _, err := f.ReadAt(x[:], at); err != nil {
			t.Fatal(err)
		}
		x[0] ^= 4
		if _, err := f.WriteAt(x[:], at); err != nil {
			t.Fatal(err)
		}
		return b.base
	}
	t.Fatalf("%s has no batch with offset %d", topic, offset)
	return 0
}

// segmentEnd reports whether a batch is the last of its file, and a later file exists.
func segmentEnd(all []batch, i int) bool { return i+1 < len(all) && all[i+1].file != all[i].file }

func isCleaned(all []batch) (lostTail, empty, emptyAtEnd int) {
	for i, b := range all {
		switch {
		case b.count == 0:
			empty++
			if segmentEnd(all, i) {
				emptyAtEnd++
			}
		case b.count < b.lastDelta+1:
			lostTail++
		}
	}
	return lostTail, empty, emptyAtEnd
}
