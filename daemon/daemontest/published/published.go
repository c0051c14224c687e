// Package published checks what publishers have left in a store of versions. It knows nothing of daemons, so that tests
// inside their packages can use it.
package published

import (
	"testing"

	"github.com/refitd/refitd/snapshot/publish"
)

// Forward fails the test unless the publish log of a model has the versions from 1 on, each once, and each alias was
// only moved forward.
func Forward(t *testing.T, store *publish.Store, model string) {
	t.Helper()
	at, last := map[string]int64{}, int64(0)
	for r, err := range store.Log(model) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Version != last+1 {
			t.Errorf("the log has version %d after %d", r.Version, last)
		}
		last = r.Version
		for _, move := range r.Moves {
			if move.To <= at[move.Alias] {
				t.Errorf("alias %s was moved from version %d to %d", move.Alias, at[move.Alias], move.To)
			}
			at[move.Alias] = move.To
		}
	}
}
