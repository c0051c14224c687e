package consumer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// retriable lists every error code that a client should try again after, by the table of franz-go, and one that nobody knows.
func retriable() (out []*kerr.Error) {
	for code := range int16(200) {
		if e, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && e.Retriable {
			out = append(out, e)
		}
	}
	return append(out, kerr.UnknownServerError, &kerr.Error{Message: "UNHEARD_OF", Code: 1999})
}

// TestEveryRetriableCode answers requests of each kind with every retriable code three times over, one partition or topic for each code.
func TestEveryRetriableCode(t *testing.T) {
	codes := retriable()
	if len(codes) < 30 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			var topics []string
			for i := range codes {
				topics = append(topics, fmt.Sprintf("t%02d", i))
			}
			cluster := newCluster(t, kfake.SeedTopics(1, topics...))
			cl := newProducer(t, cluster.ListenAddrs())
			for _, topic := range topics {
				produce(t, cl, topic, 0, numbers(0, 10)...)
			}
			var faults []*kfake.FaultHandle
			for i, code := range codes {
				f := kfake.Fault{Keys: []kmsg.Key{key}, Topic: topics[i], Err: code, Count: 3}
				if key == kmsg.FindCoordinator {
					f.Topic, f.Group, f.Count = "", "g", 1
				}
				faults = append(faults, cluster.Fault(f))
			}
			r := start(t, newMemory(), cluster.ListenAddrs(), topics, func(o *Options) { o.GroupID = "g" })
			await(t, "all records", func() bool { return r.total() == 10*len(topics) })
			for i, f := range faults {
				await(t, codes[i].Message, func() bool { return f.Hits() > 0 })
			}
			for _, topic := range topics {
				equalValues(t, r.memory, tp(topic, 0), numbers(0, 10))
			}
			await(t, "the commits", func() bool { return committedSum(t, cluster) == int64(10*len(topics)) })
			await(t, "ready", func() bool { return r.Status().Ready })
		})
	}
}

// TestCodesThatStay has a code come back for ever: not ready, and at most ten requests a second in all.
func TestCodesThatStay(t *testing.T) {
	const topic, partitions = "t", 20
	for _, c := range []struct {
		key  kmsg.Key
		err  *kerr.Error
		text string
	}{
		{kmsg.Fetch, kerr.NotLeaderForPartition, "Not Leader For Partition"},
		{kmsg.Fetch, kerr.KafkaStorageError, "Kafka Storage Error"},
		{kmsg.Fetch, kerr.UnknownServerError, "Unknown"},
		{kmsg.Metadata, kerr.LeaderNotAvailable, "Leader Not Available"},
		{kmsg.ListOffsets, kerr.NotLeaderForPartition, "Not Leader For Partition"},
		{kmsg.OffsetCommit, kerr.CoordinatorLoadInProgress, ""},
		{kmsg.Fetch, kerr.TopicAuthorizationFailed, "not allowed to read: user needs the ACL operations Read and Describe on the topic"},
		{kmsg.Fetch, kerr.UnsupportedVersion, "the broker does not speak the requests of this build"},
		{kmsg.Metadata, kerr.TopicAuthorizationFailed, "not allowed to read: user needs the ACL operations Read and Describe on the topic"},
		{kmsg.Metadata, kerr.UnsupportedVersion, "the broker does not speak the requests of this build"},
		{kmsg.OffsetCommit, kerr.GroupAuthorizationFailed, `not allowed to commit: user needs the ACL operation Read on the group "g"`},
		{kmsg.OffsetFetch, kerr.GroupAuthorizationFailed, `not allowed to commit: user needs the ACL operation Read on the group "g"`},
		{kmsg.OffsetCommit, kerr.InvalidGroupID, `the broker does not take "g" as a group id`},
	} {
		t.Run(c.key.Name()+"/"+c.err.Message, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, kfake.SeedTopics(partitions, topic))
			fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: -1})
			var requests atomic.Int32
			cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				requests.Add(1)
				return nil, nil, false
			})
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
				o.GroupID = "g"
				o.RefreshEvery, o.CommitEvery, o.MaxWait = time.Second, time.Second, 500*time.Millisecond
			})
			await(t, "the reason", func() bool { return fault.Hits() > 0 && strings.Contains(r.reasons(), c.text) })
			if c.text != "" && r.Status().Ready {
				t.Error("ready")
			}
			const seconds = 3
			before, enough := requests.Load(), time.After(seconds*time.Second)
			<-enough
			if n := requests.Load() - before; n > 10*seconds {
				t.Errorf("%d requests in %d s", n, seconds)
			}
		})
	}
}

// TestMissingACLs has a broker with access control lists: reading, then committing, is not allowed until an operator allows it.
func TestMissingACLs(t *testing.T) {
	const topic = "t"
	allow := func(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Operation: op, Allow: true, Pattern: kmsg.ACLResourcePatternTypeLiteral}
	}
	cluster := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root-secret"),
		kfake.User("PLAIN", "nobody", "nobody-secret"), kfake.User("PLAIN", "reader", "reader-secret", allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead)),
		kfake.SeedTopics(1, topic))
	run := func(user string) *rig {
		return start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
			o.GroupID, o.SASL = "g", SASL{"PLAIN", user, user + "-secret"}
		})
	}
	nobody, reader := run("nobody"), run("reader")
	await(t, "the topic's reason", func() bool {
		return strings.Contains(nobody.reasons(), "not allowed to read: user needs the ACL operations Read and Describe on the topic (topic t: ")
	})
	await(t, "the group's reason", func() bool {
		return strings.Contains(reader.reasons(), `not allowed to commit: user needs the ACL operation Read on the group "g"`)
	})
	for _, r := range []*rig{nobody, reader} {
		if r.Status().Ready {
			t.Error("ready")
		}
	}
}
