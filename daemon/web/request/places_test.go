package request

import (
	"net"
	"testing"
	"time"
)

// TestPlaces: the connection that has waited longest is the one that goes, never one with a request that is being
// answered.
func TestPlaces(t *testing.T) {
	p := NewPlaces(3, nil)
	take := func() (taken, victim *place) {
		c, other := net.Pipe()
		t.Cleanup(func() { c.Close(); other.Close() })
		return p.take(c)
	}
	list := make([]*place, 3)
	for i := range list {
		list[i], _ = take()
		list[i].since = time.Unix(int64(i), 0)
	}
	list[0].change(1)
	fourth, victim := take()
	if fourth == nil || victim != list[1] {
		t.Error("the victim is not the one that waits longest")
	}
	fourth.change(1)
	list[2].change(1)
	if fifth, victim := take(); fifth != nil || victim != nil {
		t.Error("a place was found among those that are answered")
	}
	list[2].change(-1)
	fifth, victim := take()
	if fifth == nil || victim != list[2] {
		t.Error("the victim is not the only one that waits")
	}
	if err := fifth.Close(); err != nil || p.Len() != 2 {
		t.Errorf("%d places after a close, %v", p.Len(), err)
	}
	if _, victim := take(); victim != nil {
		t.Error("a victim while a place is free")
	}
}
