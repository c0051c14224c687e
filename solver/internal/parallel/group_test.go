package parallel

import (
	"strings"
	"sync/atomic"
	"testing"
)

// TestPanicReachesTheCaller: the panic of a goroutine, also of one two groups down, is the caller's to recover, with
// the stack where it happened, once all goroutines have ended.
func TestPanicReachesTheCaller(t *testing.T) {
	var ended atomic.Int32
	defer func() {
		p, ok := recover().(*Panic)
		if !ok || p.Value != "division" || p.String() != "division" ||
			!strings.Contains(string(p.Stack()), "group_test.go") {
			t.Errorf("recovered %v", p)
		}
		if n := ended.Load(); n != 3 {
			t.Errorf("%d of 3 goroutines had ended", n)
		}
	}()
	var outer Group
	for i := range 4 {
		outer.Go(func() {
			if i == 2 {
				var inner Group
				inner.Go(func() { panic("division") })
				inner.Wait()
			}
			ended.Add(1)
		})
	}
	outer.Wait()
	t.Error("Wait returned")
}

func TestWaitWithoutPanic(t *testing.T) {
	var g Group
	var n atomic.Int32
	for range 10 {
		g.Go(func() { n.Add(1) })
	}
	if g.Wait(); n.Load() != 10 {
		t.Errorf("%d of 10 had ended", n.Load())
	}
}
