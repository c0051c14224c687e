package sketch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/snapshot/durable"
)

// BackupMagic begins every backup. What follows:
//
//	header length u32 | header: JSON
//	kind u8 | key length u32 | value length u32 | key | value
//	0 u8 | SHA-256 of everything before
//
// Integers are big-endian. An entry is a key of the database, or a file of the state directory with its name as the
// key.
const BackupMagic = "refitd backup 1\n"

const (
	backupEnd  = 0
	backupPair = 1
	backupFile = 2
)

// maxBackupEntry bounds a key or value of a backup before it is read: files are larger than values of the database.
const maxBackupEntry = 1 << 30

// A BackupHeader says what a backup holds.
type BackupHeader struct {
	Format     int        `json:"format"` // of the state
	Lineage    string     `json:"lineage"`
	ConfigHash string     `json:"config_hash"`
	Positions  []Position `json:"positions"`
}

// Backup writes a consistent cut of everything in the store, and the files of the given names in the state directory,
// those that exist. It checks the rows as it goes. Apply may run concurrently.
func (s *Store) Backup(w io.Writer, files ...string) (*BackupHeader, error) {
	sum := sha256.New()
	buffered := bufio.NewWriterSize(w, 1<<16)
	out := io.MultiWriter(buffered, sum)
	header := &BackupHeader{
		Format:     codec.FormatVersion,
		Lineage:    s.settings.Lineage,
		ConfigHash: s.settings.ConfigHash,
		Positions:  []Position{},
	}
	entry := func(kind byte, key, value []byte) error {
		b := append(make([]byte, 0, 9+len(key)), kind)
		b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(value))), key...)
		if _, err := out.Write(b); err != nil {
			return err
		}
		_, err := out.Write(value)
		return err
	}
	err := s.backend.View(func(c storage.Cut) error {
		acc, err := s.scan(context.Background(), c, func(*scanned) error { return nil })
		if err != nil {
			return err
		}
		for i := range acc.ledger[:acc.current] {
			l := &acc.ledger[i]
			header.Positions = append(header.Positions, l.Position())
		}
		text, err := json.Marshal(header)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s%s", BackupMagic, binary.BigEndian.AppendUint32(nil, uint32(len(text))),
			text); err != nil {
			return err
		}
		return c.Each(nil, func(key, value []byte) error { return entry(backupPair, key, value) })
	})
	for _, name := range files {
		if err != nil {
			break
		}
		var content []byte
		if content, err = os.ReadFile(filepath.Join(s.home.dir, name)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		} else if err == nil {
			err = entry(backupFile, []byte(name), content)
		}
	}
	if err == nil {
		_, err = out.Write([]byte{backupEnd})
	}
	if err == nil {
		_, err = buffered.Write(sum.Sum(nil))
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return nil, fmt.Errorf("sketch: backup: %w", err)
	}
	return header, nil
}

// Restore makes a state in dir, which must not hold one, from what Backup wrote. files are the names of the files in
// the state directory that are restored with the database. Nothing is left in dir if it fails: the error wraps
// ErrCorrupt if the backup is damaged, ErrFormat if it is of a later version.
func Restore(ctx context.Context, dir string, r io.Reader, log *slog.Logger,
	files ...string) (_ *BackupHeader, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := (storage.Place{Dir: dir, MemTableBytes: DefaultMemTableBytes}).Preflight(false, nil); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	rows := filepath.Join(dir, rowsName)
	if err := os.Mkdir(rows, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	d, err := storage.OpenDisk(rows, DefaultMemTableBytes, log)
	if err != nil {
		return nil, err
	}
	in := &backupReader{in: bufio.NewReaderSize(r, 1<<16), sum: sha256.New(), dir: dir, files: files}
	err = in.read(ctx, d)
	var s *Store
	if err == nil {
		s, err = load(ctx, d, &Options{}, func(stored *policy.Settings) (policy.Settings, error) {
			if stored == nil {
				return policy.Settings{}, damagedBackup("the backup has no settings")
			}
			return *stored, nil
		})
	}
	if err == nil {
		err = s.Check()
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	w, err := s.witnessOf()
	if err == nil {
		err = w.write(dir)
	}
	if err != nil {
		return nil, err
	}
	return &in.header, nil
}

// A backupError wraps ErrCorrupt without its words: the state is not at fault.
type backupError string

func (e backupError) Error() string     { return string(e) }
func (e backupError) Is(err error) bool { return err == ErrCorrupt }

func damagedBackup(format string, args ...any) error {
	return backupError("sketch: " + fmt.Sprintf(format, args...))
}

type backupReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	dir    string
	files  []string
	header BackupHeader
	err    error // the first; nothing is read after it
}

func (b *backupReader) bytes(n int) []byte {
	var out bytes.Buffer // grows with what is there, not with what a damaged length says
	if b.err == nil {
		if _, err := io.CopyN(io.MultiWriter(&out, b.sum), b.in, int64(n)); err != nil {
			b.err = damagedBackup("the backup ends early: %v", err)
		}
	}
	return out.Bytes()
}

func (b *backupReader) length() int {
	text := b.bytes(4)
	if b.err != nil {
		return 0
	}
	n := binary.BigEndian.Uint32(text)
	if n > maxBackupEntry {
		b.err = damagedBackup("the backup has an entry of %d bytes", n)
	}
	return int(n)
}

// read copies the backup and compares its digest at the end.
func (b *backupReader) read(ctx context.Context, d *storage.Disk) error {
	if magic := b.bytes(len(BackupMagic)); b.err != nil || string(magic) != BackupMagic {
		return damagedBackup("this is not a backup of refitd, or one of another version")
	}
	text := b.bytes(b.length())
	if b.err != nil {
		return b.err
	}
	if err := json.Unmarshal(text, &b.header); err != nil {
		return damagedBackup("header of the backup: %v", err)
	}
	if b.header.Format > codec.FormatVersion {
		return fmt.Errorf("sketch: backup: format %d is newer than %d, the newest this build reads: %w",
			b.header.Format, codec.FormatVersion, ErrFormat)
	}
	w := pairWriter{disk: d}
	for {
		kind := b.bytes(1)
		if b.err != nil || kind[0] == backupEnd {
			break
		}
		keyLength, valueLength := b.length(), b.length()
		key, value := b.bytes(keyLength), b.bytes(valueLength)
		if b.err != nil {
			break
		}
		switch kind[0] {
		case backupPair:
			if err := w.write(ctx, key, value); err != nil {
				return err
			}
		case backupFile:
			if !slices.Contains(b.files, string(key)) {
				return damagedBackup("the backup has a file %.40q", key)
			}
			if err := durable.WriteFile(filepath.Join(b.dir, string(key)), 0o600, durable.Bytes(value)); err != nil {
				return fault.Denied(err)
			}
		default:
			return damagedBackup("the backup has an entry of kind %d", kind[0])
		}
	}
	want := b.sum.Sum(nil)
	if digest := b.bytes(sha256.Size); b.err != nil {
		return b.err
	} else if !bytes.Equal(digest, want) {
		return damagedBackup("digest of the backup does not match")
	}
	return w.flush(ctx)
}

// pairWriter writes keys and values in transactions as large as the disk takes.
type pairWriter struct {
	disk  *storage.Disk
	ops   []storage.Op
	bytes int64
}

func (w *pairWriter) write(ctx context.Context, key, value []byte) error {
	size := int64(len(key) + len(value) + storage.OpOverhead)
	if len(key) == 0 || len(key) > 1<<10 || len(value) == 0 || len(value) >= storage.ValueThreshold {
		return damagedBackup("the backup has a value of %d bytes at a key of %d", len(value), len(key))
	}
	if maxOps, maxBytes := w.disk.Limits(); int64(len(w.ops)+1) > maxOps || w.bytes+size > maxBytes {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.ops, w.bytes = append(w.ops, storage.Op{Key: key, Value: value}), w.bytes+size
	return nil
}

func (w *pairWriter) flush(ctx context.Context) error {
	if err := w.disk.Commit(w.ops); err != nil {
		return fmt.Errorf("sketch: restore: %w", err)
	}
	w.ops, w.bytes = w.ops[:0], 0
	return ctx.Err()
}
