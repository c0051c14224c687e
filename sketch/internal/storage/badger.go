package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// ValueThreshold is the size from which on Badger would put a value into its value log; every value here is smaller.
const ValueThreshold = 1 << 20

// OpOverhead is more than what Badger adds to the bytes of a key and a value (12 in v4.9).
const OpOverhead = 16

// valueLogBytes bounds a file of the value log, which stays empty. Badger makes it twice as large.
const valueLogBytes = 16 << 20

// Disk is the backend of Open.
type Disk struct {
	db            *badger.DB
	dir           string
	identity      os.FileInfo // of dir
	memTableBytes int64
}

// OpenDisk opens Badger for one writer of small values. Commits are synced: without that, which only the error of a
// failpoint brings about, a power cut loses acknowledged records.
func OpenDisk(dir string, memTableBytes int64, log *slog.Logger) (*Disk, error) {
	o := badger.DefaultOptions(dir).
		WithSyncWrites(failpoint.At(failpoint.SketchSync) == nil).
		WithDetectConflicts(false). // one writer
		WithMemTableSize(memTableBytes).
		WithNumMemtables(2).
		WithNumLevelZeroTables(5).
		WithNumLevelZeroTablesStall(10). // 2 and 6 cost half as much again in compactions while a sample fills
		WithNumCompactors(2).
		WithBlockCacheSize(0). // blocks are not compressed: the mapped files are the cache
		WithIndexCacheSize(8 << 20).
		WithValueThreshold(ValueThreshold).
		WithValueLogFileSize(valueLogBytes).
		WithCompression(options.None).
		WithMetricsEnabled(false).
		WithLogger(badgerLog{log})
	if err := dropEmptyLogs(dir); err != nil {
		return nil, err
	}
	var db *badger.DB
	var err error
	// the error has no type
	isLocked := func() bool { return err != nil && strings.Contains(err.Error(), "Cannot acquire directory lock") }
	// The holder of this lock does not hold LOCK. Most likely it is a child process that is being started: for a
	// moment it has the directory of a database that was just closed.
	for try := time.Duration(0); ; try += lockPause {
		if db, err = badger.Open(o); !isLocked() || try >= lockWait {
			break
		}
		time.Sleep(lockPause)
	}
	switch {
	case err == nil:
		identity, err := os.Stat(dir)
		if err != nil {
			return nil, fault.Denied(errors.Join(err, db.Close()))
		}
		return &Disk{db, dir, identity, memTableBytes}, nil
	case isLocked():
		return nil, fmt.Errorf("sketch: open %s: %w", dir, fault.ErrLocked)
	case strings.Contains(err.Error(), syscall.ENOSPC.Error()), strings.Contains(err.Error(), syscall.EMFILE.Error()):
		return nil, fmt.Errorf("sketch: open %s: %w", dir, err) // no damage, whatever file it is about
	case strings.Contains(err.Error(), "Encryption key"),
		strings.Contains(err.Error(), "key registry"),
		strings.Contains(err.Error(), "sanity text"):
		// This state is not encrypted: the file holds no key, only a check of itself.
		return nil, fault.Corrupt("%s: %v: delete this file and start again", filepath.Join(dir, badger.KeyRegistryFileName),
			err)
	default:
		return nil, fault.Denied(fmt.Errorf("open %s: %w", dir, err))
	}
}

// dropEmptyLogs removes logs that were made and not given a size: Badger refuses them. A log that was emptied by
// something else is the witness's to notice.
func dropEmptyLogs(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("sketch: %w", err)
		}
		for _, name := range names {
			st, err := os.Stat(name)
			if err == nil && st.Size() == 0 {
				err = os.Remove(name)
			}
			if err != nil {
				return fault.Denied(err)
			}
		}
	}
	return nil
}

// Gone returns an error wrapping ErrGone if the files of the database are not where they were. Badger would keep
// writing to files that have no path any more, and then retry for ever to make a table there.
func (d *Disk) Gone() error {
	now, err := os.Stat(d.dir)
	if err == nil && !os.SameFile(now, d.identity) {
		return fmt.Errorf("sketch: %s is another directory than the one that was opened: %w", d.dir, fault.ErrGone)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(d.dir, badger.ManifestFilename))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sketch: %w: %w", fault.ErrGone, err)
	}
	return nil // whether it is there is unknown: the write will show it
}

// Commit is that of Backend: synced when it returns.
func (d *Disk) Commit(ops []Op) error {
	if err := d.Gone(); err != nil {
		return err
	}
	txn := d.db.NewTransaction(true)
	defer txn.Discard()
	for i := range ops {
		o := &ops[i]
		var err error
		switch {
		case o.Skip:
		case o.Value == nil:
			err = txn.Delete(o.Key)
		case len(o.Value) >= ValueThreshold:
			err = fmt.Errorf("value of %d bytes at key %q, less than %d are kept", len(o.Value), o.Key, ValueThreshold)
		default:
			err = txn.Set(o.Key, o.Value)
		}
		if err != nil { // ErrTxnTooBig too: a piece is never committed in parts
			return err
		}
	}
	return txn.Commit()
}

// View is that of Backend.
func (d *Disk) View(f func(Cut) error) error {
	return d.db.View(func(txn *badger.Txn) error { return f(diskCut{txn}) })
}

// Limits leaves a quarter of what Badger allows as headroom.
func (d *Disk) Limits() (entries, bytes int64) {
	return d.db.MaxBatchCount() * 3 / 4, d.db.MaxBatchSize() * 3 / 4
}

// Close writes the memory table. Without the space for it the files stay as after a kill, which loses nothing: Badger
// would map a file that does not fit, and the process would end at the first byte too many.
func (d *Disk) Close() error {
	if err := d.Gone(); err != nil {
		return err
	}
	if free, err := FreeBytes(d.dir); err == nil && free < openingBytes(d.memTableBytes) {
		return fmt.Errorf(
			"sketch: %s is left as it is, complete but unsorted: %d bytes of free space, %d are needed to close it: %w",
			d.dir, free, openingBytes(d.memTableBytes), fault.ErrSpace)
	}
	if files, err := FreeFiles(d.dir); err == nil && files < LeastFreeFiles/4 {
		return fmt.Errorf(
			"sketch: %s is left as it is, complete but unsorted: its file system can take %d more files (inodes), %d are "+
				"needed to close it: %w",
			d.dir,
			files,
			LeastFreeFiles/4,
			fault.ErrInodes,
		)
	}
	return d.db.Close()
}

type diskCut struct{ txn *badger.Txn }

func (c diskCut) Get(key []byte) ([]byte, error) {
	item, err := c.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (c diskCut) Each(prefix []byte, f func(key, value []byte) error) error {
	o := badger.DefaultIteratorOptions
	o.Prefix = prefix
	it := c.txn.NewIterator(o)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		if err := item.Value(func(value []byte) error { return f(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}

// badgerLog passes on what Badger reports of warnings and errors.
type badgerLog struct{ log *slog.Logger }

func (b badgerLog) Errorf(format string, args ...any) {
	b.log.Error("storage engine reports an error", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (b badgerLog) Warningf(format string, args ...any) {
	b.log.Warn("storage engine warns", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (b badgerLog) Infof(string, ...any)  {}
func (b badgerLog) Debugf(string, ...any) {}

// Purge writes the memory table and merges all tables: versions that a deletion or a newer one hides are left out of
// the result. Dropping a prefix is Badger's only way to merge the tables of the top level whatever their number, and
// needs a key to drop: one that the state has no other use for, with a value.
func (d *Disk) Purge(key, value []byte) error {
	if err := d.Commit([]Op{{Key: key, Value: value}}); err != nil {
		return err
	}
	if err := d.db.DropPrefix(key); err != nil {
		return err
	}
	return d.db.Flatten(1)
}
