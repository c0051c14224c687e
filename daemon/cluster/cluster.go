// Package cluster connects franz-go clients to the brokers of the configuration. Package consumer reads events, with a
// separate client.
package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

const (
	// Attempts is how often a request is tried before the broker counts as unreachable.
	Attempts       = 5
	retryTimeout   = 10 * time.Second
	connectTimeout = 5 * time.Second
)

// ClientOptions are those of a client with the configured brokers, encryption and sign-in. The error has exit code 2.
func ClientOptions(k *config.Kafka) ([]kgo.Opt, error) {
	secure, err := k.TLS.Client()
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "kafka.tls"}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(k.BootstrapServers...),
		kgo.ClientID(k.ClientID),
		kgo.RetryTimeout(retryTimeout),
		kgo.RequestRetries(Attempts),
	}
	credentials := Credentials(&k.SASL)
	mechanism, err := credentials.SASL()
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "kafka.sasl.mechanism"}
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return append(options, kgo.Dialer(guarded(dialer(k, secure), options, k.Refused)), kgo.DisableFetchSessions()), nil
}

// A dial connects to a broker.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

func dialer(k *config.Kafka, secure *tls.Config) dial {
	plain := &net.Dialer{Timeout: connectTimeout}
	switch {
	case k.Dial != nil:
		return k.Dial
	case secure != nil:
		return (&tls.Dialer{NetDialer: plain, Config: secure}).DialContext
	}
	return plain.DialContext
}
