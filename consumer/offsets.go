package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"
)

// Starts returns the first offset that the broker still holds of every partition of the topics. Call it before RunUntil, or instead.
func (c *Consumer) Starts(ctx context.Context) (map[TopicPartition]int64, error) {
	defer c.source.drop()
	ends, err := c.readEnds(ctx)
	if err == nil {
		ends, err = c.source.offsets(ctx, c.source.client, slices.Collect(maps.Keys(ends)), kafka.FirstOffset, c.opts.Isolation.level())
	}
	if err != nil {
		return nil, fmt.Errorf("consumer: log starts: %s", c.source.explain(err))
	}
	return ends, nil
}

// Committed returns what the group shows for the partitions of the topics, those that it has offsets for. It is a display, never a place to
// read from. Without a group it is empty.
func (c *Consumer) Committed(ctx context.Context) (map[TopicPartition]int64, error) {
	if c.opts.GroupID == "" {
		return nil, nil
	}
	ends, err := c.readEnds(ctx)
	if err != nil {
		return nil, fmt.Errorf("consumer: %s", c.source.explain(err))
	}
	out, err := c.source.committed(ctx, ends)
	if err != nil {
		return nil, fmt.Errorf("consumer: offsets of group %s: %s", c.opts.GroupID, c.source.explain(err))
	}
	maps.DeleteFunc(out, func(_ TopicPartition, offset int64) bool { return offset < 0 })
	return out, nil
}
