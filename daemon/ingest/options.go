package ingest

import (
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/report"
)

// ConsumerOptions are those of a consumer of a model's topics, but for what the caller does with what it reads. The
// error has exit code 2.
func ConsumerOptions(k *config.Kafka, m *config.Model) (consumer.Options, error) {
	o := consumer.DefaultOptions()
	o.Brokers, o.Topics, o.GroupID, o.ClientID = k.BootstrapServers, m.AllTopics(), k.GroupID, k.ClientID
	o.StartPolicy, o.Advice = consumer.StartPolicy(m.Input.Start), binding.Advice
	o.FromStart = func(topic string) bool { return m.TableOf(topic) >= 0 }
	o.MaxWait, o.MaxPartitionBytes, o.Dial = k.FetchMaxWait.Std(), int(k.MaxPartitionFetchBytes), k.Dial
	var err error
	if o.TLS, err = k.TLS.Client(); err != nil {
		return o, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "kafka.tls"}
	}
	o.SASL = cluster.Credentials(&k.SASL)
	return o, nil
}
