package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/publish"
)

// Counters remembers in the state directory which versions and moves of aliases there have been, so that a store that
// was lost continues with the numbers after them: a consumer refuses a move that is not newer than the last one it
// took. It is safe for concurrent use.
type Counters struct {
	path string

	mu        sync.Mutex
	newest    publish.Numbers
	confirmed bool // the newest version was published; else its number may be taken again
}

// mostNumber is above all numbers: of a version each millisecond in a century. The next one has to be one, too.
const mostNumber = 1 << 42

// readCounters returns what a state remembers. What cannot be read is logged, and the numbers continue from the
// store's.
func readCounters(dir string, log *slog.Logger) *Counters {
	n := &Counters{path: filepath.Join(dir, config.NumbersFile), confirmed: true}
	b, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return n
	}
	if err == nil {
		err = json.Unmarshal(b, &n.newest)
	}
	if of := n.newest; err == nil && (min(of.Version, of.Sequence) < 0 || max(of.Version, of.Sequence) > mostNumber) {
		err = fmt.Errorf("version %d, move %d", of.Version, of.Sequence)
	}
	if err != nil {
		n.newest = publish.Numbers{}
		log.Error("numbers of the versions cannot be read", "note", "they continue from those in the store", "path", n.path,
			"error", err)
	}
	return n
}

// Reserve is publish.Store.Reserve: it returns the numbers asked for or, if those have been taken, the next ones. They
// are durable when it returns.
func (n *Counters) Reserve(_ string, next publish.Numbers) (publish.Numbers, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if next.Version != 0 {
		again := next.Version == n.newest.Version && !n.confirmed // the store did not take it
		if !again {
			next.Version = max(next.Version, n.newest.Version+1)
		}
		n.confirmed = false
	}
	if next.Sequence != 0 {
		next.Sequence = max(next.Sequence, n.newest.Sequence+1)
	}
	return next, n.write(next)
}

// Confirm says that the version reserved last was published.
func (n *Counters) Confirm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.confirmed = true
}

// Last returns the newest numbers that there were.
func (n *Counters) Last() publish.Numbers {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.newest
}

// Note takes up what somebody else put into the store.
func (n *Counters) Note(seen publish.Numbers) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if seen.Version > n.newest.Version {
		n.confirmed = true
	}
	return n.write(seen)
}

// write makes larger numbers durable. The caller holds mu.
func (n *Counters) write(seen publish.Numbers) error {
	larger := publish.Numbers{
		Version:  max(seen.Version, n.newest.Version),
		Sequence: max(seen.Sequence, n.newest.Sequence),
	}
	if larger == n.newest {
		return nil
	}
	b, err := json.Marshal(larger)
	if err == nil {
		err = durable.WriteFile(n.path, 0o600, durable.Bytes(append(b, '\n')))
	}
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	n.newest = larger
	return nil
}
