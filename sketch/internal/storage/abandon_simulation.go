//go:build simulation

package storage

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// A process that gives up a store whose storage failed ends, and the database's goroutines with it. In a simulation the
// process that ends is a part of one.
var (
	abandonedMu sync.Mutex
	abandoned   []*Disk
)

// Abandon leaves a database as it is, for CloseAbandoned.
func Abandon(b Backend) {
	if d, ok := b.(*Disk); ok {
		abandonedMu.Lock()
		defer abandonedMu.Unlock()
		abandoned = append(abandoned, d)
	}
}

// CloseAbandoned closes the databases of the stores below a directory that were given up. It writes to their files:
// copy first what a restart is to find.
func CloseAbandoned(below string) (err error) {
	abandonedMu.Lock()
	defer abandonedMu.Unlock()
	abandoned = slices.DeleteFunc(abandoned, func(d *Disk) bool {
		if !strings.HasPrefix(d.dir, below+"/") {
			return false
		}
		err = errors.Join(err, d.Close())
		return true
	})
	return err
}
