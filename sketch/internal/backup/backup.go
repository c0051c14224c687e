package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/snapshot/durable"
)

// Magic begins every backup. What follows:
//
//	header length u32 | header: JSON
//	kind u8 | key length u32 | value length u32 | key | value
//	0 u8 | SHA-256 of everything before
//
// Integers are big-endian. An entry is a key of the database, or a file of the state directory with its name as the
// key.
const Magic = "refitd backup 1\n"

const (
	kindEnd  = 0
	kindPair = 1
	kindFile = 2
)

// maxEntry bounds a key or value of a backup before it is read: files are larger than values of the database.
const maxEntry = 1 << 30

// A Header says what a backup holds.
type Header struct {
	Format     int               `json:"format"` // of the state
	Lineage    string            `json:"lineage"`
	ConfigHash string            `json:"config_hash"`
	Positions  []ledger.Position `json:"positions"`
}

// A Writer writes a backup: Header, then Pair and File, then End, then Flush. After an error only Flush may follow.
type Writer struct {
	buffered *bufio.Writer
	sum      hash.Hash
	out      io.Writer // both
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer {
	b := &Writer{buffered: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	b.out = io.MultiWriter(b.buffered, b.sum)
	return b
}

// Header writes what the backup begins with.
func (b *Writer) Header(h *Header) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, "%s%s%s", Magic, binary.BigEndian.AppendUint32(nil, uint32(len(text))), text)
	return err
}

// Pair writes a key of the database with its value.
func (b *Writer) Pair(key, value []byte) error { return b.entry(kindPair, key, value) }

// File writes a file of the state directory.
func (b *Writer) File(name string, content []byte) error {
	return b.entry(kindFile, []byte(name), content)
}

func (b *Writer) entry(kind byte, key, value []byte) error {
	head := append(make([]byte, 0, 9+len(key)), kind)
	head = binary.BigEndian.AppendUint32(head, uint32(len(key)))
	head = append(binary.BigEndian.AppendUint32(head, uint32(len(value))), key...)
	if _, err := b.out.Write(head); err != nil {
		return err
	}
	_, err := b.out.Write(value)
	return err
}

// End writes the digest of the whole.
func (b *Writer) End() error {
	if _, err := b.out.Write([]byte{kindEnd}); err != nil {
		return err
	}
	_, err := b.buffered.Write(b.sum.Sum(nil))
	return err
}

// Flush writes what is buffered.
func (b *Writer) Flush() error { return b.buffered.Flush() }

// Read copies a backup into the database of a new state in dir, with those of its files that have the given names, and
// compares its digest at the end. The error wraps ErrCorrupt if the backup is damaged, ErrFormat if it is of a later
// version; what was written by then stays.
func Read(ctx context.Context, r io.Reader, d *storage.Disk, dir string, files []string) (*Header, error) {
	in := &reader{in: bufio.NewReaderSize(r, 1<<16), sum: sha256.New(), dir: dir, files: files}
	if err := in.read(ctx, d); err != nil {
		return nil, err
	}
	return &in.header, nil
}

// A backupError wraps ErrCorrupt without its words: the state is not at fault.
type backupError string

func (e backupError) Error() string     { return string(e) }
func (e backupError) Is(err error) bool { return err == fault.ErrCorrupt }

// Damaged returns an error that wraps ErrCorrupt without its words.
func Damaged(format string, args ...any) error {
	return backupError("sketch: " + fmt.Sprintf(format, args...))
}

type reader struct {
	in     *bufio.Reader
	sum    hash.Hash
	dir    string
	files  []string
	header Header
	err    error // the first; nothing is read after it
}

func (b *reader) bytes(n int) []byte {
	var out bytes.Buffer // grows with what is there, not with what a damaged length says
	if b.err == nil {
		if _, err := io.CopyN(io.MultiWriter(&out, b.sum), b.in, int64(n)); err != nil {
			b.err = Damaged("the backup ends early: %v", err)
		}
	}
	return out.Bytes()
}

func (b *reader) length() int {
	text := b.bytes(4)
	if b.err != nil {
		return 0
	}
	n := binary.BigEndian.Uint32(text)
	if n > maxEntry {
		b.err = Damaged("the backup has an entry of %d bytes", n)
	}
	return int(n)
}

// read copies the backup and compares its digest at the end.
func (b *reader) read(ctx context.Context, d *storage.Disk) error {
	if magic := b.bytes(len(Magic)); b.err != nil || string(magic) != Magic {
		return Damaged("this is not a backup of refitd, or one of another version")
	}
	text := b.bytes(b.length())
	if b.err != nil {
		return b.err
	}
	if err := json.Unmarshal(text, &b.header); err != nil {
		return Damaged("header of the backup: %v", err)
	}
	if b.header.Format > codec.FormatVersion {
		return fmt.Errorf("sketch: backup: format %d is newer than %d, the newest this build reads: %w",
			b.header.Format, codec.FormatVersion, fault.ErrFormat)
	}
	w := pairWriter{disk: d}
	for {
		kind := b.bytes(1)
		if b.err != nil || kind[0] == kindEnd {
			break
		}
		keyLength, valueLength := b.length(), b.length()
		key, value := b.bytes(keyLength), b.bytes(valueLength)
		if b.err != nil {
			break
		}
		switch kind[0] {
		case kindPair:
			if err := w.write(ctx, key, value); err != nil {
				return err
			}
		case kindFile:
			if !slices.Contains(b.files, string(key)) {
				return Damaged("the backup has a file %.40q", key)
			}
			if err := durable.WriteFile(filepath.Join(b.dir, string(key)), 0o600, durable.Bytes(value)); err != nil {
				return fault.Denied(err)
			}
		default:
			return Damaged("the backup has an entry of kind %d", kind[0])
		}
	}
	want := b.sum.Sum(nil)
	if digest := b.bytes(sha256.Size); b.err != nil {
		return b.err
	} else if !bytes.Equal(digest, want) {
		return Damaged("digest of the backup does not match")
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
		return Damaged("the backup has a value of %d bytes at a key of %d", len(value), len(key))
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
