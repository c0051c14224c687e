package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/durable"
)

// queue is the file of a Notifier.
type queue struct {
	Version int64           `json:"version"` // newest version that was looked at
	Halted  map[string]bool `json:"halted"`  // halts that were sent and that still last
	Pending []Notice        `json:"pending"` // what is to be delivered, oldest first
}

// open reads the file, or begins one from the newest version on: a service that is new receives nothing of the past.
func (n *Notifier) open() {
	b, err := os.ReadFile(n.Path)
	if err == nil {
		err = json.Unmarshal(b, &n.queue)
	}
	if err == nil {
		err = n.queue.check()
	}
	if err == nil {
		if n.queue.Halted == nil {
			n.queue.Halted = make(map[string]bool)
		}
		if latest, err := n.Store.Alias(n.Model, snapshot.Latest); err == nil { // a later one would hide those up to it
			n.queue.Version = min(n.queue.Version, latest.Version)
		}
		return
	}
	if !errors.Is(err, fs.ErrNotExist) {
		n.Log.Error("notices of earlier runs cannot be read",
			"note", "those of versions and halts from now on are delivered",
			"path", n.Path, "error", err)
	}
	n.queue = queue{Halted: make(map[string]bool)}
	if latest, err := n.Store.Alias(n.Model, snapshot.Latest); err == nil {
		n.queue.Version = latest.Version
	}
	n.keep()
}

// check refuses what no run has kept.
func (q *queue) check() error {
	if len(q.Pending) > maxPending {
		return fmt.Errorf("%d notices, at most %d", len(q.Pending), maxPending)
	}
	for i := range q.Pending {
		p := &q.Pending[i]
		known := p.Type == Promoted || p.Type == Rejected || p.Type == Halted && p.Data.Partition != nil
		if !known || p.ID == "" || strings.ContainsFunc(p.ID, isNoWord) {
			return fmt.Errorf("notice %d of type %q, id %q", i, p.Type, p.ID)
		}
	}
	return nil
}

// isNoWord reports whether a character cannot be part of an id, which is the value of a header.
func isNoWord(r rune) bool { return r <= ' ' || r > '~' }

// add puts a notice at the end of the queue.
func (n *Notifier) add(notice *Notice) {
	if notice != nil {
		n.queue.Pending = append(n.queue.Pending, *notice)
	}
}

// keep writes the file. Where that fails what happens is delivered all the same, and after a restart perhaps again.
func (n *Notifier) keep() {
	b, err := json.Marshal(&n.queue)
	if err == nil {
		err = durable.WriteFile(n.Path, 0o600, durable.Bytes(append(b, '\n')))
	}
	if err != nil && !n.unkept {
		n.Log.Error("notices not kept: a restart delivers some again", "error", err)
	}
	n.unkept = err != nil
}
