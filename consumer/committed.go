package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"
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
	req := &kafka.OffsetFetchRequest{GroupID: c.opts.GroupID, Topics: make(map[string][]int)}
	for _, tp := range slices.Collect(maps.Keys(ends)) {
		req.Topics[tp.Topic] = append(req.Topics[tp.Topic], int(tp.Partition))
	}
	res, err := c.source.client.OffsetFetch(ctx, req)
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return nil, fmt.Errorf("consumer: offsets of group %s: %s", c.opts.GroupID, c.source.explain(err))
	}
	out := make(map[TopicPartition]int64)
	for topic, list := range res.Topics {
		for _, p := range list {
			if p.Error == nil && p.CommittedOffset >= 0 {
				out[TopicPartition{topic, int32(p.Partition)}] = p.CommittedOffset
			}
		}
	}
	return out, nil
}
