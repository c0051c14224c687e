//go:build !failpoint || !simulation

package simulation

import "testing"

func TestHistories(t *testing.T) {
	t.Skip("needs a build with tags: go test -tags failpoint,simulation ./daemon/simulation")
}
