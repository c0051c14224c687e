package shard

import (
	"testing"
	"time"
)

// TestPace: a shard that is behind sends when it has read as much as it has still to read, or after 30 s; one that is
// not, at once.
func TestPace(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, test := range []struct {
		what         string
		after        time.Duration // since the last head
		applied, lag int64         // applied since then
		want         bool
	}{
		{"nothing to read", sendEvery, 0, 0, false},
		{"steady", sendEvery, 200, 100, false},
		{"behind", 10 * time.Second, 1000, 100_000, true},
		{"half-way", 10 * time.Second, 50_000, 50_000, false},
		{"behind for long", behindEvery, 1000, 100_000, false},
		{"reading has stopped", 10 * time.Second, 0, 1, true},
	} {
		p := pace{number: 3}
		const before = 7_000_000 // applied in an earlier life
		p.waits(start.Add(-time.Hour), 0, 0, false)
		p.sent(start, before)
		if got := p.waits(start.Add(test.after), before+test.applied, test.lag, false); got != test.want {
			t.Errorf("%s: waits %v", test.what, got)
		}
	}
}

// TestTurns: shards with full samples begin when as many others have been merged as there are before them, and after a
// while without; once begun, or with room in the sample, none waits.
func TestTurns(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, test := range []struct {
		what           string
		number, merged int
		full           bool
		want           time.Duration
	}{
		{"the first", 0, 0, true, 0},
		{"its turn", 2, 2, true, 0},
		{"no trainer", 2, 1, true, 2 * turnEvery},
		{"no trainer, many shards", 50, 1, true, behindEvery},
		{"room", 2, 0, false, 0},
	} {
		p := pace{number: test.number, merged: test.merged}
		now := start
		for p.waits(now, 100, 0, test.full) {
			now = now.Add(time.Second)
		}
		if got := now.Sub(start); got != test.want {
			t.Errorf("%s: began after %v, want %v", test.what, got, test.want)
		}
		if test.full && p.waits(now, 100, 0, true) {
			t.Errorf("%s: waits again", test.what)
		}
	}
}

// TestEvery: the heads that a trainer merges in a second are no more for more than fifty shards.
func TestEvery(t *testing.T) {
	for count, want := range map[int]time.Duration{1: sendEvery, 50: sendEvery, 51: 1020 * time.Millisecond,
		1000: 20 * time.Second} {
		if got := every(count); got != want {
			t.Errorf("%d shards look every %v, want %v", count, got, want)
		}
	}
}
