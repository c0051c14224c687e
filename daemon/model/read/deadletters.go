package read

import (
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
)

// deadLetters returns the sender of rejected records, nil if they are only counted.
func deadLetters(o *part.Options, state *state.State) (*deadletter.Sender, error) {
	topic := o.Settings.Input.DeadLetter.Topic
	if topic == "" {
		if n := state.Store.OutboxLen(); n > 0 {
			o.Log.Warn("dead letters wait for a topic", "pending", n, "key", "input.dead_letter.topic")
		}
		return nil, nil
	}
	return deadletter.New(
		deadletter.Options{Store: state.Store, Model: o.Settings.Name, Topic: topic, Kafka: &o.Config.Kafka,
			Metrics: o.Metrics.DeadLetters, Log: o.Log},
	)
}
