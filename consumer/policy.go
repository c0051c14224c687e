package consumer

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	cleanupPolicy = "cleanup.policy"
	// policyAge is how long the cleanup.policy of a topic with holes is not asked for again: an operator may change it.
	policyAge = time.Minute

	policyCompact = "compact" // alone or with delete
	policyDelete  = "delete"
	policyUnknown = "unknown" // the broker does not say, or may not
)

// topicPolicy is what is known of the cleanup.policy of a topic.
type topicPolicy struct {
	value string
	asked time.Time
}

// learnPolicy asks for the cleanup.policy of a topic with holes, unless it is known: compaction makes holes, and
// nothing else does.
func (c *Consumer) learnPolicy(ctx context.Context, topic string) {
	c.mu.Lock()
	old := c.policies[topic]
	c.mu.Unlock()
	if old.value != "" && time.Since(old.asked) < policyAge {
		return
	}
	value, err := c.source.cleanupPolicy(ctx, topic)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.opts.Logger.Warn(
			"holes of a topic may be lost records",
			"note", "its cleanup.policy cannot be read (ACL operation DescribeConfigs)",
			"topic", topic, "reason", c.source.explain(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policies[topic] = topicPolicy{value, time.Now()}
}

// cleanupPolicy returns one of the policies, with an error where it is not known.
func (s *source) cleanupPolicy(ctx context.Context, topic string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	res, err := s.witness.DescribeConfigs(
		ctx,
		&kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{cleanupPolicy}}}},
	)
	if err := s.answered(err); err != nil {
		return policyUnknown, err
	}
	for _, r := range res.Resources {
		if r.Error != nil {
			return policyUnknown, r.Error
		}
		for _, e := range r.ConfigEntries {
			if e.ConfigName != cleanupPolicy {
				continue
			}
			if strings.Contains(e.ConfigValue, policyCompact) {
				return policyCompact, nil
			}
			return policyDelete, nil
		}
	}
	return policyUnknown, errors.New("the broker does not say")
}

// holes reports whether record sets from an offset on lack offsets, between batches or within one.
func holes(good []byte, from int64) bool {
	for next := from; ; {
		_, h, rest, ok := nextBatch(good)
		if !ok {
			return false
		}
		if h.base > next || int64(h.count) <= int64(h.lastDelta) {
			return true
		}
		next, good = max(next, h.next()), rest
	}
}

// missed counts and logs the holes of a batch that the sink has stored. The caller holds mu.
func (c *Consumer) missed(t *tally) {
	n, policy := t.holes(), c.policies[t.p.Topic].value
	if n == 0 || policy == policyCompact {
		return
	}
	if policy == "" {
		policy = policyUnknown
	}
	c.metrics.missing.WithLabelValues(t.p.Topic, policy).Add(float64(n))
	if policy == policyDelete {
		c.opts.Logger.Warn("the log of a topic that is not compacted has holes", "note", "records are missing", "topic",
			t.p.Topic, "partition", t.p.Partition, "from", t.base, "until", t.next, "holes", n)
	}
}
