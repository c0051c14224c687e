// Package produce is how refitd writes to Kafka: announcements (publish.topic), dead letters
// (input.dead_letter.topic), scores (score.topic), and what replay and quickstart send. It needs no configuration.
package produce

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrNotCreated is wrapped by the error of Ensure if the topic is missing and the brokers do not create it.
var ErrNotCreated = errors.New("topic does not exist and cannot be created")

// NewClient returns a producer: idempotent and acknowledged by all in-sync replicas, which are franz-go's defaults.
// Its batches are compressed with gzip, which every client library reads without an extension.
func NewClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.GzipCompression())}, options...)...)
}

// Close closes a client, if there is one, and forgets it.
func Close(client **kgo.Client) {
	if *client != nil {
		(*client).Close()
		*client = nil
	}
}

// Ensure creates a topic that does not exist, with so many partitions, as many replicas as the brokers give by default,
// and the given settings. It reports whether it did: a topic that was there is left as it is.
func Ensure(ctx context.Context, client *kgo.Client, topic string, partitions int32,
	settings map[string]*string) (created bool, err error) {
	admin := kadm.NewClient(client)
	found, err := admin.ListTopics(ctx, topic)
	if err == nil {
		err = found.Error()
	}
	if !errors.Is(
		err,
		kerr.UnknownTopicOrPartition,
	) { // looked for first: a client that may write to it need not be allowed to create topics
		return false, err
	}
	const brokersDefault = -1
	switch _, err := admin.CreateTopic(ctx, partitions, brokersDefault, settings, topic); {
	case errors.Is(err, kerr.TopicAlreadyExists): // by another client, since the look
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrNotCreated, err)
	}
	return true, nil
}

// Bounded calls do, which writes by the client, and closes the client when ctx is done: a request whose answer never
// comes ends with it, and a record that may have arrived already waits for no other one.
func Bounded(ctx context.Context, client *kgo.Client, do func() error) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		client.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	return do()
}
