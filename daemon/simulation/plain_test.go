//go:build !failpoint || !simulation

package simulation

import "testing"

func TestHistories(t *testing.T) {
	t.Skip("needs a build of its own: go test -tags failpoint,simulation ./daemon/simulation")
}
