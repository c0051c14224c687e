package consumer

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// throttled is the network of a broker that throttles fetches as brokers do since Kafka 2.0 (KIP-219): it answers at
// once, says how long to wait, and reads nothing from that connection until then.
type throttled struct {
	pause time.Duration

	mu      sync.Mutex
	fetches int
	early   map[kmsg.Key]int // requests on connections that are not read, by kind
}

func (n *throttled) listen(network, address string) (net.Listener, error) {
	ln, err := net.Listen(network, address)
	return throttledListener{ln, n}, err
}

type throttledListener struct {
	net.Listener
	network *throttled
}

func (l throttledListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &throttledConn{Conn: conn, network: l.network}, nil
}

// throttledConn is the broker's end of a connection. It reads the length of a request, then the request.
type throttledConn struct {
	net.Conn
	network *throttled

	mu    sync.Mutex
	body  bool      // comes next
	early bool      // it came too early
	fetch bool      // the last request was one
	until time.Time // nothing is read before
}

func (c *throttledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return n, err
	}
	if !c.body {
		c.body = true
		if wait := time.Until(c.until); wait > 0 {
			c.early = true
			<-time.After(wait)
		}
		return n, nil
	}
	c.body = false
	key := kmsg.Key(binary.BigEndian.Uint16(b))
	c.fetch = key == kmsg.Fetch
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.early {
		c.early = false
		c.network.early[key]++
	}
	if c.fetch {
		c.network.fetches++
	}
	return n, nil
}

func (c *throttledConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.fetch {
		c.until = time.Now().Add(c.network.pause)
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// TestThrottled (C31): a broker with a quota is asked again when it said so and not before, its answers without
// records included. The reader is ready with its lag, its offsets are committed during the wait on a separate
// connection, and neither the watchdog nor anything else takes it for a fault.
func TestThrottled(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 8
	n := &throttled{pause: 800 * time.Millisecond, early: make(map[kmsg.Key]int)}
	cluster := newCluster(t, kfake.ListenFn(n.listen), kfake.SeedTopics(1, topic))
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = int32(n.pause.Milliseconds())
		n.mu.Lock()
		empty := n.fetches%2 == 0 // what a broker answers when the quota is used up: no partition at all
		n.mu.Unlock()
		if empty {
			return res, nil, true
		}
		from := req.Topics[0].Partitions[0].FetchOffset
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset = batches, batches
		if from < batches {
			p.RecordBatches = rawBatch{
				base:    from,
				records: []rawRecord{{value: []byte(numbers(int(from), int(from)+1)[0])}},
			}.bytes(t)
		}
		of := kmsg.NewFetchResponseTopic()
		of.Topic, of.Partitions = topic, []kmsg.FetchResponseTopicPartition{p}
		res.Topics = append(res.Topics, of)
		return res, nil, true
	})
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.GroupID, o.StallTimeout = "g", 3*time.Second })
	began := time.Now()
	await(t, "half of the records", func() bool { return r.total() == batches/2 })
	if s := r.Status(); !s.Ready || r.metric(t, "refitd_consumer_lag_records") != batches/2 {
		t.Errorf("%v, %g offsets behind", s.Reasons, r.metric(t, "refitd_consumer_lag_records"))
	}
	at := time.Now()
	await(t, "their commit", func() bool { return committedSum(t, cluster) >= batches/2 })
	if took := time.Since(at); took > 3*n.pause {
		t.Errorf("the commit took %v", took)
	}
	await(t, "all records", func() bool { return r.total() == batches })
	took := time.Since(began)
	equalValues(t, r.memory, tp(topic, 0), numbers(0, batches))
	n.mu.Lock()
	defer n.mu.Unlock()
	if most := 2 + int(took/n.pause); n.fetches > most || len(n.early) > 0 {
		t.Errorf("%d fetches in %v, at most %d; too early came %v", n.fetches, took, most, n.early)
	}
	if failed := r.metric(t, "refitd_consumer_fetch_errors_total") + r.metric(t,
		"refitd_consumer_commit_errors_total"); failed > 0 ||
		r.metric(t, "refitd_consumer_stalls_total") > 0 {
		t.Errorf("%g errors, %g stalls", failed, r.metric(t, "refitd_consumer_stalls_total"))
	}
}
