// Package broker is a broker of the Kafka protocol in this process, for demonstrations and tests: franz-go's kfake,
// which is not for data that must be kept.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	// defaultListen is a free port that only this machine can reach.
	defaultListen = "127.0.0.1:0"
	// cleanerBackoff is how often the broker applies retention. kfake's own default, one hour, is longer than a
	// demonstration.
	cleanerBackoff = time.Second
	// minSegmentBytes is the smallest segment.bytes that Apache Kafka accepts too.
	minSegmentBytes = 1 << 20
	// segmentsKept is how many full segments fit into the retention of a partition. Disk space is given back one
	// segment at a time, so a partition takes at most about retention·(1 + 1/segmentsKept), or one segment more when
	// segments are at their minimum.
	segmentsKept = 4
	// adminTimeout bounds one request to the broker in this process.
	adminTimeout = 10 * time.Second
)

// Options are the settings of a broker.
type Options struct {
	Dir    string       // required; created if absent. One broker at a time may use it: kfake takes no lock
	Listen string       // host:port that clients dial; port 0 takes a free one. Default 127.0.0.1:0
	Logger *slog.Logger // required; receives the broker's warnings and errors
}

// Broker is a Kafka-protocol broker in this process. Topics, records and offsets live in its directory and are there
// again after a restart. Topics exist only once created: a client's metadata request never makes one. Safe for
// concurrent use.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
}

// Start opens or creates the directory and listens. The caller closes the broker.
func Start(opt Options) (*Broker, error) {
	if opt.Dir == "" {
		return nil, errors.New("broker: broker directory is empty: set --dir")
	}
	if err := os.MkdirAll(opt.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("broker: broker directory (--dir): %w", err)
	}
	ln, err := listen(opt.Listen)
	if err != nil {
		return nil, err
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return ln, nil }),
		kfake.DataDir(opt.Dir),
		kfake.GroupMinSessionTimeout(time.Second), // the shortest shard.standby
		kfake.BrokerConfigs(
			map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(cleanerBackoff.Milliseconds(), 10)}),
		kfake.WithLogger(brokerLog{opt.Logger}),
	)
	if err != nil {
		return nil, errors.Join(
			fmt.Errorf("broker: broker directory %s (--dir) cannot be opened; delete it or name another: %w", opt.Dir,
				err),
			closeListener(ln),
		)
	}
	b := &Broker{cluster: cluster, addr: ln.Addr().String()}

	// kfake starts its retention timer when a topic is created, but not when one is loaded from disk; a request that
	// creates nothing starts it too.
	if err := b.createTopics(context.Background()); err != nil {
		b.Close()
		return nil, fmt.Errorf("broker: start retention of the broker: %w", err)
	}
	return b, nil
}

// Addr returns the host:port that clients dial.
func (b *Broker) Addr() string { return b.addr }

// Cluster returns what is behind the broker, for tests that make faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// CreateTopic creates a topic whose partitions each keep about their newest retentionBytes bytes, or everything if
// retentionBytes is zero. A topic that exists already is left as it is, whatever its settings.
func (b *Broker) CreateTopic(ctx context.Context, name string, partitions int, retentionBytes int64) error {
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}
	if retentionBytes > 0 {
		topic.ConfigEntries = []kafka.ConfigEntry{
			{ConfigName: "retention.bytes", ConfigValue: strconv.FormatInt(retentionBytes, 10)},
			{
				ConfigName:  "segment.bytes",
				ConfigValue: strconv.FormatInt(max(minSegmentBytes, retentionBytes/segmentsKept), 10),
			},
		}
	}
	if err := b.createTopics(ctx, topic); err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("broker: create topic %q with %d partitions: %w", name, partitions, err)
	}
	return nil
}

func (b *Broker) createTopics(ctx context.Context, topics ...kafka.TopicConfig) error {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(b.addr), Timeout: adminTimeout, Transport: transport}
	res, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics})
	if err != nil {
		return err
	}
	for _, err := range res.Errors {
		if err != nil {
			return err
		}
	}
	return nil
}

// Close stops listening, drops the clients and writes what a restart needs to the directory. A second call does
// nothing.
func (b *Broker) Close() { b.cluster.Close() }

// listen refuses addresses that mean every interface: the broker gives its clients the address it listens on.
func listen(addr string) (net.Listener, error) {
	if addr == "" {
		addr = defaultListen
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("broker: --listen %q is not host:port: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return nil, fmt.Errorf(
			"broker: --listen %q names no host, and clients dial this address: give one they can reach, such as %s",
			addr, net.JoinHostPort("127.0.0.1", port))
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("broker: --listen %q cannot be used, choose another address or port 0: %w", addr, err)
	}
	return ln, nil
}

// closeListener closes a listener that the broker may have closed before.
func closeListener(ln net.Listener) error {
	if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// brokerLog passes the broker's warnings and errors on.
type brokerLog struct{ logger *slog.Logger }

// Logf implements kfake.Logger.
func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.logger.Error("embedded broker", "text", fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.logger.Warn("embedded broker", "text", fmt.Sprintf(format, args...))
	}
}
