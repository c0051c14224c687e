package consumer

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// TestFrozenEnd has a connection on which the log ends, or is stable, where it was once, for ever: what comes after
// that is read from another one.
func TestFrozenEnd(t *testing.T) {
	const topic, batches, at = "t", 50, 200
	for name, high := range map[string]bool{"end": true, "last stable offset": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lies, newest, lying atomic.Int32 // connections that lie are those up to lying
			lying.Store(math.MaxInt32)
			network := &liar.Network{Fetch: func(conn int, from int64, p *kmsg.FetchResponseTopicPartition) {
				for n := newest.Load(); int32(conn) > n && !newest.CompareAndSwap(n, int32(conn)); n = newest.Load() {
				}
				if int32(conn) > lying.Load() || from < at {
					return
				}
				p.LastStableOffset, p.RecordBatches = at, nil
				if high {
					p.HighWatermark = at
				}
				lies.Add(1)
			}}
			cluster := batchesOf(t, topic, at/10, network)
			r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic},
				func(o *Options) { o.StallTimeout = 2 * time.Second })
			r.lookEvery = 300 * time.Millisecond
			r.start(t)
			await(t, "what there was", func() bool { return len(r.got(tp(topic, 0))) == at && lies.Load() > 0 })
			produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(at, 10*batches)...)
			await(t, "an end that is refused",
				func() bool { return r.metric(t, "refitd_consumer_answers_refused_total", "log_end") >= 1 })
			lying.Store(newest.Load()) // new connections say how it is
			await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches })
			equalValues(t, r.memory, tp(topic, 0), numbers(0, 10*batches))
		})
	}
}
