//go:build simulation

package sketch

import "github.com/refitd/refitd/sketch/internal/storage"

// CloseAbandoned closes the databases of the stores below a directory that were given up. It writes to their files:
// copy first what a restart is to find.
func CloseAbandoned(below string) error { return storage.CloseAbandoned(below) }
