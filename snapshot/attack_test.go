package snapshot

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// attack is something done to the files of a store that has a chain of 10 deltas in version 1.
type attack struct {
	do   func(t *testing.T, segment string, next []byte) // next is the honest delta 11
	want error                                           // nil: nothing is refused, for nothing that is whole came
}

// Damage to the files of a chain is never served. The last good state is, and the watcher continues with honest
// files.
func TestWatchUnderAttack(t *testing.T) {
	t.Parallel()
	for name, a := range attacks(t) {
		t.Run(name, func(t *testing.T) { t.Parallel(); a.run(t) })
	}
}

// run carries out an attack on a store that a watcher follows.
func (a attack) run(t *testing.T) {
	store, dir, keys := publishSigned(t, 1)
	c, base := openChain(t, store, dir, 1)
	good := grow(t, c, base, 10, 0)
	next, _, err := snapshottest.DeltaAfter(good, 0, store.Signer)
	snapshottest.Must(t, err)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Keys: keys}})
	atDelta(t, w, 1, 10)
	segment := segmentPath(dir, 1, 1)
	honest, err := os.ReadFile(segment)
	snapshottest.Must(t, err)
	a.do(t, segment, next)
	if a.want != nil {
		until(t, w, "a refusal", func(s Status) bool { return s.DeltasRefused > 0 && errors.Is(s.DeltaErr, a.want) })
	} else {
		time.Sleep(50 * often)
	}
	if s := w.Status(); s.Position.Sequence != 10 || s.Err != nil || w.Model() == nil {
		t.Errorf("status %+v", s)
	}
	sameState(t, w.Model(), good)
	snapshottest.Must(t, os.RemoveAll(filepath.Dir(segment)), os.Mkdir(filepath.Dir(segment), 0o755),
		os.WriteFile(segment, honest, 0o644))
	c, _ = openChain(t, store, dir, 1)
	good = grow(t, c, good, 3, 0)
	atDelta(t, w, 1, 13)
	sameState(t, w.Model(), good)
}

// attacks returns what is done to a chain.
func attacks(t *testing.T) map[string]attack {
	add := func(t *testing.T, path string, b []byte) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		snapshottest.Must(t, err)
		_, err = f.Write(b)
		snapshottest.Must(t, err, f.Close())
	}
	// other is a signed chain of another store, of the same length: all that differs is the version it belongs to.
	other := func(t *testing.T, key byte, salt int64) (dir string) {
		store, dir := storeOf(t, 0)
		store.Signer, _ = snapshottest.Signer(t, key)
		contents := snapshottest.TestContents(snapshottest.Small)
		contents.Meta.Lambda = format.Number(salt)
		_, err := store.Publish(t.Context(), "m", contents)
		snapshottest.Must(t, err)
		c, m := openChain(t, store, dir, 1)
		grow(t, c, m, 12, salt)
		return dir
	}
	read := func(t *testing.T, path string) []byte {
		b, err := os.ReadFile(path)
		snapshottest.Must(t, err)
		return b
	}
	return map[string]attack{
		"another chain's segment": {want: disk.ErrChain, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.WriteFile(segment, read(t, segmentPath(other(t, 1, 5), 1, 1)), 0o644))
		}},
		"another key's chain": {want: disk.ErrSignature, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.WriteFile(segment, read(t, segmentPath(other(t, 2, 0), 1, 1)), 0o644))
		}},
		"unsigned after signed": {want: disk.ErrSignature, do: func(t *testing.T, segment string, _ []byte) {
			dir := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(segment))))
			_, m := openChain(t, publish.NewStore(dir), dir, 1)
			m, err := readDeltas(t.Context(), DirSource{Dir: dir}, m, 10, nil)
			snapshottest.Must(t, err)
			unsigned, _, err := snapshottest.DeltaAfter(m, 0, nil)
			snapshottest.Must(t, err)
			add(t, segment, unsigned)
		}},
		"the last delta again": {want: disk.ErrChain, do: func(t *testing.T, segment string, next []byte) {
			b := read(t, segment)
			at := 0
			for range 9 {
				size, err := frameBytes(bytes.NewReader(b[at:]))
				snapshottest.Must(t, err)
				at += int(size)
			}
			add(t, segment, b[at:])
		}},
		"a bit of the next one": {want: disk.ErrDigest, do: func(t *testing.T, segment string, next []byte) {
			next[len(next)-ed25519.SignatureSize-1] ^= 4
			add(t, segment, next)
		}},
		"a header of the next one": {want: disk.ErrDigest, do: func(t *testing.T, segment string, next []byte) {
			next[framePrefixBytes+3] ^= 4
			add(t, segment, next)
		}},
		"a part of the next one": {
			do: func(t *testing.T, segment string, next []byte) { add(t, segment, next[:len(next)-1]) },
		},
		"zeros": {
			want: disk.ErrFormat,
			do:   func(t *testing.T, segment string, _ []byte) { add(t, segment, make([]byte, 1<<16)) },
		},
		"a hole of 8 TiB": {want: disk.ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
			if err := os.Truncate(segment, 8<<40); err != nil { // where that is too large for the file system, a smaller one
				snapshottest.Must(t, os.Truncate(segment, 8<<30))
			}
		}},
		"cut short": {want: disk.ErrChain, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.Truncate(segment, int64(len(read(t, segment))/2)))
		}},
		"emptied": {
			want: disk.ErrChain,
			do:   func(t *testing.T, segment string, _ []byte) { snapshottest.Must(t, os.Truncate(segment, 0)) },
		},
		"removed": {
			want: disk.ErrChain,
			do:   func(t *testing.T, segment string, _ []byte) { snapshottest.Must(t, os.Remove(segment)) },
		},
		"all removed": {
			want: disk.ErrChain,
			do: func(t *testing.T, segment string, _ []byte) {
				snapshottest.Must(t, os.RemoveAll(filepath.Dir(segment)))
			},
		},
		"a gap": {want: disk.ErrChain, do: func(t *testing.T, segment string, next []byte) {
			snapshottest.Must(t, os.WriteFile(filepath.Join(filepath.Dir(segment), disk.SegmentName(12)), next, 0o644))
		}},
		"renamed": {want: disk.ErrChain, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.Rename(segment, filepath.Join(filepath.Dir(segment), disk.SegmentName(11))))
		}},
		"a link": {want: disk.ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.Rename(segment, segment+".old"), os.Symlink(filepath.Base(segment)+".old", segment))
		}},
		"a link of the directory": {want: disk.ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
			dir := filepath.Dir(segment)
			snapshottest.Must(t, os.Rename(dir, dir+".old"), os.Symlink(filepath.Base(dir)+".old", dir))
		}},
		"a frame of 1 GiB": {want: disk.ErrFormat, do: func(t *testing.T, segment string, next []byte) {
			head, rest := partsOf(next)
			claims := map[string]any{}
			snapshottest.Must(t, json.Unmarshal(head, &claims))
			claims["payload_bytes"] = 1 << 30
			head, err := json.Marshal(claims)
			snapshottest.Must(t, err)
			sum := sha256.Sum256(head)
			frame := binary.LittleEndian.AppendUint32([]byte("RFDELTA1"), uint32(len(head)))
			add(t, segment, append(append(append(frame, sum[:]...), head...), rest...))
			snapshottest.Must(t, os.Truncate(segment, 2<<30))
		}},
		"a directory": {want: disk.ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
			snapshottest.Must(t, os.Remove(segment), os.Mkdir(segment, 0o755))
		}},
	}
}

// framePrefixBytes are what a frame has before its header: magic, length and digest.
const framePrefixBytes = 8 + 4 + sha256.Size

// partsOf returns the header of a frame and what follows it.
func partsOf(frame []byte) (head, rest []byte) {
	end := framePrefixBytes + int(binary.LittleEndian.Uint32(frame[8:]))
	return frame[framePrefixBytes:end], frame[end:]
}
