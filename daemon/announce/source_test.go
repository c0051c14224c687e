package announce

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/snapshot"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSourceNotAllowed: a source that may not read the topic any more asks once in a while and says so once, and
// continues when it may.
func TestSourceNotAllowed(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, _ := b.announcer(0)
	b.within("the first announcement", func() bool { ok, _ := results(); return ok == 1 })
	s := b.source(snapshot.DirSource{Dir: b.dir})
	first := b.wait(s, snapshot.Pointer{})
	var refused atomic.Int64
	var allowed atomic.Bool
	b.cluster.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		fetch := req.(*kmsg.FetchRequest)
		if allowed.Load() {
			return nil, nil, false
		}
		refused.Add(1)
		answer := fetch.ResponseKind().(*kmsg.FetchResponse)
		for _, asked := range fetch.Topics {
			topic := kmsg.FetchResponseTopic{Topic: asked.Topic, TopicID: asked.TopicID}
			for _, p := range asked.Partitions {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	b.publish()
	b.within("three requests that are refused", func() bool { return refused.Load() >= 3 })
	const line = "topic of announcements cannot be read"
	if n := strings.Count(b.logged(), line); n != 1 {
		t.Errorf("the log says %d times that the topic cannot be read, want 1", n)
	}
	allowed.Store(true)
	if next := b.wait(s, first); next.Version != 2 {
		t.Errorf("version %d, want 2", next.Version)
	}
	if n := strings.Count(b.logged(), line); n != 1 {
		t.Errorf("the log says %d times that the topic cannot be read, want 1", n)
	}
}
