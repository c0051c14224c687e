package faults_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bombBytes is twice what a batch may decompress to.
const bombBytes = 32 << 20

// bomb sends one record that compresses to almost nothing.
func bomb(t *testing.T, addr []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr...), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(2*bombBytes),
		kgo.BrokerMaxWriteBytes(4*bombBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Value: bytes.Repeat([]byte("x"),
		bombBytes)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// occupied returns the bytes of disk that a file takes.
func occupied(path string) (int64, error) {
	var s syscall.Stat_t
	err := syscall.Stat(path, &s)
	return s.Blocks * 512, err
}
