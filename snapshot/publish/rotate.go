package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// A file of the publish log that has grown to maxLogBytes is put aside as log-<sequence of its last record>.jsonl, and
// the next one begins with the records of the moves that still stand. Of those put aside the newest maxLogs stay: at a
// version every ten seconds, two months.
const (
	maxLogBytes = 16 << 20
	maxLogs     = 16
	logPrefix   = "log-"
	logSuffix   = ".jsonl"
	newLog      = staging + "log" // swept with what killed writers leave
)

// asideLogs returns the sequences that name the files put aside, ascending.
func asideLogs(root *os.Root) ([]int64, error) {
	names, err := disk.List(root, ".")
	if err != nil {
		return nil, err
	}
	var sequences []int64
	for _, name := range names {
		n, ok := asideSequence(name)
		if !ok {
			continue
		}
		if st, err := root.Lstat(name); err == nil && st.Mode().IsRegular() {
			sequences = append(sequences, n)
		}
	}
	slices.Sort(sequences)
	return sequences, nil
}

// asideSequence returns the sequence that names a file put aside.
func asideSequence(name string) (n int64, ok bool) {
	number, ok := strings.CutPrefix(strings.TrimSuffix(name, logSuffix), logPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil && asideLog(n) == name
}

func asideLog(sequence int64) string {
	return logPrefix + strconv.FormatInt(sequence, 10) + logSuffix
}

// openLogs opens the files of the log, oldest first. The newest is opened before the others are looked for: put aside
// in between, it is met twice rather than not at all.
func openLogs(root *os.Root) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
			files = nil
		}
	}()
	newest, err := openLog(root)
	if newest != nil {
		files = append(files, newest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files, err
	}
	aside, err := asideLogs(root)
	if err != nil {
		return files, err
	}
	for _, sequence := range aside {
		f, err := disk.OpenRegular(root, asideLog(sequence))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was listed
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	if newest != nil {
		files = append(files[1:], newest)
	}
	return files, nil
}

// rotate puts a full file aside and begins the next one. The caller holds the lock. A writer killed in between leaves
// the full file under its new name only, which resumeRotation takes back.
func (s *Store) rotate(root *os.Root) error {
	f, err := openLog(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil || st.Size() < s.logBytes() {
		return errors.Join(err, f.Close())
	}
	carried, last, err := standing(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := errors.Join(durable.Create(root, newLog, 0o644, durable.Bytes(carried)), s.Step(
		"snapshot.log_begun")); err != nil {
		return err
	}
	if err := errors.Join(root.Rename(logFile, asideLog(last)), s.Step("snapshot.log_aside")); err != nil {
		return err
	}
	if err := durable.Rename(root, newLog, logFile); err != nil {
		return err
	}
	aside, err := asideLogs(root)
	if err != nil {
		return err
	}
	for len(aside) > maxLogs {
		if err := root.Remove(asideLog(aside[0])); err != nil {
			return err
		}
		aside = aside[1:]
	}
	return nil
}

// logBytes is the size at which the log begins another file.
func (s *Store) logBytes() int64 {
	if s.Bucket != nil {
		return min(s.LogBytes, maxObjectLog)
	}
	return s.LogBytes
}

// resumeRotation takes the newest file put aside as the log, if the log is missing because a writer was killed.
func resumeRotation(root *os.Root) error {
	if _, err := root.Lstat(logFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	aside, err := asideLogs(root)
	if err != nil || len(aside) == 0 {
		return err
	}
	return durable.Rename(root, asideLog(aside[len(aside)-1]), logFile)
}

// standing returns the lines that the next file begins with: of each record the moves that no later one overtook, where
// there are any, and the last record in any case, for its sequence. What cannot be read is left where it is.
func standing(f *os.File) (lines []byte, last int64, err error) {
	var records []Record
	for r, err := range linesOf(f) {
		if err != nil && !errors.Is(err, disk.ErrFormat) {
			return nil, 0, err
		}
		if err == nil && r.Sequence > last {
			records, last = append(records, r), r.Sequence
		}
	}
	moved := make(map[string]bool)
	for i := len(records) - 1; i >= 0; i-- {
		records[i].Moves = slices.DeleteFunc(records[i].Moves, func(m AliasMove) bool {
			later := moved[m.Alias]
			moved[m.Alias] = true
			return later || m.To == 0
		})
	}
	for _, r := range records {
		if len(r.Moves) == 0 && r.Sequence != last {
			continue
		}
		b, err := json.Marshal(&r)
		if err != nil {
			return nil, 0, fmt.Errorf("record %d: %w", r.Sequence, err)
		}
		lines = append(append(lines, b...), '\n')
	}
	return lines, last, nil
}
