package faults_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// certificates are those of the shared broker, the ports of the listeners that use them, and the properties that make
// the listeners.
type certificates struct {
	ca, otherCA, client string         // files; client holds key and certificate
	ports               map[string]int // by the name of the listener
	properties          string
}

// The listeners of the shared broker in addition to the plain one. Each of the last ones is wrong in its own way.
var secureListeners = []struct {
	name, protocol  string
	host            string
	notBefore, ends time.Duration // from now
	more            string
}{
	{"SASL_PLAINTEXT", "SASL_PLAINTEXT", "", 0, 0, ""},
	{"SASL_SSL", "SASL_SSL", "127.0.0.1", -time.Hour, time.Hour, ""},
	{"SSL", "SSL", "127.0.0.1", -time.Hour, time.Hour, ""},
	{"MTLS", "SSL", "127.0.0.1", -time.Hour, time.Hour, "ssl.client.auth=required"},
	{"EXPIRED", "SSL", "127.0.0.1", -48 * time.Hour, -24 * time.Hour, ""},
	{"FUTURE", "SSL", "127.0.0.1", 24 * time.Hour, 48 * time.Hour, ""},
	{"WRONGHOST", "SSL", "kafka.example.org", -time.Hour, time.Hour, ""},
}

const (
	kafkaUser     = "alice"
	kafkaPassword = "canary-3f9c-secret"
	scramUsers    = "--add-scram SCRAM-SHA-256=[name=" + kafkaUser + ",password=" + kafkaPassword + "]" +
		" --add-scram SCRAM-SHA-512=[name=" + kafkaUser + ",password=" + kafkaPassword + "]"
)

// makeCertificates writes an authority, the certificate of each listener and that of a client into dir.
func makeCertificates(dir string) (*certificates, error) {
	c := &certificates{
		ca:      filepath.Join(dir, "ca.pem"),
		otherCA: filepath.Join(dir, "other-ca.pem"),
		client:  filepath.Join(dir, "client.pem"),
		ports:   map[string]int{},
	}
	ca, err := newAuthority(c.ca)
	if err != nil {
		return nil, err
	}
	if _, err := newAuthority(c.otherCA); err != nil {
		return nil, err
	}
	if err := ca.issue(c.client, "127.0.0.1", -time.Hour, time.Hour); err != nil {
		return nil, err
	}
	ports, err := freePorts(len(secureListeners))
	if err != nil {
		return nil, err
	}
	listeners := []string{"PLAINTEXT://127.0.0.1:@PORT@", "CONTROLLER://127.0.0.1:@CONTROLLER@"}
	protocols := []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	var lines []string
	for i, l := range secureListeners {
		c.ports[l.name] = ports[i]
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", l.name, ports[i]))
		protocols = append(protocols, l.name+":"+l.protocol)
		key := "listener.name." + strings.ToLower(l.name) + "."
		if l.more != "" {
			lines = append(lines, key+l.more)
		}
		if l.host != "" {
			file := filepath.Join(dir, l.name+".pem")
			if err := ca.issue(file, l.host, l.notBefore, l.ends); err != nil {
				return nil, err
			}
			lines = append(lines, key+"ssl.keystore.type=PEM", key+"ssl.keystore.location="+file,
				key+"ssl.truststore.type=PEM", key+"ssl.truststore.location="+c.ca)
		}
		if strings.HasPrefix(l.protocol, "SASL") {
			lines = append(
				lines,
				key+"plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "+
					"user_"+kafkaUser+"=\""+kafkaPassword+"\";",
			)
			for _, n := range []string{"256", "512"} {
				lines = append(
					lines,
					key+"scram-sha-"+n+".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
				)
			}
		}
	}
	all := strings.Join(listeners, ",")
	lines = append(lines, "listeners="+all,
		"advertised.listeners="+strings.Replace(all, ",CONTROLLER://127.0.0.1:@CONTROLLER@", "", 1),
		"inter.broker.listener.name=PLAINTEXT", "listener.security.protocol.map="+strings.Join(protocols, ","),
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
	c.properties = strings.Join(lines, "\n") + "\n"
	return c, nil
}

func (c *certificates) addr(listener string) []string {
	return []string{fmt.Sprint("127.0.0.1:", c.ports[listener])}
}

type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority(file string) (*authority, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: filepath.Base(file)},
		NotBefore: time.Now().
			Add(-96 * time.Hour),
		NotAfter:              time.Now().Add(96 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// issue writes a key and a certificate for a host into one file.
func (a *authority) issue(file, host string, notBefore, ends time.Duration) error {
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(notBefore), NotAfter: time.Now().Add(ends), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = errors.Join(pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return errors.Join(err, os.WriteFile(file, b.Bytes(), 0o600))
}
