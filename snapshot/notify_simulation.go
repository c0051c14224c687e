//go:build simulation

package snapshot

import (
	"context"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
)

// simulatedLook is how often a watcher looks in a simulation, whose clock cannot wait for what the kernel says.
const simulatedLook = 30 * time.Second

// dirWatch lets time pass.
type dirWatch struct{}

func watchDir(string) *dirWatch { return &dirWatch{} }

// wait returns after simulatedLook or, if that is longer, most, or with the error of ctx.
func (*dirWatch) wait(ctx context.Context, most time.Duration) error {
	return backoff.Sleep(ctx, max(most, simulatedLook))
}

func (*dirWatch) close() {}
