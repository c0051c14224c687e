package sketch

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// disk is the backend of Open.
type disk struct{ db *badger.DB }

// openDisk opens Badger for one writer of small values. Commits are synced: without that a power cut loses acknowledged records.
func openDisk(dir string, memTableBytes int64, log *slog.Logger) (*disk, error) {
	o := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one writer
		WithMemTableSize(memTableBytes).
		WithNumMemtables(2).
		WithNumLevelZeroTables(5).
		WithNumLevelZeroTablesStall(10). // 2 and 6 cost half as much again in compactions while a sample fills
		WithNumCompactors(2).
		WithBlockCacheSize(0). // blocks are not compressed: the mapped files are the cache
		WithIndexCacheSize(8 << 20).
		WithValueThreshold(1 << 20). // every value is smaller: the value log stays empty
		WithValueLogFileSize(16 << 20).
		WithCompression(options.None).
		WithMetricsEnabled(false).
		WithLogger(badgerLog{log})
	db, err := badger.Open(o)
	switch {
	case err == nil:
		return &disk{db}, nil
	case strings.Contains(err.Error(), "Cannot acquire directory lock"): // the error has no type
		return nil, fmt.Errorf("sketch: open %s: %w: stop it, or give this one another storage.path", dir, ErrLocked)
	case strings.Contains(err.Error(), "manifest has"), strings.Contains(err.Error(), "file does not exist for table"):
		return nil, corrupt("open %s: %v", dir, err)
	default:
		return nil, fmt.Errorf("sketch: open %s: %w", dir, err)
	}
}

func (d *disk) commit(ops []op) error {
	txn := d.db.NewTransaction(true)
	defer txn.Discard()
	for i := range ops {
		o := &ops[i]
		var err error
		switch {
		case o.skip:
		case o.value == nil:
			err = txn.Delete(o.key)
		default:
			err = txn.Set(o.key, o.value)
		}
		if err != nil { // ErrTxnTooBig too: a piece is never committed in parts
			return err
		}
	}
	return txn.Commit()
}

func (d *disk) view(f func(cut) error) error {
	return d.db.View(func(txn *badger.Txn) error { return f(diskCut{txn}) })
}

// limits leaves a quarter of what Badger allows as headroom.
func (d *disk) limits() (entries, bytes int64) {
	return d.db.MaxBatchCount() * 3 / 4, d.db.MaxBatchSize() * 3 / 4
}

func (d *disk) close() error { return d.db.Close() }

type diskCut struct{ txn *badger.Txn }

func (c diskCut) get(key []byte) ([]byte, error) {
	item, err := c.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (c diskCut) each(prefix []byte, f func(key, value []byte) error) error {
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
