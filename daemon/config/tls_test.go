package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// TestClientCertificateIsReadAgain renews the files of a client certificate after the configuration was read.
func TestClientCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	conf := TLS{Enabled: true, CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	if _, err := conf.Client(); err == nil {
		t.Error("files that are missing are no error")
	}
	write := func(serial int64) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for path, block := range map[string]*pem.Block{conf.CertFile: {Type: "CERTIFICATE", Bytes: der},
			conf.KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(1)
	client, err := conf.Client()
	if err != nil {
		t.Fatal(err)
	}
	for serial := int64(1); serial <= 2; serial++ {
		write(serial)
		pair, err := client.GetClientCertificate(nil)
		if err != nil || pair.Leaf.SerialNumber.Int64() != serial {
			t.Errorf("certificate %d: %v", serial, err)
		}
	}
}
