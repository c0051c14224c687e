package publish

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// logFile is the publish log of a model: a line of JSON for each change, only ever appended to.
const logFile = "log.jsonl"

// The events.
const (
	EventPublish   pointer.Event = "publish"   // a version was published; latest moved, and champion if it was promoted
	EventPromote   pointer.Event = "promote"   // somebody chose another version for an alias
	EventRollback  pointer.Event = "rollback"  // somebody moved an alias back
	EventAlias     pointer.Event = "alias"     // any other move
	EventPrune     pointer.Event = "prune"     // versions were removed
	EventRecovered pointer.Event = "recovered" // a move whose writer was killed before it could record it
	// the publisher moved an alias that none of its keys had signed, or whose version was damaged
	EventRestored pointer.Event = "restored"
)

// AliasMove is an alias before and after; 0 is no version.
type AliasMove struct {
	Alias string `json:"alias"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
}

// Record is a line of the publish log.
type Record struct {
	Sequence       int64         `json:"sequence"` // 1, 2, … within a model: the order, also where a clock was set back
	Time           time.Time     `json:"time"`     // UTC, milliseconds
	Event          pointer.Event `json:"event"`
	Version        int64         `json:"version,omitempty"` // that the event is about
	Kind           string        `json:"kind,omitempty"`    // refit or update
	ManifestDigest string        `json:"manifest_digest,omitempty"`
	PayloadDigest  string        `json:"payload_digest,omitempty"`
	Moves          []AliasMove   `json:"moves,omitempty"`
	Decision       string        `json:"decision,omitempty"` // of the gate: promoted or kept
	Reason         string        `json:"reason,omitempty"`   // of the gate
	// of the version, and of the champion it was compared with, on the same events
	Gate         *format.Metrics `json:"gate,omitempty"`
	ChampionGate *format.Metrics `json:"champion_gate,omitempty"`
	Removed      []int64         `json:"removed,omitempty"` // versions
	Why          string          `json:"why,omitempty"`     // in the words of the person or program that did it
	By           string          `json:"by,omitempty"`
}

// describe takes over what a manifest says of a version.
func (r *Record) describe(m *format.Manifest) {
	r.Version, r.Kind, r.ManifestDigest, r.PayloadDigest = m.Version, m.Kind, m.Digest, m.PayloadDigest
	if r.Event == EventPublish {
		r.Decision, r.Reason, r.Gate, r.ChampionGate = m.Decision, m.Reason, m.Gate, m.ChampionGate
	}
}

// maxRecordBytes bounds a line of the log.
const maxRecordBytes = 64 << 10

// Log yields the records of the publish log of a model, oldest first. A last line that is not whole is one that is
// being written, or whose writer was killed, and is left out. A line in between that cannot be read is yielded as
// ErrFormat with its number, and what follows it is yielded too. A model that was never published to has ErrNotFound;
// one without a log, as the first format had none, has no records.
func (s *Store) Log(model string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		root, err := disk.OpenModel(s.dir, model)
		if err != nil {
			yield(Record{}, fmt.Errorf("snapshot: log of %s: %w", model, err))
			return
		}
		defer root.Close()
		files, err := openLogs(root)
		if err != nil {
			yield(Record{}, fmt.Errorf("snapshot: log of %s: %w", model, err))
			return
		}
		last := int64(0)
		for _, f := range files {
			defer f.Close()
			for r, err := range linesOf(f) {
				if err != nil {
					err = fmt.Errorf("snapshot: log of %s: %s: %w", model, f.Name(), err)
				} else if r.Sequence <= last {
					continue // carried over from the file before
				} else {
					last = r.Sequence
				}
				if !yield(r, err) || err != nil && !errors.Is(err, disk.ErrFormat) {
					return
				}
			}
		}
	}
}

// linesOf yields the records of one file.
func linesOf(f io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		lines := bufio.NewReaderSize(f, maxRecordBytes)
		for number := 1; ; number++ {
			line, err := lines.ReadSlice('\n')
			long := errors.Is(err, bufio.ErrBufferFull)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			if err == io.EOF {
				return
			}
			var r Record
			switch {
			case err != nil:
			case long:
				err = fmt.Errorf("line %d: %w: longer than any record", number, disk.ErrFormat)
			default:
				if r, err = decodeRecord(line); err != nil {
					err = fmt.Errorf("line %d: %w: %w", number, disk.ErrFormat, err)
				}
			}
			if !yield(r, err) || err != nil && !errors.Is(err, disk.ErrFormat) {
				return
			}
		}
	}
}

// decodeRecord reads a line of the log.
func decodeRecord(line []byte) (r Record, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, err
	}
	if r.Sequence < 1 || r.Sequence > disk.MaxVersion {
		return Record{}, fmt.Errorf("sequence %d", r.Sequence)
	}
	return r, nil
}

// openLog opens the log's newest file, which has to be a regular one.
func openLog(root *os.Root) (*os.File, error) { return disk.OpenRegular(root, logFile) }

// LiveAt returns, for each alias of a model that named a version at a moment, the last record that moved it until then.
// Where a clock was set back, the order of the log counts. Of a moment before the log's oldest file, only aliases that
// have not moved since are known. It returns ErrNotFound, or ErrFormat for a log with a line that cannot be read.
func (s *Store) LiveAt(model string, moment time.Time) (map[string]Record, error) {
	live := make(map[string]Record)
	for r, err := range s.Log(model) {
		if err != nil {
			return nil, err
		}
		if r.Time.After(moment) {
			continue
		}
		for _, move := range r.Moves {
			if move.To == 0 {
				delete(live, move.Alias)
			} else {
				live[move.Alias] = r
			}
		}
	}
	return live, nil
}

// newestSequence returns the largest sequence in the log's last lines up to most, 0 if they have no such sequence.
func newestSequence(root *os.Root, most int64) (newest int64, err error) {
	f, err := openLog(root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(st.Size(), 2*maxRecordBytes))
	if _, err := f.ReadAt(tail, st.Size()-int64(len(tail))); err != nil && err != io.EOF {
		return 0, err
	}
	for line := range bytes.Lines(tail) {
		if r, err := decodeRecord(line); err == nil && line[len(line)-1] == '\n' && r.Sequence <= most {
			newest = max(newest, r.Sequence)
		}
	}
	return newest, nil
}

// appendLog adds a record, durably. What is left of a torn last line is cut off first, and a file that is full is put
// aside. The caller holds the lock.
func (s *Store) appendLog(root *os.Root, r *Record) error {
	if err := s.rotate(root); err != nil {
		return fmt.Errorf("%s: %w", logFile, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(logFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	end, err := wholeLines(f)
	if err == nil {
		err = s.Step("snapshot.log")
	}
	if err == nil {
		_, err = f.WriteAt(append(b, '\n'), end)
	}
	if err := errors.Join(err, f.Sync(), f.Close(), s.Step("snapshot.logged")); err != nil {
		return fmt.Errorf("%s: %w", logFile, err)
	}
	if end == 0 {
		return durable.SyncDir(root)
	}
	return nil
}

// wholeLines cuts a torn last line off and returns the size that is left.
func wholeLines(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return 0, err
	}
	tail := make([]byte, min(st.Size(), 2*maxRecordBytes))
	begin := st.Size() - int64(len(tail))
	if _, err := f.ReadAt(tail, begin); err != nil && err != io.EOF {
		return 0, err
	}
	end := begin + int64(bytes.LastIndexByte(tail, '\n')) + 1
	if end == st.Size() {
		return end, nil
	}
	return end, f.Truncate(end)
}

// recoverLog writes the records of alias moves that the log does not have: their writer was killed before it could,
// or the log was lost. It returns the largest sequence that the log has then, of those that a writer continues from.
// newest is the newest version. The caller holds the lock.
func (s *Store) recoverLog(root *os.Root, model string, newest int64) (last int64, err error) {
	if err := resumeRotation(root); err != nil {
		return 0, err
	}
	most := pointer.MostMoves(newest)
	if last, err = newestSequence(root, most); err != nil {
		return 0, err
	}
	aliases, _, err := aliasesIn(root, model)
	if err != nil {
		return 0, err
	}
	aliases = slices.DeleteFunc(aliases,
		func(a namedPointer) bool { return a.Sequence > most || s.forged(model, a.name, &a.Pointer) != nil })
	slices.SortStableFunc(aliases, func(a, b namedPointer) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for i := 0; i < len(aliases); {
		a := aliases[i]
		r := Record{
			Event:          EventRecovered,
			Sequence:       a.Sequence,
			Time:           a.Moved,
			Version:        a.Version,
			ManifestDigest: a.ManifestDigest,
		}
		for ; i < len(aliases) && aliases[i].Sequence == a.Sequence; i++ {
			r.Moves = append(r.Moves, AliasMove{Alias: aliases[i].name, To: aliases[i].Version})
		}
		if a.Sequence > last {
			if err := s.appendLog(root, &r); err != nil {
				return 0, err
			}
			last = a.Sequence
		}
	}
	return last, nil
}
