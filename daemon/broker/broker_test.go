package broker_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/daemontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill writes n records of size bytes.
func fill(t *testing.T, addr, topic string, n, size int) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{
		Addr:         kafka.TCP(addr),
		Topic:        topic,
		RequiredAcks: kafka.RequireAll,
		BatchSize:    100,
		BatchTimeout: time.Millisecond,
		Transport:    transport,
	}
	defer w.Close()
	value := make([]byte, size)
	for range n / 100 {
		messages := make([]kafka.Message, 100)
		for i := range messages {
			messages[i].Value = value
		}
		if err := w.WriteMessages(t.Context(), messages...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBrokerKeepsTopicsOverRestarts(t *testing.T) {
	dir := t.TempDir()
	b := daemontest.StartBroker(t, dir, "")
	if !strings.HasPrefix(b.Addr(), "127.0.0.1:") {
		t.Errorf("Addr = %q, want a loopback address", b.Addr())
	}
	if err := b.CreateTopic(t.Context(), "ratings", 2, 0); err != nil {
		t.Fatal(err)
	}
	fill(t, b.Addr(), "ratings", 500, 10)
	addr := b.Addr()
	b.Close()
	b.Close() // does nothing

	b = daemontest.StartBroker(t, dir, addr) // the port is free again
	if b.Addr() != addr {
		t.Errorf("Addr = %q, want the address asked for, %q", b.Addr(), addr)
	}
	if err := b.CreateTopic(t.Context(), "ratings", 7, 0); err != nil {
		t.Errorf("CreateTopic of a topic that exists: %v", err)
	}
	client := daemontest.Client(t, b.Addr())
	if _, end := daemontest.LogRange(t, client, "ratings", 2); daemontest.Total(end) != 500 {
		t.Errorf("log ends %v after the restart, want 500 records in all", end)
	}
	meta, err := client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{"ratings"}})
	if err != nil || len(meta.Topics) != 1 || len(meta.Topics[0].Partitions) != 2 {
		t.Errorf("metadata %+v, %v: want the 2 partitions of before", meta, err)
	}
}

// TestBrokerRetention checks that the log start moves and that disk space is given back, also after a restart, when
// kfake alone would not start its timer.
func TestBrokerRetention(t *testing.T) {
	const retention = 4 << 20
	dir := t.TempDir()
	for round := range 2 {
		b := daemontest.StartBroker(t, dir, "")
		client := daemontest.Client(t, b.Addr())
		if round == 0 {
			if err := b.CreateTopic(t.Context(), "ratings", 1, retention); err != nil {
				t.Fatal(err)
			}
		}
		start, _ := daemontest.LogRange(t, client, "ratings", 1)
		before := start[0]
		fill(t, b.Addr(), "ratings", 3000, 4096) // 12 MB
		daemontest.Within(
			t,
			daemontest.Patience,
			fmt.Sprintf("round %d: retention moves the log start beyond %d", round, before),
			func() bool {
				first, _ := daemontest.LogRange(t, client, "ratings", 1)
				return first[0] > before
			},
		)
		daemontest.Within(t, daemontest.Patience, "disk within retention and one segment",
			func() bool { return diskUsed(t, dir) < retention+2<<20 })
		b.Close()
	}
}

func diskUsed(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // removed during the walk
		}
		if fi, err := d.Info(); err == nil {
			bytes += fi.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestBrokerMakesNoTopicByItself(t *testing.T) {
	b := daemontest.StartBroker(t, t.TempDir(), "")
	client := daemontest.Client(t, b.Addr())
	w := &kafka.Writer{
		Addr:                   client.Addr,
		Topic:                  "typo",
		AllowAutoTopicCreation: true,
		MaxAttempts:            1,
		BatchTimeout:           time.Millisecond,
		Transport:              client.Transport,
	}
	defer w.Close()
	if err := w.WriteMessages(t.Context(), kafka.Message{Value: []byte("x")}); err == nil {
		t.Error("a write to a topic that nobody created succeeded")
	}
}

func TestStartBrokerRefuses(t *testing.T) {
	taken := daemontest.StartBroker(t, t.TempDir(), "")
	damaged := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	for path, text := range map[string]string{filepath.Join(damaged, "meta.json"): "{", file: ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, dir, listen, want string }{
		{"no directory", "", "", "--dir"},
		{"a file for a directory", file, "", "--dir"},
		{"a damaged directory", damaged, "", "--dir"},
		{"no port", t.TempDir(), "127.0.0.1", "--listen"},
		{"no host", t.TempDir(), ":9092", "127.0.0.1:9092"},
		{"every interface", t.TempDir(), "0.0.0.0:9092", "127.0.0.1:9092"},
		{"every interface, version 6", t.TempDir(), "[::]:9092", "127.0.0.1:9092"},
		{"a port in use", t.TempDir(), taken.Addr(), "--listen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := broker.Start(broker.Options{Dir: c.dir, Listen: c.listen, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				b.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not name %q", err, c.want)
			}
		})
	}
}
