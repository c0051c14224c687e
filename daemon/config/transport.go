package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Transport returns connections to the brokers with the configured encryption and sign-in. The caller closes its idle connections.
func (k *Kafka) Transport() (*kafka.Transport, error) {
	secure, err := k.TLS.Client()
	if err != nil {
		return nil, err
	}
	mechanism, err := k.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	return &kafka.Transport{ClientID: k.ClientID, TLS: secure, SASL: mechanism}, nil
}

// Client returns the client side of TLS, version 1.2 or later with verification, or nil if it is not enabled.
func (t *TLS) Client() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("config: kafka.tls.ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("config: kafka.tls.ca_file: %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("config: kafka.tls.cert_file and key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "plain":
		return plain.Mechanism{Username: s.Username, Password: s.Password.Reveal()}, nil
	case "scram-sha-256":
		return scramMechanism(scram.SHA256, s)
	case "scram-sha-512":
		return scramMechanism(scram.SHA512, s)
	}
	return nil, nil
}

func scramMechanism(algorithm scram.Algorithm, s *SASL) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(algorithm, s.Username, s.Password.Reveal())
	if err != nil {
		return nil, fmt.Errorf("config: kafka.sasl: %w", err)
	}
	return m, nil
}
