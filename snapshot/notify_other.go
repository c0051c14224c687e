//go:build !linux && !simulation

package snapshot

import (
	"context"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
)

// dirWatch waits for time to pass: the standard library reports no changes of directories on this system.
type dirWatch struct{}

func watchDir(string) *dirWatch { return &dirWatch{} }

// wait returns after most, or with the error of ctx.
func (*dirWatch) wait(ctx context.Context, most time.Duration) error { return backoff.Sleep(ctx, most) }

func (*dirWatch) close() {}
