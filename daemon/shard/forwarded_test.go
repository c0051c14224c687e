package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/sketch"
)

// batchOf returns a batch of two partitions.
func batchOf() *Forwarded {
	return &Forwarded{Shard: 1, Share: 0.5, Stretches: []Stretch{{"t", 1, 0, 100, 200}, {"t", 3, 2, 0, 5}},
		Events: []ForwardedEvent{{0, 100, false, []byte("a")}, {0, 199, true, []byte{}}, {1, 4, false, []byte("long")}}}
}

// TestForwardedIsRead: what is written is read, and nothing of another model or another number of shards.
func TestForwardedIsRead(t *testing.T) {
	b := batchOf()
	value, err := b.value("m", 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readForwarded(&kgo.Record{Value: value}, "m", 2); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range value {
		if got, err := readForwarded(&kgo.Record{Value: value[:n]}, "m", 2); err == nil && reflect.DeepEqual(got, b) {
			t.Errorf("%d of %d bytes are read as all", n, len(value))
		}
	}
	for _, other := range []struct {
		model string
		count int
		says  string
	}{{"other", 2, "of model"}, {"m", 3, "shard.count"}} {
		_, err := readForwarded(&kgo.Record{Value: value}, other.model, other.count)
		if err == nil || !strings.Contains(err.Error(), other.says) {
			t.Errorf("model %s of %d shards: %v", other.model, other.count, err)
		}
	}
}

// TestImplausibleForwarded: offsets that one shard cannot have read are refused.
func TestImplausibleForwarded(t *testing.T) {
	for name, s := range map[string]Stretch{
		"the largest end":          {"t", 0, 0, 100, math.MaxInt64},
		"an end far above":         {"t", 0, 0, 100, 101 + MaxStretch},
		"a stretch that overflows": {"t", 0, 0, math.MinInt64, math.MaxInt64},
		"an end below its start":   {"t", 0, 0, 100, 99},
		"a start below 0":          {"t", 0, 0, -1, 99},
	} {
		value, err := (&Forwarded{Share: 1, Stretches: []Stretch{s}}).value("m", 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readForwarded(&kgo.Record{Value: value}, "m", 2); !errors.Is(err, errForwarded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnotherBuild: a record of another build is counted and logged, with the name and the version that it has: that of
// builds before records had a name, and that of a later one.
func TestAnotherBuild(t *testing.T) {
	header := `{"format":1,"model":"m","count":2,"shard":0,"by":"a","number":1,"part":0,"parts":1,"head":{}}`
	before := append(binary.BigEndian.AppendUint32(nil, uint32(len(header))), header...)
	later, err := batchOf().value("m", 2)
	if err != nil {
		t.Fatal(err)
	}
	later[1+len(liveName)] = liveVersion + 1
	for name, test := range map[string]struct {
		value []byte
		says  []string
	}{
		"before": {before, []string{`name=""`, "version=0"}},
		"later":  {later, []string{"name=" + liveName, fmt.Sprint("version=", liveVersion+1)}},
	} {
		var log bytes.Buffer
		var dropped []string
		l := NewLive(LiveOptions{Topic: "live", Model: "m", Count: 2, Log: slog.New(slog.NewTextHandler(&log, nil)),
			OnDropped: func(reason string) { dropped = append(dropped, reason) }})
		r := &kgo.Record{Value: test.value}
		_, err := readForwarded(r, "m", 2)
		if err == nil {
			t.Fatalf("%s: it is read", name)
		}
		l.drop(r, err)
		if !reflect.DeepEqual(dropped, []string{DroppedBuild}) {
			t.Errorf("%s: counted as %v", name, dropped)
		}
		for _, text := range test.says {
			if !strings.Contains(log.String(), text) {
				t.Errorf("%s: the log has no %s: %s", name, text, log.String())
			}
		}
	}
}

// FuzzForwarded: whatever the live topic has, reading it does not panic, and what is read is of the shards and keeps no
// more bytes than were written.
func FuzzForwarded(f *testing.F) {
	value, err := batchOf().value("m", 2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add([]byte{6, 'e', 'v', 'e', 'n', 't', 's', 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, value []byte) {
		b, err := readForwarded(&kgo.Record{Value: value}, "m", 2)
		if err != nil {
			return
		}
		n := 0
		for _, e := range b.Events {
			s := b.Stretches[e.Stretch]
			if n += len(e.Payload); e.Offset < s.From || e.Offset >= s.To {
				t.Errorf("offset %d of %+v", e.Offset, s)
			}
		}
		if b.Shard < 0 || b.Shard >= 2 || n > len(value) {
			t.Errorf("shard %d, %d bytes of events of %d", b.Shard, n, len(value))
		}
	})
}

// partOf returns a part with so many events from an offset on.
func partOf(partition int32, from, n int64, bytes int) *sketch.Part {
	p := &sketch.Part{Topic: "t", Partition: partition, Base: from, Next: from + n}
	for i := range n {
		p.Records = append(p.Records,
			sketch.Record{Offset: from + i, Fate: sketch.Applied, Payload: make([]byte, bytes)})
	}
	return p
}

// TestThinnedEvenly: above the bound a batch has a share of the events, no more of one stretch than of another, and the
// same ones in whatever pieces they come.
func TestThinnedEvenly(t *testing.T) {
	const n, limit = 40_000, 5_000
	thin := func(piece int64) *thinned {
		b := newThinned(0)
		for from := int64(0); from < n; from += piece {
			for partition := range int32(2) {
				p := partOf(partition, from, piece, 1)
				at := b.stretch(Stretch{"t", partition, 0, p.Base, p.Next})
				for i := range p.Records {
					b.add(at, p.Records[i].Offset, false, p.Records[i].Payload)
				}
			}
		}
		b.thin(limit, 1<<30)
		return b
	}
	whole := thin(n)
	if len(whole.Events) > limit || float64(len(whole.Events)) < 0.8*limit || whole.seen != 2*n {
		t.Fatalf("%d of %d events", len(whole.Events), whole.seen)
	}
	if share := float64(len(whole.Events)) / (2 * n); math.Abs(share/whole.Share-1) > 0.1 {
		t.Errorf("share %g, said to be %g", share, whole.Share)
	}
	var of [2][4]float64 // by partition and quarter of its offsets
	places := make(map[[2]int64]bool)
	for _, e := range whole.Events {
		of[e.Stretch][e.Offset*4/n]++
		places[[2]int64{int64(e.Stretch), e.Offset}] = true
	}
	for partition, quarters := range of {
		for q, have := range quarters {
			if want := float64(len(whole.Events)) / 8; math.Abs(have-want) > 5*math.Sqrt(want) { // of a Poisson number
				t.Errorf("partition %d, quarter %d: %g events, want about %g", partition, q, have, want)
			}
		}
	}
	pieces := thin(1000)
	if len(pieces.Events) != len(whole.Events) || pieces.Share != whole.Share {
		t.Fatalf("in pieces %d events, a share of %g; at once %d, %g", len(pieces.Events), pieces.Share,
			len(whole.Events), whole.Share)
	}
	for _, e := range pieces.Events {
		if !places[[2]int64{int64(e.Stretch), e.Offset}] {
			t.Fatalf("event %d of %d is not among those at once", e.Offset, e.Stretch)
		}
	}
	if whole.thin(limit, 100); whole.bytes > 100 || len(whole.Events) != whole.bytes {
		t.Errorf("%d events of %d bytes", len(whole.Events), whole.bytes)
	}
}

// TestForwarderIsBounded: a shard forwards all below its part of the bound, at most that many a second above it, and
// keeps no more where nothing can be written.
func TestForwarderIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewForwarder(ForwarderOptions{Topic: "live", Model: "m", Count: 4, Log: slog.New(slog.DiscardHandler)})
		next := int64(0)
		second := func(perSecond int64) (events int) {
			for range 10 {
				time.Sleep(time.Second / 10) // of the clock of the bubble
				f.Add(partOf(0, next, perSecond/10, 20), 0)
				next += perSecond / 10
				b := f.take()
				if b.Stretches[0].To != next {
					t.Fatalf("a batch up to %d, want %d", b.Stretches[0].To, next)
				}
				events += len(b.Events)
			}
			return events
		}
		const bound = ForwardRate / 4
		if n := second(bound / 2); n != bound/2 {
			t.Errorf("%d of %d events below the bound", n, bound/2)
		}
		second(4 * bound) // a second may be ahead
		for range 3 {
			if n := second(4 * bound); n > bound*11/10 || n < bound*7/10 {
				t.Errorf("%d events a second, the bound is %d", n, bound)
			}
		}
		for range 10 { // nothing is taken: the brokers are away
			time.Sleep(time.Second)
			f.Add(partOf(0, next, 4*bound, 20), 0)
			next += 4 * bound
		}
		b := f.take()
		if len(b.Events) > bound || b.Share > 0.1 || b.Stretches[0].To-b.Stretches[0].From != 40*bound {
			t.Errorf("%d events, a share of %g of %+v", len(b.Events), b.Share, b.Stretches)
		}
	})
}

// TestReplayedIsNotForwarded: records that are in the state already, and those that are no events, are not forwarded.
func TestReplayedIsNotForwarded(t *testing.T) {
	f := NewForwarder(ForwarderOptions{Topic: "live", Model: "m", Count: 1, Log: slog.New(slog.DiscardHandler)})
	p := partOf(0, 10, 4, 1)
	p.Records[0].Replayed, p.Records[1].Fate, p.Records[2].Forgotten = true, sketch.Rejected, true
	f.Add(p, 7)
	b := f.take()
	if len(b.Events) != 2 || b.Events[0].Offset != 12 || !b.Events[0].Forgotten ||
		b.Events[1].Offset != 13 || b.Events[1].Forgotten ||
		b.Stretches[0] != (Stretch{"t", 0, 7, 10, 14}) {
		t.Errorf("%+v", b.Forwarded)
	}
}
