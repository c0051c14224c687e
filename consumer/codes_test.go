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

	"github.com/refitd/refitd/consumer/signin"
)

// retriable lists every error code that a client should try again after, by the table of franz-go, and one that nobody
// knows.
func retriable() (out []*kerr.Error) {
	for code := range int16(200) {
		if e, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && e.Retriable {
			out = append(out, e)
		}
	}
	return append(out, kerr.UnknownServerError, &kerr.Error{Message: "UNHEARD_OF", Code: 1999})
}

// TestEveryRetriableCode answers requests of each kind with every retriable code three times over, one partition or
// topic for each code.
func TestEveryRetriableCode(t *testing.T) {
	t.Parallel()
	codes := retriable()
	if len(codes) < 30 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.OffsetCommit, kmsg.OffsetFetch,
		kmsg.FindCoordinator} {
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

// TestCodesThatStay has a code come back for ever: not ready, and at most ten requests a second in all. The cases share
// the seconds in which requests are counted.
func TestCodesThatStay(t *testing.T) {
	t.Parallel()
	const topic, partitions = "t", 60
	cases := []struct {
		key  kmsg.Key
		err  *kerr.Error
		text string // none: still ready

		rig      *rig
		requests atomic.Int32
		before   int32
	}{
		{key: kmsg.Fetch, err: kerr.NotLeaderForPartition, text: "Not Leader For Partition"},
		{key: kmsg.Fetch, err: kerr.KafkaStorageError, text: "Kafka Storage Error"},
		{key: kmsg.Fetch, err: kerr.UnknownServerError, text: "Unknown"},
		{key: kmsg.Metadata, err: kerr.LeaderNotAvailable, text: "Leader Not Available"},
		{key: kmsg.ListOffsets, err: kerr.NotLeaderForPartition, text: "Not Leader For Partition"},
		{key: kmsg.OffsetCommit, err: kerr.CoordinatorLoadInProgress},
		{
			key:  kmsg.Fetch,
			err:  kerr.TopicAuthorizationFailed,
			text: "not allowed to read: user needs the ACL operations Read and Describe on the topic",
		},
		{key: kmsg.Fetch, err: kerr.UnsupportedVersion, text: "the broker does not speak the requests of this build"},
		{
			key:  kmsg.Metadata,
			err:  kerr.TopicAuthorizationFailed,
			text: "not allowed to read: user needs the ACL operations Read and Describe on the topic",
		},
		{
			key:  kmsg.Metadata,
			err:  kerr.UnsupportedVersion,
			text: "the broker does not speak the requests of this build",
		},
		{
			key:  kmsg.OffsetCommit,
			err:  kerr.GroupAuthorizationFailed,
			text: `not allowed to commit: user needs the ACL operation Read on the group "g"`,
		},
		{
			key:  kmsg.OffsetFetch,
			err:  kerr.GroupAuthorizationFailed,
			text: `not allowed to commit: user needs the ACL operation Read on the group "g"`,
		},
		{key: kmsg.OffsetCommit, err: kerr.InvalidGroupID, text: `the broker does not take "g" as a group id`},
	}
	for i := range cases {
		c := &cases[i]
		cluster := newCluster(t, kfake.SeedTopics(partitions, topic))
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: -1})
		cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			c.requests.Add(1)
			return nil, nil, false
		})
		c.rig = start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
			o.GroupID = "g"
			o.RefreshEvery, o.CommitEvery, o.MaxWait = time.Second, time.Second, 500*time.Millisecond
		})
		await(t, "the reason "+c.text,
			func() bool { return fault.Hits() > 0 && strings.Contains(c.rig.reasons(), c.text) })
		if advised := strings.Contains(c.rig.reasons(), "; take another"); advised != (c.err == kerr.InvalidGroupID) {
			t.Errorf("%s %s: reasons %q", c.key.Name(), c.err.Message, c.rig.reasons())
		}
		if c.text != "" && c.rig.Status().Ready {
			t.Errorf("%s %s: ready", c.key.Name(), c.err.Message)
		}
	}
	const seconds = 3
	for i := range cases {
		cases[i].before = cases[i].requests.Load()
	}
	<-time.After(seconds * time.Second)
	for i := range cases {
		c := &cases[i]
		if n := c.requests.Load() - c.before; n > 10*seconds {
			t.Errorf("%s %s: %d requests in %d s", c.key.Name(), c.err.Message, n, seconds)
		}
	}
}

// TestMissingACLs has a broker with access control lists: reading, then committing, is not allowed until an operator
// allows it.
func TestMissingACLs(t *testing.T) {
	const topic = "t"
	allow := func(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{
			Resource:  kind,
			Name:      name,
			Operation: op,
			Allow:     true,
			Pattern:   kmsg.ACLResourcePatternTypeLiteral,
		}
	}
	cluster := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root-secret"),
		kfake.User("PLAIN", "nobody", "nobody-secret"), kfake.User("PLAIN", "reader", "reader-secret",
			allow(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead)),
		kfake.SeedTopics(1, topic))
	run := func(user string) *rig {
		return start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
			o.GroupID, o.SASL = "g", signin.Credentials{Mechanism: "PLAIN", Username: user, Password: user + "-secret"}
		})
	}
	nobody, reader := run("nobody"), run("reader")
	await(t, "the topic's reason", func() bool {
		return strings.Contains(nobody.reasons(),
			"not allowed to read: user needs the ACL operations Read and Describe on the topic (topic t: ")
	})
	await(t, "the group's reason", func() bool {
		return strings.Contains(reader.reasons(),
			`not allowed to commit: user needs the ACL operation Read on the group "g"`)
	})
	for _, r := range []*rig{nobody, reader} {
		if r.Status().Ready {
			t.Error("ready")
		}
	}
}
