package shard

import (
	"testing"
	"time"
)

// TestPace: a shard that is behind sends when little is left of what it reads, or after 30 s; one that is not, at once.
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
		{"half-way", 10 * time.Second, 50_000, 50_000, true},
		{"an eighth is left", 16 * time.Second, 50_000, 6250, false},
		{"a second is left", 5 * time.Second, 50_000, 10_000, false},
		{"behind for long", behindEvery, 1000, 100_000, false},
		{"reading stands still", 10 * time.Second, 0, 1, true},
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

// TestPaceOfCatchUp: a shard that reads its log sends first when half of it is read, and then not again before its last eighth but one, so that what comes and
// goes meanwhile is not written; what it reads as it comes is sent with the next look, or the second one.
func TestPaceOfCatchUp(t *testing.T) {
	const rate, log = 100_000, 2_000_000 // records a second, and of the log
	var p pace
	var heads []int64 // what was read by then, thousandths
	now := time.Unix(1000, 0)
	for read := int64(0); read <= log; read, now = read+rate/5, now.Add(sendEvery) {
		if !p.waits(now, read, log-read, false) {
			p.sent(now, read)
			heads = append(heads, read*1000/log)
		}
	}
	if len(heads) < 2 || heads[0] != 500 || heads[1] < 930 {
		t.Errorf("heads after %d thousandths of the log, want the first after 500 and the second after 930", heads)
	}
	for read, end := int64(log), now.Add(time.Minute); now.Before(end); read, now = read+rate/5, now.Add(sendEvery) {
		if !p.waits(now, read, rate/5, false) {
			p.sent(now, read)
		} else if now.Sub(p.since) > 2*sendEvery {
			t.Fatalf("%v after the last head none, %d records behind", now.Sub(p.since), rate/5)
		}
	}
}

// TestTurns: shards with full samples begin when as many others have been merged as there are before them, and after a while without; once begun, or with room
// in the sample, none waits.
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

// TestEvery: the heads that a trainer merges in a second are no more for more than ten shards.
func TestEvery(t *testing.T) {
	for count, want := range map[int]time.Duration{1: sendEvery, 10: sendEvery, 11: 220 * time.Millisecond, 1000: 20 * time.Second} {
		if got := every(count); got != want {
			t.Errorf("%d shards look every %v, want %v", count, got, want)
		}
	}
}
