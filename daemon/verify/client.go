package verify

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// clientOptions are those of a client with the configured encryption and sign-in.
func clientOptions(k *config.Kafka) ([]kgo.Opt, error) {
	secure, err := k.TLS.Client()
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: fmt.Errorf("verify: %w", err), Key: "kafka.tls"}
	}
	options := []kgo.Opt{kgo.SeedBrokers(k.BootstrapServers...), kgo.ClientID(k.ClientID), kgo.DialTimeout(connectTimeout),
		kgo.RetryTimeout(retryTimeout), kgo.RequestRetries(fetchAttempts)}
	if secure != nil {
		options = append(options, kgo.DialTLSConfig(secure))
	}
	switch user, password := k.SASL.Username, k.SASL.Password.Reveal(); k.SASL.Mechanism {
	case "plain":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "scram-sha-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "scram-sha-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return options, nil
}
