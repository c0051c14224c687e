package daemontest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/daemon/broker"
)

// StartBroker starts a broker that is closed with the test.
func StartBroker(t *testing.T, dir, listen string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(
		broker.Options{Dir: dir, Listen: listen, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Client returns a client whose connections end with the test.
func Client(t *testing.T, addr string) *kafka.Client {
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(addr), Timeout: 5 * time.Second, Transport: transport}
}

// LogRange returns first offset and end of the log of every partition.
func LogRange(t *testing.T, client *kafka.Client, topic string, partitions int) (first, end []int64) {
	t.Helper()
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p))
	}
	res, err := client.ListOffsets(t.Context(),
		&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
	if err != nil {
		t.Fatal(err)
	}
	first, end = make([]int64, partitions), make([]int64, partitions)
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			t.Fatal(p.Error)
		}
		first[p.Partition], end[p.Partition] = p.FirstOffset, p.LastOffset
	}
	return first, end
}

// Total adds up offsets of all partitions.
func Total(v []int64) (s int64) {
	for _, x := range v {
		s += x
	}
	return s
}
