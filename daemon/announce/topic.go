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

// compacted creates a topic, of the configuration key, with one partition and the given settings, or looks at the one
// there is and says what is wrong with it, unless warned: without compaction a consumer that joins late reads all
// records there ever were, with deletion it may find none. Of a topic that it did not create it returns the settings,
// as far as they can be read.
func compacted(ctx context.Context, client *kgo.Client, topic, key string, settings map[string]string, log *slog.Logger,
	warned bool) (
	created bool, found map[string]string, err error) {
	wanted := make(map[string]*string)
	for name, value := range settings {
		wanted[name] = &value
	}
	if created, err = produce.Ensure(ctx, client, topic, 1, wanted); err != nil {
		return false, nil, fmt.Errorf("topic %s (%s): %w", topic, key, err)
	}
	if created {
		log.Info("topic created", "topic", topic, cleanupPolicy, compact)
		return true, nil, nil
	}
	if warned {
		log = slog.New(slog.DiscardHandler)
	}
	if found, err = settingsOf(ctx, client, topic); err != nil { // not being allowed to look is no reason not to write
		log.Warn("settings of the topic cannot be read: it should be compacted", "topic", topic, "error", err)
	}
	if p, known := found[cleanupPolicy]; known && p != compact {
		log.Warn(
			"topic is not only compacted",
			"note", "consumers that join late may lack records, or read those of long ago first; "+
				"set it with kafka-configs --alter --add-config cleanup.policy=compact",
			"topic",
			topic,
			cleanupPolicy,
			p,
		)
	}
	return false, found, nil
}

// check is compacted for the topic of announcements.
func (a *Announcer) check(ctx context.Context) error {
	need := batchBytes(a.Inline)
	settings := map[string]string{cleanupPolicy: compact}
	if a.Inline > 0 {
		settings[maxMessageBytes] = strconv.Itoa(need)
	}
	created, found, err := compacted(ctx, a.client, a.Topic, "publish.topic", settings, a.Log, a.checked)
	if err != nil {
		return err
	}
	if a.largest = delivered; created {
		a.largest = need
	} else if n, err := strconv.Atoi(found[maxMessageBytes]); err == nil {
		a.largest = n
	}
	if a.largest < need && a.Inline > 0 && !a.checked {
		a.Log.Warn(
			"topic takes smaller records than publish.inline_max",
			"note", "larger versions are announced without their files; "+
				"set it with kafka-configs --alter --add-config max.message.bytes="+strconv.Itoa(need),
			"topic",
			a.Topic,
			maxMessageBytes,
			a.largest,
		)
	}
	a.checked = true
	return nil
}

// maxFrameBytes is the room for a record of the largest delta.
const maxFrameBytes = 68 << 20

// deltaSettings are those of a new topic of deltas. What is taken back leaves the log within minutes, so that who joins
// late reads little of what has ended.
var deltaSettings = map[string]string{
	cleanupPolicy:               compact,
	maxMessageBytes:             strconv.Itoa(maxFrameBytes),
	"segment.ms":                "600000",
	"min.cleanable.dirty.ratio": "0.1",
	"delete.retention.ms":       "3600000",
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
