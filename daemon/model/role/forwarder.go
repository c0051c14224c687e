package role

import (
	"context"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// learnsLive reports whether the trainer of a model's team learns between refits, from events that the shards forward.
func learnsLive(m *config.Model) bool {
	return m.Shard.Role != config.RoleAll && m.Shard.LiveTopic != ""
}

// forwarder forwards the events of a shard to the trainer. A nil forwarder forwards none.
type forwarder struct {
	to    *shard.Forwarder
	store *sketch.Store                      // for incarnations of topics
	born  map[consumer.TopicPartition]uint32 // incarnations; of the goroutine that learns
}

// newForwarder returns nil where nothing is learned between refits.
func newForwarder(o *part.Options, state *state.State, number int) (*forwarder, error) {
	m := o.Settings
	if !learnsLive(m) {
		return nil, nil
	}
	kafka, err := cluster.ClientOptions(&o.Config.Kafka)
	if err != nil {
		return nil, err
	}
	metrics := o.Metrics
	f := &forwarder{store: state.Store, born: make(map[consumer.TopicPartition]uint32)}
	f.to = shard.NewForwarder(shard.ForwarderOptions{
		Kafka: kafka, Topic: m.Shard.LiveTopic, Model: m.Name, Count: m.Shard.Count, Number: number, Log: o.Log,
		OnForwarded: func(events, of int, share float64, bytes int64) {
			metrics.LiveForwarded.WithLabelValues(m.Name).Add(float64(events))
			metrics.LiveThinned.WithLabelValues(m.Name).Add(float64(of - events))
			metrics.LiveShare.WithLabelValues(m.Name).Set(share)
			metrics.LiveBytes.WithLabelValues(m.Name).Add(float64(bytes))
		}})
	return f, nil
}

// add forwards a part. What is stored after a crash, and was not written before it, is missing from the live topic: the
// next refit learns from it.
func (f *forwarder) add(p *sketch.Part) {
	at := consumer.TopicPartition{Topic: p.Topic, Partition: p.Partition}
	born, ok := f.born[at]
	if !ok { // it changes while nothing is read alone
		row, _ := f.store.Row(p.Topic, p.Partition)
		born = row.Incarnation
		f.born[at] = born
	}
	f.to.Add(p, born)
}

// trouble says why nothing is forwarded, or "".
func (f *forwarder) trouble() string {
	if f == nil {
		return ""
	}
	return f.to.Trouble()
}

// run forwards until ctx is done, and once more what was read last.
func (f *forwarder) run(ctx context.Context) {
	f.to.Run(ctx)
	defer f.to.Close()
	// ctx is done: what was read last gets sendTimeout to go out.
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	for left := 2; left > 0; left-- { // the batch that waited, and what came after it
		if err := f.to.Flush(rest); err != nil {
			return // it has logged that
		}
	}
}
