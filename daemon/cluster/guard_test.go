package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/daemontest/liar"
)

const patience = time.Minute // bounds every wait for what a quiet machine does within a second

// TestGuardRefusesWhatASecondAnswerContradicts reads a topic by franz-go through a network that lies in one answer.
func TestGuardRefusesWhatASecondAnswerContradicts(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 200
	for _, c := range []struct {
		name string
		when func(from int64) bool
		lie  func(p *kmsg.FetchResponseTopicPartition) bool
	}{
		{"up", func(from int64) bool { return from == 0 }, func(p *kmsg.FetchResponseTopicPartition) bool {
			return liar.Move(
				p, 0, 1024)
		}},
		// an answer may have one batch alone
		{"up in the middle", func(from int64) bool { return from < 1000 }, func(
			p *kmsg.FetchResponseTopicPartition) bool {
			return liar.Move(p, 2, 1024)
		}},
		{"past the log end", func(from int64) bool { return from == 0 }, func(
			p *kmsg.FetchResponseTopicPartition) bool {
			return liar.Move(p, 0, 1<<20)
		}},
		{"down", func(from int64) bool { return from > 1000 }, func(
			p *kmsg.FetchResponseTopicPartition) bool {
			return liar.Move(p, 0, -4)
		}},
		{"down in the middle", func(from int64) bool { return from > 1000 }, func(
			p *kmsg.FetchResponseTopicPartition) bool {
			return liar.Move(p, 1, -4)
		}},
		{"one left out, those behind it moved", func(from int64) bool { return from > 0 }, func(
			p *kmsg.FetchResponseTopicPartition) bool {
			b := liar.Batches(p)
			if len(b) < 3 {
				return false
			}
			for i := 2; i < len(b); i++ {
				liar.Move(p, i, -10)
			}
			altered := liar.Batches(p)
			p.RecordBatches = bytes.Join(slices.Delete(altered, 1, 2), nil)
			return true
		}},
		{"out of range", func(from int64) bool { return from > 1000 }, func(p *kmsg.FetchResponseTopicPartition) bool {
			p.ErrorCode, p.RecordBatches = 1, nil
			return true
		}},
		{"log start", func(from int64) bool { return from > 1000 }, func(p *kmsg.FetchResponseTopicPartition) bool {
			p.LogStartOffset = 1900
			return true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var lies atomic.Int32
			network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
				if c.when(from) && lies.Load() == 0 && c.lie(p) {
					lies.Add(1)
				}
			}}
			var mu sync.Mutex
			var refused []string
			client := reader(
				t,
				topic,
				batches,
				&config.Kafka{Refused: func(topic string, partition int32, reason string) {
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, fmt.Sprintf("%s/%d: %s", topic, partition, reason))
				}},
				kfake.ListenFn(network.Listen),
			)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var got []string
			for len(got) < 10*batches && ctx.Err() == nil {
				fetches := client.PollFetches(ctx)
				fetches.EachPartition(func(p kgo.FetchTopicPartition) {
					if p.LogStartOffset > 0 {
						t.Errorf("log start %d", p.LogStartOffset)
					}
				})
				fetches.EachRecord(func(r *kgo.Record) {
					if string(r.Value) != fmt.Sprint(r.Offset) {
						t.Errorf("record %s at offset %d", r.Value, r.Offset)
					}
					got = append(got, string(r.Value))
				})
			}
			if len(got) != 10*batches || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("%d records, want %d", len(got), 10*batches)
			}
			mu.Lock()
			defer mu.Unlock()
			if lies.Load() != 1 || len(refused) != 1 || !strings.HasPrefix(refused[0], "t/0: ") {
				t.Errorf("%d lies, refused %q", lies.Load(), refused)
			}
		})
	}
}

// TestGuardBelievesWhatIsSo: a log that begins within a batch is read as without it, with encryption and sign-in, too,
// and where a quota answers the second question with nothing at first.
func TestGuardBelievesWhatIsSo(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 50
	certificate, file := selfSigned(t)
	secure := []kfake.Opt{
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "u", "pw"),
	}
	signIn := config.SASL{Mechanism: "plain", Username: "u", Password: scalar.NewSecret("pw")}
	var throttled atomic.Int32
	quota := &liar.Network{Kinds: []kmsg.Key{kmsg.Fetch}, Answer: func(conn int, _ kmsg.Request, r kmsg.Response) {
		if res := r.(*kmsg.FetchResponse); conn == 2 && throttled.Load() < 2 {
			res.Topics, res.ThrottleMillis = nil, 50
			throttled.Add(1)
		}
	}}
	for name, c := range map[string]struct {
		broker    []kfake.Opt
		kafka     config.Kafka
		throttled int32
	}{
		"plain":  {kafka: config.Kafka{}},
		"quota":  {broker: []kfake.Opt{kfake.ListenFn(quota.Listen)}, throttled: 2},
		"secure": {broker: secure, kafka: config.Kafka{TLS: config.TLS{Enabled: true, CAFile: file}, SASL: signIn}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int32
			c.kafka.Refused = func(string, int32, string) { refused.Add(1) }
			client := reader(t, topic, batches, &c.kafka, c.broker...)
			client.PauseFetchTopics(topic)
			var to kadm.Offsets
			to.AddOffset(topic, 0, 95, -1)
			if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			client.ResumeFetchTopics(topic)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			n := 0
			for last := int64(-1); last < 10*batches-1 && ctx.Err() == nil; {
				client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					if last = r.Offset; last >= 95 { // those before may have been fetched before they were deleted
						n++
					}
				})
			}
			if n != 10*batches-95 || refused.Load() != 0 {
				t.Errorf("%d records, want %d; %d answers refused", n, 10*batches-95, refused.Load())
			}
			if n := throttled.Load(); n < c.throttled {
				t.Errorf("%d answers throttled, want %d", n, c.throttled)
			}
		})
	}
}

// selfSigned returns a certificate of 127.0.0.1 and a file with it.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// reader returns a client that reads a topic of batches of ten records from its start.
func reader(t *testing.T, topic string, batches int, kafka *config.Kafka, broker ...kfake.Opt) *kgo.Client {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, topic)}, broker...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	kafka.BootstrapServers, kafka.ClientID = cluster.ListenAddrs(), "c"
	options, err := ClientOptions(kafka)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(
		append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}),
			kgo.FetchMaxPartitionBytes(
				2000), kgo.ProducerLinger(0), kgo.FetchMaxWait(50 * time.Millisecond)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.PauseFetchTopics(topic)
	for i := range batches {
		var records []*kgo.Record
		for k := range 10 {
			records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, 10*i+k)})
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	client.ResumeFetchTopics(topic)
	return client
}
