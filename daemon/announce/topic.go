package announce

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
)

// The settings of the topic that matter.
const (
	cleanupPolicy   = "cleanup.policy"
	maxMessageBytes = "max.message.bytes"
	compact         = "compact"
	delivered       = 1_000_012 // franz-go's largest batch, a little below Kafka's own max.message.bytes
)

// check creates the topic, compacted and with one partition, or looks at the one there is and says what is wrong with it: without compaction
// a consumer that joins late reads every announcement there ever was, with deletion it may find none.
func (a *Announcer) check(ctx context.Context) error {
	need := batchBytes(a.Inline)
	policy, largest := compact, strconv.Itoa(need)
	settings := map[string]*string{cleanupPolicy: &policy}
	if a.Inline > 0 {
		settings[maxMessageBytes] = &largest
	}
	created, err := produce.Ensure(ctx, a.client, a.Topic, 1, settings)
	if err != nil {
		return fmt.Errorf("topic %s (publish.topic): %w", a.Topic, err)
	}
	if created {
		a.Log.Info("topic created", "topic", a.Topic, cleanupPolicy, compact)
		a.checked, a.largest = true, need
		return nil
	}
	if a.checked { // and logged
		return nil
	}
	found, err := settingsOf(ctx, a.client, a.Topic)
	if err != nil {
		// Not being allowed to look is no reason not to announce.
		a.Log.Warn("settings of the topic cannot be read: it should be compacted", "topic", a.Topic, "error", err)
	}
	if p, known := found[cleanupPolicy]; known && p != compact {
		a.Log.Warn("topic is not only compacted: consumers that join late may find no announcement, or old ones first; "+
			"set it with kafka-configs --alter --add-config cleanup.policy=compact", "topic", a.Topic, cleanupPolicy, p)
	}
	a.largest = delivered
	if n, err := strconv.Atoi(found[maxMessageBytes]); err == nil {
		a.largest = n
	}
	if a.Inline > 0 && a.largest < need {
		a.Log.Warn("topic takes smaller records than publish.inline_max asks for: larger versions are announced without their files; "+
			"set it with kafka-configs --alter --add-config max.message.bytes="+largest, "topic", a.Topic, maxMessageBytes, a.largest)
	}
	a.checked = true
	return nil
}

// maxFrameBytes is the room for a record of the largest delta.
const maxFrameBytes = 68 << 20

// deltaSettings are those of a new topic of deltas. What is taken back leaves the log within minutes, so that who joins late reads little of what has
// ended.
var deltaSettings = map[string]string{cleanupPolicy: compact, maxMessageBytes: strconv.Itoa(maxFrameBytes), "segment.ms": "600000",
	"min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "3600000"}

// checkDeltas creates the topic of deltas, or says what is wrong with the one there is.
func checkDeltas(ctx context.Context, client *kgo.Client, topic string, log *slog.Logger) error {
	settings := make(map[string]*string)
	for name, value := range deltaSettings {
		settings[name] = &value
	}
	created, err := produce.Ensure(ctx, client, topic, 1, settings)
	if err != nil {
		return fmt.Errorf("topic %s (publish.deltas.topic): %w", topic, err)
	}
	if created {
		log.Info("topic created", "topic", topic, cleanupPolicy, compact)
		return nil
	}
	found, err := settingsOf(ctx, client, topic)
	if err != nil { // not being allowed to look is no reason not to go on
		log.Warn("settings of the topic cannot be read: it should be compacted", "topic", topic, "error", err)
	}
	if p, known := found[cleanupPolicy]; known && p != compact {
		log.Warn("topic is not only compacted: consumers that join late may lack deltas, or read those of long ago first; "+
			"set it with kafka-configs --alter --add-config cleanup.policy=compact", "topic", topic, cleanupPolicy, p)
	}
	return nil
}

// settingsOf returns the settings of a topic by name.
func settingsOf(ctx context.Context, client *kgo.Client, topic string) (map[string]string, error) {
	described, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, topic := range described {
		if topic.Err != nil {
			return nil, topic.Err
		}
		for _, c := range topic.Configs {
			if c.Value != nil {
				found[c.Key] = strings.TrimSpace(*c.Value)
			}
		}
	}
	return found, nil
}
