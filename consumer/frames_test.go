package consumer

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer/internal/frames"
	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// TestDamagedFrames has a network that damages an answer of each kind, once: its size, or the number of the elements of
// its first array. The library of the broker side ends the process with the one and takes any amount of memory for the
// other, so neither may reach it.
func TestDamagedFrames(t *testing.T) {
	const topic = "t"
	// Where the first array is, or the first text of bytes: after the size, the correlation id and what comes before it.
	kinds := map[kmsg.Key]int{kmsg.ApiVersions: 10, kmsg.Metadata: 12, kmsg.Fetch: 8, kmsg.ListOffsets: 12,
		kmsg.FindCoordinator: 14, kmsg.OffsetFetch: 12, kmsg.OffsetCommit: 12}
	for kind, array := range kinds {
		for name, damage := range map[string]func(frame []byte) []byte{
			"a negative size": func(frame []byte) []byte { binary.BigEndian.PutUint32(frame, 1<<31+5); return frame },
			"a size of three": func(frame []byte) []byte { binary.BigEndian.PutUint32(frame, 3); return frame },
			"a huge size":     func(frame []byte) []byte { binary.BigEndian.PutUint32(frame, 1<<30); return frame },
			"a huge array": func(frame []byte) []byte {
				binary.BigEndian.PutUint32(frame[array:], 1<<31-1)
				return frame
			},
			"cut short": func(frame []byte) []byte {
				binary.BigEndian.PutUint32(frame, uint32(len(frame)-8))
				return frame[:len(frame)-4]
			},
		} {
			if kind == kmsg.Fetch && name == "a huge array" || kind == kmsg.FindCoordinator && name == "a huge array" {
				continue // it has none that kafka-go reads
			}
			t.Run(kind.Name()+", "+name, func(t *testing.T) {
				t.Parallel()
				var damaged atomic.Bool
				damaged.Store(true)
				network := &liar.Network{Frame: func(of kmsg.Key, frame []byte) []byte {
					if of == kind && len(frame) > array+4 && damaged.CompareAndSwap(false, true) {
						return damage(frame)
					}
					return frame
				}}
				cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, topic))
				produce(t, newProducer(t, []string{cluster.ListenAddrs()[0]}), topic, 0, numbers(0, 10)...)
				damaged.Store(false)
				r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
				await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 && damaged.Load() })
				await(t, "ready", func() bool { return r.Status().Ready })
				await(t, "a commit", func() bool { return committedSum(t, cluster) == 10 })
			})
		}
	}
}

// TestManyPartitions: what a broker says of 100,000 partitions is read, whether or not the question grows with them.
func TestManyPartitions(t *testing.T) {
	const topic, n = "t", 100_000
	cluster := newCluster(t, kfake.SeedTopics(n, topic))
	s, err := newSource(&Options{Brokers: cluster.ListenAddrs(), Topics: []string{topic}, RequestTimeout: time.Minute},
		newMetrics(prometheus.NewRegistry(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s.drop()
	topics, err := s.topics(t.Context(), s.client)
	if err != nil || len(topics) != 1 || topics[0].Error != nil || len(topics[0].Partitions) != n {
		t.Fatalf("%d topics, %v", len(topics), err)
	}
	asked, shown := make([]int, n), make([]kafka.OffsetCommit, n)
	for i := range asked {
		asked[i], shown[i].Partition = i, i
	}
	if _, err := s.group.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{GroupID: "g", GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: shown}}); err != nil {
		t.Fatal(err)
	}
	of, err := s.group.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: "g",
		Topics: map[string][]int{topic: asked}})
	if err != nil {
		t.Fatal(err)
	}
	if len(of.Topics[topic]) != n {
		t.Fatalf("%d offsets", len(of.Topics[topic]))
	}
}

// TestOldFormOfSigningIn exchanges what is no request: a size and bytes, of which the answer may have none.
func TestOldFormOfSigningIn(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		request := make([]byte, 4+5)
		for _, answer := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x02ok", "\xff\xff\xff\xff"} {
			if _, err := io.ReadFull(far, request); err != nil {
				return
			}
			_, _ = far.Write([]byte(answer)) // the other end sees what is missing
		}
	}()
	c := &frames.Conn{Conn: near, Raw: true}
	for _, want := range []string{"", "ok", "refused"} {
		answer, err := (&saslauthenticate.Request{AuthBytes: []byte("hello")}).RawExchange(c)
		if want == "refused" {
			if !errors.Is(err, frames.ErrFrame) {
				t.Errorf("a negative size: %v", err)
			}
		} else if err != nil || string(answer.(*saslauthenticate.Response).AuthBytes) != want {
			t.Errorf("%v, %v, want %q", answer, err, want)
		}
	}
}
