package daemon_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	randv2 "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"golang.org/x/crypto/bcrypt"
)

// safe is a directory of keys, and what of them must not come out.
type safe struct {
	t        *testing.T
	dir      string
	canaries map[string][]string // the forms of each secret, by its name
}

// hide notes a secret in the forms in which it could be printed.
func (s *safe) hide(name string, secret []byte) {
	forms := []string{
		string(secret),
		hex.EncodeToString(secret),
		base64.StdEncoding.EncodeToString(secret),
		base64.RawURLEncoding.EncodeToString(secret),
		strings.Trim(fmt.Sprint(secret), "[]"),
	}
	for line := range strings.Lines(string(secret)) { // of PEM
		if line = strings.TrimSpace(line); len(line) > 8 && !strings.HasPrefix(line, "-----") {
			forms = append(forms, line)
		}
	}
	s.canaries[name] = forms
}

// pair writes a certificate for the loopback address, which is its own authority, and its key.
func (s *safe) pair(name string) tls.Certificate {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		SerialNumber:          big.NewInt(1),
		IsCA:                  true,
		BasicConstraintsValid: true,
		NotBefore: time.Now().
			Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth,
		},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.write(name+".key", secret)
	s.write(name+".pem", cert)
	s.hide(name+".key", secret)
	number, err := key.Bytes()
	if err != nil {
		s.t.Fatal(err)
	}
	s.hide(name+".key, its number", number)
	both, err := tls.X509KeyPair(cert, secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return both
}

func (s *safe) write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// TestCanaries: F10. A daemon with a canary in every secret there is (the password of the brokers by environment, the
// keys of both TLS sides, the users of the web config file, the signing key) reads, refits, signs, announces, answers,
// reloads, is refused and stops: none of what it logged, printed and served has one of them, in any encoding.
func TestCanaries(t *testing.T) {
	s := &safe{t: t, dir: t.TempDir(), canaries: map[string][]string{}}
	broker := s.pair("broker")
	s.pair("client")
	server := s.pair("server")
	const password, webPassword, variable = "canary-kafka-5e1f", "canary-web-77aa", "REFITD_TEST_PASSWORD"
	s.hide("password of the brokers", []byte(password))
	s.hide("password of the surface", []byte(webPassword))
	s.hide("Authorization header", []byte("ann:"+webPassword))
	hash, err := bcrypt.GenerateFromPassword([]byte(webPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s.hide("hash of that password", hash)
	t.Setenv(variable, password)
	s.write(
		"web.yaml",
		fmt.Appendf(nil,
			"tls_server_config: {cert_file: server.pem, key_file: server.key}\nbasic_auth_users: {ann: %q}\n", hash),
	)
	id, err := publish.CreateKeys(s.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := os.ReadFile(filepath.Join(s.dir, id+".key"))
	if err != nil {
		t.Fatal(err)
	}
	s.hide("signing key", signing)
	block, _ := pem.Decode(signing)
	s.hide("signing key, its seed", block.Bytes[len(block.Bytes)-32:])

	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, daemontest.Topic, "rejected"),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "ann", password),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{broker}, ClientAuth: tls.RequireAnyClientCert}))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	roots := x509.NewCertPool()
	roots.AddCert(broker.Leaf)
	client, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "client.pem"), filepath.Join(s.dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	b := &daemontest.Bench{T: t, Dir: s.dir, Addr: cluster.ListenAddrs()[0]}
	if b.Kafka, err = kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(daemontest.Topic),
		kgo.DialTLSConfig(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}),
		kgo.SASL(scram.Auth{User: "ann", Pass: password}.AsSha256Mechanism())); err != nil {
		t.Fatal(err)
	}
	defer b.Kafka.Close()
	random := randv2.New(randv2.NewPCG(5, 5))
	var values [][]byte
	for range 800 {
		values = append(values, daemontest.Rating(random))
	}
	b.Produce(append(values, []byte("not an event"))...)

	path := b.Configure("k", "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, "+
		"tls: {enabled: true, ca_file: broker.pem, cert_file: client.pem, key_file: client.key}, "+
		"sasl: {mechanism: scram-sha-256, username: ann, password: \"${"+variable+"}\"}",
		`"127.0.0.1:0"`, `"127.0.0.1:0", config_file: web.yaml`, "every_events: 0", "every_events: 400",
		"update_every: 0s", "update_every: 200ms, topic: champions, inline_max: 1MiB, signing_key_file: "+id+".key",
		"start: earliest", "start: earliest, dead_letter: {topic: rejected}")
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if conf.Kafka.SASL.Password.Reveal() != password {
		t.Fatal("the canary is not in the configuration")
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %#v %s %q %x %v\n", conf, conf, conf.Kafka, *conf, conf.Kafka.SASL.Password,
		conf.Kafka.SASL.Password, conf.Kafka.SASL.Password, conf.Kafka.SASL)
	text, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for i := range conf.Models {
		out.Write(conf.Models[i].Stored())
	}
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(handler).
			Info("configuration", "all", conf, "kafka", conf.Kafka, "sasl", conf.Kafka.SASL, "password",
				conf.Kafka.SASL.Password)
	}
	func() {
		defer func() { fmt.Fprint(&out, recover()) }()
		panic(fmt.Errorf("with %+v", conf))
	}()

	d, log, stop := startWith(b, path)
	pool := x509.NewCertPool()
	pool.AddCert(server.Leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	ask := func(method, page, user, password string) (status int, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+d.Addr()+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		res, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %d %v\n%s\n", method, page, res.StatusCode, res.Header, content)
		return res.StatusCode, string(content)
	}
	daemontest.Within(t, daemontest.Patience, "a signed champion, announced", func() bool {
		_, metrics := ask("GET", "/metrics", "ann", webPassword)
		return daemontest.Sum(t, metrics, `refitd_announcements_total{model="ratings",result="success"}`) > 0 &&
			daemontest.Sum(t, metrics, "refitd_dead_letters_sent_total") == 1
	})
	if m, err := publish.NewStore(filepath.Join(s.dir, "store-k")).Manifest("ratings", 1); err != nil ||
		m.KeyID != id {
		t.Fatalf("version 1 is signed by %q, %v", m.KeyID, err)
	}
	for _, page := range []string{"/", "/-/ready", "/-/healthy", "/metrics", "/config", "/status", "/debug/vars",
		"/debug/pprof/cmdline",
		"/api/v1/status/config", "/v1/models", "/v2",
		"/v1/models/ratings/versions/1", "/v1/models/ratings/aliases/champion/files/manifest.json"} {
		ask("GET", page, "", "")
		ask("GET", page, "ann", "wrong")
		ask("GET", page, "ann", webPassword)
	}
	reload := func() { ask("POST", "/-/reload", "ann", webPassword) }
	reload()
	for _, change := range []struct{ old, new string }{{"${" + variable + "}", "${REFITD_TEST_NONE}"}, {"client.key",
		"client.pem"},
		{"ca_file: broker.pem", "ca_file: broker.key"},
		{"signing_key_file: " + id + ".key", "signing_key_file: client.key"}, {"config_file: web.yaml",
			"config_file: server.key"},
		{"\"${" + variable + "}\"", "[" + password + "]"},
		{"\"${" + variable + "}\"", "another"}, {"username: ann", "usernam: ann"}} {
		edit(t, path, change.old, change.new)
		reload()
		if _, err := config.Load(path); err != nil {
			fmt.Fprintln(&out, err)
		}
		edit(t, path, change.new, change.old)
	}
	// What is refused at work is logged: the file with the users is broken, and the brokers go away.
	s.write("web.yaml", fmt.Appendf(nil, "basic_auth_users: {ann: %q\n", hash))
	ask("GET", "/-/healthy", "ann", webPassword)
	s.write(
		"web.yaml",
		fmt.Appendf(nil,
			"tls_server_config: {cert_file: server.pem, key_file: server.key}\nbasic_auth_users: {ann: %q}\n", hash),
	)
	cluster.Close()
	daemontest.Within(t, daemontest.Patience, "not ready", func() bool {
		status, _ := ask("GET", "/-/ready", "ann", webPassword)
		return status == http.StatusServiceUnavailable
	})
	stop()
	out.WriteString(log.String())
	if args, err := os.ReadFile("/proc/self/cmdline"); err == nil {
		out.Write(args)
	}
	if n := strings.Count(out.String(), "<redacted>"); n == 0 {
		t.Error("nothing was redacted: was the password printed at all?")
	}
	for name, forms := range s.canaries {
		for _, form := range forms {
			if at := strings.Index(out.String(), form); at >= 0 {
				t.Errorf("%s comes out: …%q…", name, out.String()[max(0, at-200):min(at+80, out.Len())])
				break
			}
		}
	}
	t.Logf("%d secrets looked for in %d forms in %d KiB of output", len(s.canaries), 6*len(s.canaries), out.Len()>>10)
}
