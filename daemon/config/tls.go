package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Client returns the client side of TLS, version 1.2 or later with verification, or nil if it is not enabled. The
// client certificate is read again for every connection, so that one that was renewed on disk is taken up.
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
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("config: kafka.tls.cert_file and key_file: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(nil); err != nil {
			return nil, err
		}
		out.GetClientCertificate = load
	}
	return out, nil
}
