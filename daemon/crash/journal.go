// Package crash notes, in the state directory of a model, what the process has in hand: the records it is reading,
// and whether it trains. The system keeps what a process has written however that ends, so nothing is synchronised;
// only a power cut loses a note, and then a count is one short. The start after a death counts it, and says when
// something has ended the process too often.
package crash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/sketch"
)

// Files in the state directory.
const (
	HandFile     = "in-hand"     // for each stage "topic partition from to" of the records in it, or an empty line
	trainingFile = "in-training" // is there while a refit runs
	deathsFile   = "deaths.json"
)

// Files are all of them.
var Files = []string{HandFile, trainingFile, deathsFile}

// How often the process may die of the same thing.
const (
	maxReading  = 3 // with the same record in hand
	maxTraining = 2 // in refits, none of which ended
)

// A Stage is what is done with records. Each has its own records in hand.
type Stage int

// The stages that a record can end the process in.
const (
	Decoding Stage = iota
	Learning
	stages = iota
)

// stageBytes is the room that a stage has in a HandFile: a topic's name has 249 characters at most.
const stageBytes = 512

// Journal is that of one model. Take and Done of a stage belong to one goroutine at a time, Hold and Release to that of
// Decoding. The other methods are safe for concurrent use.
type Journal struct {
	dir       string
	log       *slog.Logger
	exclusive *sync.Mutex
	hand      *os.File
	broken    atomic.Bool // it could not be written
	lines     [stages][]byte
	suspects  map[place]suspect // at the start

	mu     sync.Mutex // guards deaths, and the file of that name
	deaths deaths
}

// Open reads what an earlier process left in dir, counts its death if it died, and begins anew. ledger is that of the
// state: what it has passed is no suspect any more. exclusive is shared by the journals of a process: one at a time has
// a single record in hand, so that a death names one. now is the time of the start.
func Open(dir string, ledger []sketch.LedgerRow, exclusive *sync.Mutex, now time.Time,
	log *slog.Logger) (_ *Journal, err error) {
	j := &Journal{dir: dir, log: log, exclusive: exclusive, suspects: make(map[place]suspect)}
	if j.hand, err = os.OpenFile(filepath.Join(dir, HandFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("crash: %w", err)
	}
	held, err := io.ReadAll(j.hand)
	for stage := range Stage(stages) { // before the count: a death in between is not counted twice
		if err == nil {
			_, err = j.hand.WriteAt([]byte{'\n'}, int64(stage)*stageBytes)
		}
	}
	if err == nil {
		j.deaths, err = readDeaths(dir, log)
	}
	if err == nil {
		err = j.count(string(held), ledger, now)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("crash: %w", err), j.hand.Close())
	}
	for _, s := range j.deaths.Reading {
		j.suspects[s.place] = s
	}
	return j, nil
}

// count adds what was in hand to the deaths.
func (j *Journal) count(held string, ledger []sketch.LedgerRow, now time.Time) error {
	before := j.deaths.String()
	j.deaths.passed(ledger)
	for _, s := range parseHeld(held, ledger) {
		s = j.deaths.add(s)
		j.log.Warn("the last process died with records in hand", "topic", s.Topic, "partition", s.Partition, "from",
			s.From, "to", s.To, "deaths", s.Deaths)
	}
	switch err := os.Remove(filepath.Join(j.dir, trainingFile)); {
	case err == nil:
		j.deaths.Training.Deaths++
		j.deaths.Training.Last = now
		j.log.Warn("the last process died during a refit", "deaths", j.deaths.Training.Deaths)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if j.deaths.String() == before {
		return nil
	}
	return j.deaths.write(j.dir)
}

// parseHeld reads a HandFile. What several stages had of one partition is one range.
func parseHeld(text string, ledger []sketch.LedgerRow) (held []suspect) {
	for stage := range stages {
		s, ok := parseStage(text[min(stage*stageBytes, len(text)):min((stage+1)*stageBytes, len(text))], ledger)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(held, func(other suspect) bool { return other.place == s.place }); i >= 0 {
			held[i].From, held[i].To = min(held[i].From, s.From), max(held[i].To, s.To)
		} else {
			held = append(held, s)
		}
	}
	return held
}

// parseStage reads what a stage had. What the ledger has already was stored before the death.
func parseStage(text string, ledger []sketch.LedgerRow) (s suspect, ok bool) {
	line, _, whole := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if !whole || len(fields) != 4 {
		return s, false
	}
	partition, err1 := strconv.ParseInt(fields[1], 10, 32)
	from, err2 := strconv.ParseInt(fields[2], 10, 64)
	to, err3 := strconv.ParseInt(fields[3], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return s, false
	}
	s = suspect{place: place{fields[0], int32(partition)}, From: from, To: to}
	for i := range ledger {
		if l := &ledger[i]; l.Topic == s.Topic && l.Partition == s.Partition {
			s.Incarnation, s.From = l.Incarnation, max(s.From, l.Next)
		}
	}
	return s, s.From < s.To
}

// Suspects reports whether the process died before with one of the records in [from, to) of a partition in hand. They
// are then taken one at a time, between Hold and Release, while no other stage has any.
func (j *Journal) Suspects(topic string, partition int32, from, to int64) bool {
	s, ok := j.suspects[place{topic, partition}]
	return ok && s.From < to && from < s.To
}

// Take notes that a stage has the records in [from, to) of a partition in hand.
func (j *Journal) Take(stage Stage, topic string, partition int32, from, to int64) {
	b := append(j.lines[stage][:0], topic...)
	b = strconv.AppendInt(append(b, ' '), int64(partition), 10)
	b = strconv.AppendInt(append(b, ' '), from, 10)
	b = strconv.AppendInt(append(b, ' '), to, 10)
	j.lines[stage] = append(b, '\n')
	j.write(stage, j.lines[stage])
}

// Done notes that a stage has nothing in hand.
func (j *Journal) Done(stage Stage) { j.write(stage, []byte{'\n'}) }

// Hold notes that one record is in hand, and waits until no other model has a single one.
func (j *Journal) Hold(topic string, partition int32, offset int64) {
	j.exclusive.Lock()
	j.Take(Decoding, topic, partition, offset, offset+1)
}

// Release ends Hold.
func (j *Journal) Release() {
	j.Done(Decoding)
	j.exclusive.Unlock()
}

// write continues without notes if they cannot be written: they are not worth the records.
func (j *Journal) write(stage Stage, b []byte) {
	if j.broken.Load() {
		return
	}
	if _, err := j.hand.WriteAt(b, int64(stage)*stageBytes); err != nil && !j.broken.Swap(true) {
		j.log.Warn("records in hand not noted", "note", "a record that ends the process will not be found", "error", err)
	}
}

// Quarantined returns the offset of a partition that is not to be read any more, and why, if there is one.
func (j *Journal) Quarantined(topic string, partition int32) (offset int64, reason string, ok bool) {
	s, ok := j.suspects[place{topic, partition}]
	if !ok || !s.quarantined() {
		return 0, "", false
	}
	return s.From, fmt.Sprintf(
		"quarantined: the process died %d times with offset %d of %s/%d in hand: continue behind it with "+
			"refitd state accept-gap --topic %s --partition %d --to %d, or try it again: stop refitd, remove %s and start it",
		s.Deaths,
		s.From,
		topic,
		partition,
		topic,
		partition,
		s.From+1,
		filepath.Join(j.dir, deathsFile),
	), true
}

// BeginTraining notes that a refit runs.
func (j *Journal) BeginTraining() {
	if err := os.WriteFile(filepath.Join(j.dir, trainingFile), nil, 0o600); err != nil {
		j.log.Warn("refit not noted", "note", "if the process dies in it that is not counted", "error", err)
	}
}

// EndTraining notes that none does. It may be called again.
func (j *Journal) EndTraining() {
	if err := os.Remove(filepath.Join(j.dir, trainingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.log.Warn("end of a refit not noted", "note", "it counts as a death of the process", "error", err)
	}
}

// TrainingDeaths returns how often the process died in a refit since one ended, when that was last noticed, and whether
// it is too often.
func (j *Journal) TrainingDeaths() (n int, last time.Time, tooOften bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := &j.deaths.Training
	return t.Deaths, t.Last, t.Deaths >= maxTraining
}

// ForgetTraining begins to count anew: a refit ended, or is no longer the same.
func (j *Journal) ForgetTraining() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.deaths.Training.Deaths == 0 {
		return
	}
	j.deaths.Training = training{}
	if err := j.deaths.write(j.dir); err != nil {
		j.log.Warn("deaths in refits not forgotten", "error", err)
	}
}

// Close notes a clean end. Nothing may be called afterwards.
func (j *Journal) Close() error {
	err := errors.Join(j.hand.Close(), os.Remove(filepath.Join(j.dir, HandFile)))
	if err != nil {
		return fmt.Errorf("crash: %w", err)
	}
	return nil
}
