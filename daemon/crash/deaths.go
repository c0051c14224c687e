package crash

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// place is a partition.
type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// A suspect is the range of offsets, [From, To), that was in hand at every one of a number of deaths.
type suspect struct {
	place
	Incarnation uint32 `json:"incarnation,omitempty"` // of a recreated topic
	From        int64  `json:"from"`
	To          int64  `json:"to"`
	Deaths      int    `json:"deaths"`
}

// quarantined reports whether there were enough deaths. All but the first, which may name thousands of records, name
// one: From alone is left.
func (s *suspect) quarantined() bool { return s.Deaths >= maxReading }

type training struct {
	Deaths int       `json:"deaths"`
	Last   time.Time `json:"last"` // when the start after the last one noticed
}

// deaths is a deathsFile.
type deaths struct {
	Reading  []suspect `json:"reading"` // one for each partition at most
	Training training  `json:"training"`
}

// readDeaths returns no deaths where there is no file, or none that can be read, which is removed: to count anew costs
// a few starts.
func readDeaths(dir string, log *slog.Logger) (d deaths, err error) {
	path := filepath.Join(dir, deathsFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(b, &d); err != nil {
		log.Warn("deaths of earlier processes cannot be read: counting anew", "path", path, "error", err)
		return deaths{}, os.Remove(path)
	}
	return d, nil
}

// write replaces the file, or removes it if there is nothing to say.
func (d *deaths) write(dir string) error {
	path := filepath.Join(dir, deathsFile)
	if len(d.Reading) == 0 && d.Training.Deaths == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return durable.WriteFile(path, 0o600, durable.Bytes([]byte(d.String())))
}

// String is the text of the file.
func (d *deaths) String() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic("crash: deaths are not representable as JSON: " + err.Error()) // plain numbers and strings
	}
	return string(b) + "\n"
}

// passed drops what the ledger has passed, and what was of a topic that is another one now.
func (d *deaths) passed(ledger []sketch.LedgerRow) {
	d.Reading = slices.DeleteFunc(d.Reading, func(s suspect) bool {
		return slices.ContainsFunc(ledger, func(l sketch.LedgerRow) bool {
			return l.Topic == s.Topic && l.Partition == s.Partition &&
				(l.Next >= s.To || l.Incarnation != s.Incarnation)
		})
	})
}

// add counts a death with s in hand. What is suspect of a partition is what all its deaths have in common; where that
// is nothing, the last one is the first.
func (d *deaths) add(s suspect) suspect {
	s.Deaths = 1
	i := slices.IndexFunc(d.Reading, func(old suspect) bool { return old.place == s.place })
	if i < 0 {
		d.Reading = append(d.Reading, s)
		return s
	}
	if old := d.Reading[i]; max(old.From, s.From) < min(old.To, s.To) {
		s.From, s.To, s.Deaths = max(old.From, s.From), min(old.To, s.To), old.Deaths+1
	}
	d.Reading[i] = s
	return s
}
