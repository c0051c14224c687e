package consumer

import (
	"context"
	"fmt"
	"maps"
)

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
