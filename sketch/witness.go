package sketch

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/snapshot/durable"
)

const witnessName = "WITNESS"

// A Witness is the small file in the state directory that records how far the state had come: Badger loses the end of
// its log, or all of it, without an error. What it says is durable, so that a state behind it has lost something.
type Witness struct {
	Format     int         `json:"format"`
	Lineage    string      `json:"lineage"` // the first one: that of today changes with sizes and erasures
	Seed       uint64      `json:"seed"`
	Forgotten  []Marker    `json:"forgotten,omitempty"` // by field and hash
	Partitions []Testimony `json:"partitions"`          // by topic and partition
}

// A Testimony is what a witness says of one partition.
type Testimony struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Incarnation uint32 `json:"incarnation"`
	Start       int64  `json:"start"`
	Next        int64  `json:"next"`
	Digest      string `json:"digest"`
}

// A Rollback is a partition of which the state was found behind its witness: offsets Next..Witnessed-1 had been applied
// and have to be read again, which gives the same state.
type Rollback struct {
	Topic           string
	Partition       int32
	Next, Witnessed int64
}

// Offsets returns how many offsets were lost.
func (r *Rollback) Offsets() int64 { return r.Witnessed - r.Next }

// ReadWitness returns the witness of a state directory without opening the state. The error wraps ErrNoState if dir
// has no witness, ErrCorrupt if it cannot be read, and ErrFormat if it is of a later version.
func ReadWitness(dir string) (*Witness, error) {
	w, err := (&Options{Dir: dir}).readWitness()
	if err == nil && w == nil {
		err = fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
	}
	return w, err
}

// Carried returns the markers as a state needs them that is made anew from the log (Options.Forgotten): what they say
// of the topics that are there now, which it takes for the first of their name.
func (w *Witness) Carried() []Marker {
	out := w.carriedTo(func(string) uint32 { return 0 })
	for i := range out {
		out[i].Done, out[i].Row = true, nil
	}
	return out
}

// carriedTo returns the markers as another state needs them, which counts the topics that are there now as incarnation
// says.
func (w *Witness) carriedTo(incarnation func(topic string) uint32) []Marker {
	now := map[string]uint32{} // 0 of a topic that the state has not begun to read
	for _, t := range w.Partitions {
		now[t.Topic] = max(now[t.Topic], t.Incarnation)
	}
	out := slices.Clone(w.Forgotten)
	for i := range out {
		var cut []Position
		for _, p := range out[i].Cut {
			if p.Incarnation == now[p.Topic] {
				p.Incarnation = incarnation(p.Topic)
				cut = append(cut, p)
			}
		}
		out[i].Cut = cut
	}
	return out
}

// readWitness returns an error wrapping os.ErrNotExist if there is no witness.
func readWitness(dir string) (*Witness, error) {
	return readWitnessFile(filepath.Join(dir, witnessName))
}

func readWitnessFile(name string) (*Witness, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Denied(err)
	}
	var w Witness
	sealed, sum, ok := strings.Cut(string(text), "\n")
	if ok && sum != "" && strings.TrimSuffix(sum, "\n") != checkLine(sealed) {
		return nil, fault.Corrupt("checksum of %s does not match", name)
	}
	if err := json.Unmarshal([]byte(sealed), &w); err != nil || w.Format < 1 || w.Lineage == "" {
		return nil, fault.Corrupt("%s is not readable", name)
	}
	return &w, nil
}

// checkLine is the second line of a witness: the CRC-32C of the first.
func checkLine(text string) string { return fmt.Sprintf("%08x", codec.Checksum(nil, []byte(text))) }

// write replaces the witness; it is durable when write returns.
func (w *Witness) write(dir string) error { return w.writeFile(filepath.Join(dir, witnessName)) }

func (w *Witness) writeFile(name string) error {
	text, err := w.text()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(name, 0o600, durable.Bytes(text)); err != nil {
		return fault.Denied(err)
	}
	return nil
}

// text is the file of a witness.
func (w *Witness) text() ([]byte, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	return fmt.Appendf(text, "\n%s\n", checkLine(string(text))), nil
}

// witnessOf returns the witness of the store after a commit: Apply holds the mutex from its first change to its last.
func (s *Store) witnessOf() (*Witness, error) {
	rows := s.Ledger()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	w := &Witness{
		Forgotten: s.sortedMarkers(),
		Format:    codec.FormatVersion,
		Lineage:   s.settings.First(),
		Seed:      s.settings.Seed,
	}
	for i := range rows {
		l := &rows[i]
		w.Partitions = append(
			w.Partitions,
			Testimony{Topic: l.Topic, Partition: l.Partition, Incarnation: l.Incarnation,
				Start: l.Start, Next: l.Next, Digest: hex.EncodeToString(l.Digest[:])},
		)
	}
	return w, nil
}

// Testify returns what Witness writes down.
func (s *Store) Testify() (*Witness, error) { return s.witnessOf() }

// Witness writes down how far the state has come, durably, so that the next Open notices if Badger has lost some of it.
// Close does it too. It does nothing for a store in memory and for one of OpenExisting, and returns the storage error
// of a store that has one.
func (s *Store) Witness() error {
	if s.home == nil || !s.home.witnesses {
		return nil
	}
	if err := s.gone(); err != nil {
		return err
	}
	return s.bearWitness()
}

// bearWitness replaces the witness by what may be said now, unless it says so already.
func (s *Store) bearWitness() error {
	s.home.mu.Lock()
	defer s.home.mu.Unlock()
	w, err := s.witnessOf()
	if err != nil {
		return err
	}
	text, err := w.text()
	if err != nil || bytes.Equal(text, s.home.witness) {
		return err
	}
	if err := w.write(s.home.dir); err != nil {
		return err
	}
	s.home.witness = text
	return nil
}

// gone returns an error wrapping ErrGone if the files of the store are not where they were.
func (s *Store) gone() error {
	if d, ok := s.backend.(*storage.Disk); ok {
		return d.Gone()
	}
	return nil
}

// Rollbacks returns the partitions that Open found behind their witness, by topic and partition.
func (s *Store) Rollbacks() []Rollback {
	if s.home == nil {
		return nil
	}
	return s.home.rollbacks
}

// compare returns where the ledger is behind the witness. A partition that the ledger lacks begins again where it once
// began:
// the start policy of a new partition could be past it.
func (s *Store) compare(w *Witness, dir string) ([]Rollback, error) {
	var behind []Rollback
	for _, t := range w.Partitions {
		if newest, _ := s.ledger.Incarnation(t.Topic); newest > t.Incarnation {
			continue // the topic was made again, which was accepted after the witness wrote
		}
		next := t.Start
		if i, ok := s.ledger.Current(t.Topic, t.Partition); ok {
			l := s.ledger.At(i)
			switch {
			case l.Incarnation < t.Incarnation:
				return nil, fault.Corrupt("%s has incarnation %d of %s/%d, but %s says %d", dir, l.Incarnation, t.Topic,
					t.Partition, witnessName, t.Incarnation)
			case l.Next == t.Next && hex.EncodeToString(l.Digest[:]) != t.Digest:
				return nil, fault.Corrupt("%s has another digest of %s/%d at offset %d than %s", dir, t.Topic, t.Partition,
					t.Next, witnessName)
			}
			next = l.Next
		} else if t.Incarnation > 0 {
			return nil, fault.Corrupt("%s lacks %s/%d, which %s says is of incarnation %d", dir, t.Topic, t.Partition,
				witnessName, t.Incarnation)
		}
		if next < t.Next {
			behind = append(behind, Rollback{t.Topic, t.Partition, next, t.Next})
		}
	}
	return behind, nil
}
