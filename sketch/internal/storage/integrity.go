package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/refitd/refitd/sketch/internal/fault"
)

// CheckFiles reads the files of a Badger directory before Badger does and refuses those it would answer with a panic,
// an empty database or deleted tables. expected says that there must be a state. It changes nothing and opens one file
// after the other.
func CheckFiles(ctx context.Context, dir string, expected bool) error {
	ids, err := checkManifest(dir, expected)
	if err != nil {
		return err
	}
	if err := checkValueLog(dir); err != nil {
		return err
	}
	sizes := make([]int64, len(ids))
	read, total := int64(0), int64(0)
	for i, id := range ids {
		if st, err := os.Stat(table.NewFilename(id, dir)); err == nil { // else the check of the table says so
			sizes[i] = st.Size()
			total += st.Size()
		}
	}
	for i, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		Report(ProgressOf(ctx), "bytes", read, total)
		if err := checkTable(table.NewFilename(id, dir), id); err != nil {
			return err
		}
		read += sizes[i]
	}
	return nil
}

// checkManifest returns the tables that the MANIFEST names, which all exist. Without it Badger would open empty and
// delete the tables; cut in the middle, it would take its beginning for the whole.
func checkManifest(dir string, expected bool) ([]uint64, error) {
	name := filepath.Join(dir, badger.ManifestFilename)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.mem"))
		if expected || len(tables)+len(logs) > 0 {
			return nil, fault.Corrupt("%s: MANIFEST missing, refusing to open: the engine would delete the tables", name)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fault.Denied(err)
	}
	defer f.Close()
	manifest, end, err := replayManifest(f)
	if err != nil {
		return nil, fault.Corrupt("%s: %v", name, err)
	}
	ids := slices.Sorted(maps.Keys(manifest.Tables))
	for _, id := range ids {
		if _, err := os.Stat(table.NewFilename(id, dir)); err != nil {
			return nil, fault.Corrupt("%s: named by the MANIFEST: %v", table.NewFilename(id, dir), err)
		}
	}
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	// A crash may leave a table that is not named yet, or half an entry; both at once could be a table whose entry was
	// cut off.
	if end < st.Size() && len(tables) > len(ids) {
		return nil, fault.Corrupt("%s ends inside an entry at byte %d and does not name a table of its directory", name, end)
	}
	return ids, nil
}

// replayManifest turns panics of Badger's decoder into errors.
func replayManifest(f *os.File) (m badger.Manifest, end int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be decoded: %.200v", r)
		}
	}()
	return badger.ReplayManifestFile(f, 0, badger.DefaultOptions("").WithLogger(nil))
}

// valueLogHeaderBytes precede the entries of a value log: the id of an encryption key, 8 bytes, and an initialisation
// vector.
const valueLogHeaderBytes = 20

// checkValueLog refuses a value log with entries: every value of this package is smaller than Badger's threshold, and a
// damaged value log gives empty values without an error.
func checkValueLog(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return fault.Denied(err)
		}
		first := make([]byte, valueLogHeaderBytes+64) // an entry starts with a header that is not zero
		n, err := f.ReadAt(first, 0)
		f.Close() // only read
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("sketch: %w", err)
		}
		if id := first[:8]; len(bytes.Trim(id, "\x00")) > 0 {
			return fault.Corrupt("%s has the key id %x: this state is not encrypted", name, id)
		}
		if len(bytes.Trim(first[min(n, valueLogHeaderBytes):n], "\x00")) > 0 {
			return fault.Corrupt("%s holds values: this state keeps none outside its tables", name)
		}
	}
	return nil
}

// valuePointer marks an entry whose value is in the value log (bitValuePointer of Badger).
const valuePointer = 1 << 1

// checkTable verifies every checksum of a table and that no value is outside it. The table's file is read, not mapped:
// what Badger answers to a damaged one with is a panic or a fault.
func checkTable(name string, id uint64) (err error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return fault.Denied(err)
	}
	defer func() {
		if r := recover(); r != nil {
			text, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(r)), "\n")
			err = fault.Corrupt("%s of %d bytes cannot be read: %s", name, len(content), text)
		}
	}()
	t, err := table.OpenInMemoryTable(content, id, &table.Options{ChkMode: options.NoVerification})
	if err != nil {
		return fault.Corrupt("%s: %v", name, err)
	}
	if err := t.VerifyChecksum(); err != nil {
		return fault.Corrupt("%s: %v", name, err)
	}
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	entries := uint32(0)
	for it.Rewind(); it.Valid(); it.Next() {
		if it.Value().Meta&valuePointer != 0 {
			return fault.Corrupt("%s: the value at key %.40q is in a value log", name, it.Key())
		}
		entries++
	}
	if n := t.KeyCount(); entries != n && n < math.MaxUint32 {
		return fault.Corrupt("%s: %d of %d entries can be read", name, entries, n)
	}
	return nil
}
