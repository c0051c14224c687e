package produce_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon/produce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEnsure: a missing topic is made once, with its settings; one that is there needs no right to make it.
func TestEnsure(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ensure := func(topic string) (bool, error) {
		client, err := produce.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		policy := "compact"
		created, err := produce.Ensure(t.Context(), client, topic, 1, map[string]*string{"cleanup.policy": &policy})
		if err != nil || !created {
			return created, err
		}
		described, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range described[0].Configs {
			if c.Key == "cleanup.policy" && c.MaybeValue() != policy {
				t.Errorf("topic %s has %s %s", topic, c.Key, c.MaybeValue())
			}
		}
		return created, nil
	}
	for i, want := range []bool{true, false} {
		if created, err := ensure("own"); err != nil || created != want {
			t.Fatalf("call %d: created %t, %v", i+1, created, err)
		}
	}
	cluster.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := kmsg.NewCreateTopicsResponseTopic()
		refused.Topic, refused.ErrorCode = req.(*kmsg.CreateTopicsRequest).Topics[0].Topic, kerr.TopicAuthorizationFailed.Code
		answer.Topics = append(answer.Topics, refused)
		return answer, nil, true
	})
	if created, err := ensure("own"); err != nil || created {
		t.Errorf("with the topic, but no right to create it: created %t, %v", created, err)
	}
	if created, err := ensure("other"); created || !errors.Is(err, produce.ErrNotCreated) ||
		!errors.Is(err, kerr.TopicAuthorizationFailed) ||
		!strings.Contains(err.Error(), "cannot be created") {
		t.Errorf("without the topic: created %t, %v", created, err)
	}
}
