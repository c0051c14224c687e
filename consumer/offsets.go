package consumer

import (
	"context"
	"fmt"
	"maps"

	"github.com/segmentio/kafka-go"
)

// Starts returns the first offset that the broker still holds of every partition of the topics. Call it before
// RunUntil, or instead.
func (c *Consumer) Starts(ctx context.Context) (map[TopicPartition]int64, error) {
	defer c.source.drop()
	starts, err := c.listed(ctx, kafka.FirstOffset)
	if err != nil {
		return nil, fmt.Errorf("consumer: log starts: %s", c.source.explain(err))
	}
	return starts, nil
}

// Committed returns what the group shows for the partitions of the topics, those that it has offsets for. It is a
// display, never a place to read from. Without a group it is empty.
func (c *Consumer) Committed(ctx context.Context) (map[TopicPartition]int64, error) {
	if c.opts.GroupID == "" {
		return nil, nil
	}
	parts, err := c.partitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("consumer: %s", c.source.explain(err))
	}
	out, err := c.source.committed(ctx, parts)
	if err != nil {
		return nil, fmt.Errorf("consumer: offsets of group %s: %s", c.opts.GroupID, c.source.explain(err))
	}
	maps.DeleteFunc(out, func(_ TopicPartition, offset int64) bool { return offset < 0 })
	return out, nil
}
