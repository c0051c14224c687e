// Package parallel runs the goroutines of a solve. A panic in one of them would end the process before any caller could
// recover it; here it is raised again on the goroutine that waits, which is the caller's.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Group is goroutines that are waited for together. The zero value is ready. Go and Wait are called from one goroutine.
type Group struct {
	running sync.WaitGroup
	once    sync.Once
	first   *Panic
}

// Panic is what Wait panics with: what the first goroutine to panic did, and where.
type Panic struct {
	Value any
	stack []byte
}

func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Stack returns the stack of the goroutine that panicked.
func (p *Panic) Stack() []byte { return p.stack }

// Go runs f on a goroutine.
func (g *Group) Go(f func()) {
	g.running.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				g.once.Do(func() { g.first = caught(v) })
			}
		}()
		f()
	})
}

// caught wraps a panic, unless it comes from a group within the goroutine and is wrapped already.
func caught(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{v, debug.Stack()}
}

// Wait returns when all goroutines have ended. If one panicked, it panics with a *Panic.
func (g *Group) Wait() {
	g.running.Wait()
	if g.first != nil {
		panic(g.first)
	}
}
