package witness

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/snapshot/durable"
)

// Name is the name of the file in a state directory.
const Name = "WITNESS"

// A Witness is the small file in the state directory that records how far the state had come: Badger loses the end of
// its log, or all of it, without an error. What it says is durable, so that a state behind it has lost something.
type Witness struct {
	Format     int             `json:"format"`
	Lineage    string          `json:"lineage"` // the first one: that of today changes with sizes and erasures
	Seed       uint64          `json:"seed"`
	Forgotten  []ledger.Marker `json:"forgotten,omitempty"` // by field and hash
	Partitions []Testimony     `json:"partitions"`          // by topic and partition
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

// Carried returns the markers as a state needs them that is made anew from the log (Options.Forgotten): what they say
// of the topics that are there now, which it takes for the first of their name.
func (w *Witness) Carried() []ledger.Marker {
	out := CarriedTo(w, func(string) uint32 { return 0 })
	for i := range out {
		out[i].Done, out[i].Row = true, nil
	}
	return out
}

// CarriedTo returns the markers of a witness as another state needs them, which counts the topics that are there now as
// incarnation says.
func CarriedTo(w *Witness, incarnation func(topic string) uint32) []ledger.Marker {
	now := map[string]uint32{} // 0 of a topic that the state has not begun to read
	for _, t := range w.Partitions {
		now[t.Topic] = max(now[t.Topic], t.Incarnation)
	}
	out := slices.Clone(w.Forgotten)
	for i := range out {
		var cut []ledger.Position
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

// Read returns the witness of a state directory. The error wraps os.ErrNotExist if it has none, ErrCorrupt if that
// cannot be read.
func Read(dir string) (*Witness, error) {
	return ReadFile(filepath.Join(dir, Name))
}

// ReadFile is Read for a file of another name.
func ReadFile(name string) (*Witness, error) {
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

// Write replaces the witness of a state directory; it is durable when Write returns.
func Write(w *Witness, dir string) error { return WriteFile(w, filepath.Join(dir, Name)) }

// WriteFile is Write for a file of another name.
func WriteFile(w *Witness, name string) error {
	text, err := Text(w)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(name, 0o600, durable.Bytes(text)); err != nil {
		return fault.Denied(err)
	}
	return nil
}

// Text is the file of a witness.
func Text(w *Witness) ([]byte, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	return fmt.Appendf(text, "\n%s\n", checkLine(string(text))), nil
}

// CheckFormat returns an error wrapping ErrFormat if the witness is of a later version.
func CheckFormat(w *Witness, path string) error {
	if w.Format > codec.FormatVersion {
		return fmt.Errorf("sketch: %s: format %d is newer than %d, the newest this build reads: %w", path, w.Format,
			codec.FormatVersion, fault.ErrFormat)
	}
	return nil
}

// Compare returns where the ledger of a state directory is behind the witness. A partition that the ledger lacks begins
// again where it once began: the start policy of a new partition could be past it.
func Compare(w *Witness, book *ledger.Book, dir string) ([]Rollback, error) {
	var behind []Rollback
	for _, t := range w.Partitions {
		if newest, _ := book.Incarnation(t.Topic); newest > t.Incarnation {
			continue // the topic was made again, which was accepted after the witness wrote
		}
		next := t.Start
		if i, ok := book.Current(t.Topic, t.Partition); ok {
			l := book.At(i)
			switch {
			case l.Incarnation < t.Incarnation:
				return nil, fault.Corrupt("%s has incarnation %d of %s/%d, but %s says %d", dir, l.Incarnation, t.Topic,
					t.Partition, Name, t.Incarnation)
			case l.Next == t.Next && hex.EncodeToString(l.Digest[:]) != t.Digest:
				return nil, fault.Corrupt("%s has another digest of %s/%d at offset %d than %s", dir, t.Topic, t.Partition,
					t.Next, Name)
			}
			next = l.Next
		} else if t.Incarnation > 0 {
			return nil, fault.Corrupt("%s lacks %s/%d, which %s says is of incarnation %d", dir, t.Topic, t.Partition,
				Name, t.Incarnation)
		}
		if next < t.Next {
			behind = append(behind, Rollback{t.Topic, t.Partition, next, t.Next})
		}
	}
	return behind, nil
}

// Of returns the witness of a state with these rows, by topic and partition, and these markers, by field and hash.
func Of(rows []ledger.Row, markers []ledger.Marker, settings *policy.Settings) *Witness {
	w := &Witness{
		Forgotten: markers,
		Format:    codec.FormatVersion,
		Lineage:   settings.First(),
		Seed:      settings.Seed,
	}
	for i := range rows {
		l := &rows[i]
		w.Partitions = append(
			w.Partitions,
			Testimony{Topic: l.Topic, Partition: l.Partition, Incarnation: l.Incarnation,
				Start: l.Start, Next: l.Next, Digest: hex.EncodeToString(l.Digest[:])},
		)
	}
	return w
}
