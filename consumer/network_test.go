package consumer

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// line is the network between a broker and its clients, as the broker's listener sees it.
type line struct {
	conns, cuts atomic.Int64
	accepted    atomic.Int64 // connections ever made
	hung        atomic.Bool  // what the broker writes is lost

	mu        sync.Mutex
	cutAfter  func() int64  // bytes that the next connection carries; nil does not cut
	latency   time.Duration // before each write
	perSecond int           // bytes a connection carries in a second, 0 for any number
}

func (l *line) listen(network, address string) (net.Listener, error) {
	return listenThrough(network, address, l.wrap)
}

// wrappingListener hands out connections that something is put around.
type wrappingListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func listenThrough(network, address string, wrap func(net.Conn) net.Conn) (net.Listener, error) {
	ln, err := net.Listen(network, address)
	return wrappingListener{ln, wrap}, err
}

func (l wrappingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

func (l *line) wrap(conn net.Conn) net.Conn {
	l.conns.Add(1)
	l.accepted.Add(1)
	c := &lineConn{Conn: conn, line: l, left: -1}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutAfter != nil {
		c.left = l.cutAfter()
	}
	return c
}

// lineConn is the broker's end of a connection.
type lineConn struct {
	net.Conn
	line *line
	left int64 // bytes before the cut, -1 for any number
	done sync.Once
}

func (c *lineConn) Close() error {
	c.done.Do(func() { c.line.conns.Add(-1) })
	return c.Conn.Close()
}

func (c *lineConn) Write(b []byte) (int, error) {
	if c.line.hung.Load() {
		return len(b), nil
	}
	c.line.mu.Lock()
	wait := c.line.latency
	if c.line.perSecond > 0 {
		wait += time.Duration(len(b)) * time.Second / time.Duration(c.line.perSecond)
	}
	c.line.mu.Unlock()
	if wait > 0 {
		<-time.After(wait)
	}
	if c.left >= 0 && int64(len(b)) > c.left {
		n, _ := c.Conn.Write(b[:c.left])
		c.line.cuts.Add(1)
		c.Close()
		return n, net.ErrClosed
	}
	if c.left >= 0 {
		c.left -= int64(len(b))
	}
	return c.Conn.Write(b)
}

// openFiles is the number of file descriptors of this process, 0 where the system does not list them.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// TestConnectionsCut cuts connections in the middle of answers, again and again: every record comes once, and neither
// goroutines nor files pile up.
func TestConnectionsCut(t *testing.T) {
	const topic, partitions = "t", 8
	cuts := tier.Size(int64(60), 1000)
	var l line
	cluster := newCluster(t, kfake.NumBrokers(8), kfake.ListenFn(l.listen), kfake.SeedTopics(partitions, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	const each = 5000
	for p := range int32(partitions) {
		for from := 0; from < each; from += 10 {
			produce(t, cl, topic, p, numbers(from, from+10)...)
		}
	}
	cl.Close()
	l.mu.Lock()
	size := int64(0)
	l.cutAfter = func() int64 { size = (size*7 + 577) % 2500; return 300 + size }
	l.mu.Unlock()

	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.MaxPartitionBytes, o.RefreshEvery = 400, time.Second })
	await(t, "some cuts", func() bool { return l.cuts.Load() > cuts/10 })
	goroutines, files, conns := runtime.NumGoroutine(), openFiles(), l.conns.Load()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for l.cuts.Load() < cuts && r.total() < each*partitions {
		select {
		case <-deadline:
			t.Fatalf("%d cuts, %d records", l.cuts.Load(), r.total())
		case <-tick.C:
		}
	}
	n := l.cuts.Load()
	if g, f, c := runtime.NumGoroutine(), openFiles(), l.conns.Load(); g > goroutines+40 || f > files+40 ||
		c > conns+20 {
		t.Errorf("goroutines %d → %d, files %d → %d, connections %d → %d", goroutines, g, files, f, conns, c)
	}
	l.mu.Lock()
	l.cutAfter = nil
	l.mu.Unlock()
	await(t, "all records", func() bool { return r.total() == each*partitions })
	for p := range int32(partitions) {
		equalValues(t, r.memory, tp(topic, p), numbers(0, each))
	}
	t.Logf("%d cuts", n)
}

// TestHungNetwork has brokers that accept and never answer, from the start on or in the middle of reading: not ready
// with a text, and reading continues when they are back.
func TestHungNetwork(t *testing.T) {
	const topic = "t"
	for _, name := range []string{"from the start", "while reading"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l line
			cluster := newCluster(t, kfake.ListenFn(l.listen), kfake.SeedTopics(1, topic))
			cl := newProducer(t, cluster.ListenAddrs())
			produce(t, cl, topic, 0, numbers(0, 10)...)
			l.hung.Store(name == "from the start")
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
				func(o *Options) { o.RequestTimeout = 400 * time.Millisecond })
			if name == "while reading" {
				await(t, "records", func() bool { return r.total() == 10 })
				l.hung.Store(true)
			}
			await(t, "the reason",
				func() bool { return strings.Contains(r.reasons(), "cannot reach a broker at ") && !r.Status().Ready })
			l.hung.Store(false)
			began := time.Now()
			produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(10, 20)...)
			await(t, "all records", func() bool { return r.total() == 20 && r.Status().Ready })
			equalValues(t, r.memory, tp(topic, 0), numbers(0, 20))
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("ready after %v", d)
			}
		})
	}
}

// TestSlowNetwork: latency and little bandwidth make reading slow, not wrong, and the lag is what it is.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	const topic = "t"
	l := line{latency: 200 * time.Millisecond, perSecond: 50_000}
	cluster := newCluster(t, kfake.ListenFn(l.listen), kfake.SeedTopics(2, topic))
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.MaxPartitionBytes = 10_000 })
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 3000)...)
	await(t, "the lag",
		func() bool { s := r.Status(); return len(s.Partitions) == 2 && s.Partitions[0].HighWatermark == 3000 })
	await(t, "all records", func() bool { return r.total() == 3000 && r.Status().Partitions[0].Lag == 0 })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 3000))
	if !r.Status().Ready || r.metric(t, "refitd_consumer_stalls_total") > 0 {
		t.Errorf("not ready: %s", r.reasons())
	}
}

// TestBrokersComeAndGo adds brokers, moves every partition and the coordinator, and takes the old brokers away, under
// load.
func TestBrokersComeAndGo(t *testing.T) {
	const topic, partitions = "t", 6
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(partitions, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
	sent := 0
	send := func() {
		for p := range int32(partitions) {
			produce(t, cl, topic, p, numbers(sent, sent+100)...)
		}
		sent += 100
	}
	send()
	await(t, "records", func() bool { return r.total() == sent*partitions })
	for node := range int32(2) {
		if _, _, err := cluster.AddNode(10+node, 0); err != nil {
			t.Fatal(err)
		}
		send()
		cluster.RehashCoordinators()
		for p := range int32(partitions) {
			if err := cluster.MoveTopicPartition(topic, p, 10+node); err != nil {
				t.Fatal(err)
			}
		}
		send()
		began := time.Now()
		if err := cluster.RemoveNode(node); err != nil {
			t.Fatal(err)
		}
		send()
		await(t, fmt.Sprintf("all records without broker %d", node),
			func() bool { return r.total() == sent*partitions && r.Status().Ready })
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("ready after %v", d)
		}
	}
	for p := range int32(partitions) {
		equalValues(t, r.memory, tp(topic, p), numbers(0, sent))
	}
	await(t, "the commits", func() bool { return committedSum(t, cluster) == int64(sent*partitions) })
}

// TestOpenTransaction waits at the last stable offset for longer than the watchdog does, which says so and leaves the
// connections alone.
func TestOpenTransaction(t *testing.T) {
	t.Parallel()
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	txn := newTransactional(t, cluster)
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 10)...)
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.StallTimeout = time.Second })
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, txn, topic, 0, "open")
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(10, 15)...)
	await(t, "the reason", func() bool {
		return strings.Contains(
			r.reasons(),
			"t/0: waiting at the last stable offset 10, 6 below the end of the log: a transaction of a producer is open",
		)
	})
	if s := r.Status(); !s.Ready || s.Partitions[0].Lag != 6 {
		t.Errorf("%+v", s)
	}
	await(t, "the log", func() bool { return strings.Contains(r.log.String(), "waiting at the last stable offset") })
	<-time.After(2 * time.Second)
	if r.metric(t, "refitd_consumer_stalls_total") > 0 {
		t.Error("the watchdog fired")
	}
	abort(t, txn)
	await(t, "the rest", func() bool { return len(r.got(tp(topic, 0))) == 15 && r.reasons() == "" })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 15))
}
