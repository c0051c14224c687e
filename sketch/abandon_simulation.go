//go:build simulation

package sketch

import (
	"errors"
	"sync"
)

// A process that gives up a store whose storage failed ends, and the database's goroutines with it. In a simulation the process that ends is a part
// of one.
var (
	abandonedMu sync.Mutex
	abandoned   []backend
)

func abandon(b backend) {
	abandonedMu.Lock()
	defer abandonedMu.Unlock()
	abandoned = append(abandoned, b)
}

// CloseAbandoned closes the databases of the stores that were given up. It writes to their files: copy first what a restart is to find.
func CloseAbandoned() (err error) {
	abandonedMu.Lock()
	defer abandonedMu.Unlock()
	for _, b := range abandoned {
		err = errors.Join(err, b.close())
	}
	abandoned = nil
	return err
}
