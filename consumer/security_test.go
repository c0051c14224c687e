package consumer

import (
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/refitd/refitd/consumer/signin"
)

// TestTLS: what is wrong with a TLS connection is reported in words, soon, and nothing falls back to plaintext.
func TestTLS(t *testing.T) {
	t.Parallel()
	const topic = "t"
	good, expired := certificate{}.selfSigned(t), certificate{
		notBefore: -2 * time.Hour,
		expiry:    -time.Hour,
	}.selfSigned(t)
	early, elsewhere := certificate{
		notBefore: time.Hour,
		expiry:    2 * time.Hour,
	}.selfSigned(t), certificate{
		host: "kafka.example",
	}.selfSigned(t)
	year := expired.Leaf.NotAfter.UTC().Format("2006-01-02T15:04")
	server := func(cert tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	client := func(cert tls.Certificate) *tls.Config { return &tls.Config{RootCAs: pool(cert)} }
	for name, c := range map[string]struct {
		server, client *tls.Config // nil is plaintext
		text           []string    // none: it works
	}{
		"right":      {server(good), client(good), nil},
		"right name": {server(elsewhere), &tls.Config{RootCAs: pool(elsewhere), ServerName: "kafka.example"}, nil},
		"wrong CA": {server(good), client(elsewhere), []string{"TLS with 127.0.0.1:",
			"x509: certificate signed by unknown authority"}},
		"system's CAs": {server(good), &tls.Config{}, []string{"TLS with 127.0.0.1:", "x509: "}},
		"expired": {server(expired), client(expired), []string{"x509: certificate has expired or is not yet valid",
			year}},
		"not yet valid": {server(early), client(early), []string{"x509: certificate has expired or is not yet valid"}},
		"wrong host":    {server(elsewhere), client(elsewhere), []string{"x509: cannot validate certificate for 127.0.0.1"}},
		"wrong name": {server(elsewhere), &tls.Config{RootCAs: pool(elsewhere), ServerName: "other.example"},
			[]string{"x509: certificate is valid for kafka.example, not other.example"}},
		"TLS 1.1 only": {&tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS11}, client(good),
			[]string{"TLS with 127.0.0.1:", "protocol version"}},
		"plaintext to TLS": {server(good), nil, []string{"TLS"}},
		"TLS to plaintext": {nil, client(good), []string{"TLS"}},
		"no client's": {&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}, client(
			good),
			[]string{"TLS with 127.0.0.1:", "certificate required"}},
		"with the client's": {&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool(good)},
			&tls.Config{RootCAs: pool(good), Certificates: []tls.Certificate{good}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []kfake.Opt{kfake.SeedTopics(1, topic)}
			if c.server != nil {
				opts = append(opts, kfake.TLS(c.server))
			}
			cluster := newCluster(t, opts...)
			began := time.Now()
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
				func(o *Options) { o.TLS, o.RequestTimeout = c.client, DefaultOptions().RequestTimeout })
			if len(c.text) == 0 {
				await(t, "ready", func() bool { return r.Status().Ready })
				if end := r.metric(t, "refitd_consumer_cert_expiry_seconds", "broker"); end != float64(
					c.server.Certificates[0].Leaf.NotAfter.Unix()) {
					t.Errorf("the certificate ends at %g by the metric", end)
				}
				return
			}
			for _, text := range c.text {
				await(t, text, func() bool { return strings.Contains(r.reasons(), text) })
			}
			if d := time.Since(began); d > 10*time.Second || r.Status().Ready {
				t.Errorf("ready %v after %v", r.Status().Ready, d)
			}
		})
	}
}

// TestCertificateIsRenewed changes the certificates of broker and client between two connections: the next one takes
// the new ones up.
func TestCertificateIsRenewed(t *testing.T) {
	const topic = "t"
	var broker, ours atomic.Pointer[tls.Certificate]
	old, renewed := certificate{expiry: time.Hour}.selfSigned(t), certificate{expiry: 2 * time.Hour}.selfSigned(t)
	broker.Store(&old)
	ours.Store(&old)
	roots := pool(old, renewed)
	cluster := newCluster(
		t,
		kfake.SeedTopics(1, topic),
		kfake.TLS(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return broker.Load(), nil }}),
	)
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.TLS = &tls.Config{
			RootCAs:              roots,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return ours.Load(), nil },
		}
	})
	ends := func(cert *tls.Certificate) func() bool {
		return func() bool {
			at := float64(cert.Leaf.NotAfter.Unix())
			return r.Status().Ready && r.metric(t, "refitd_consumer_cert_expiry_seconds", "broker") == at &&
				r.metric(t, "refitd_consumer_cert_expiry_seconds", "client") == at
		}
	}
	await(t, "the first certificates", ends(&old))
	broker.Store(&renewed)
	ours.Store(&renewed)
	r.source.drop()
	await(t, "the renewed certificates", ends(&renewed))
}

func TestSASL(t *testing.T) {
	t.Parallel()
	const topic = "t"
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			var l line
			// Brokers hash a password as it is: the ligature stays one letter.
			const password = "alice-ﬁt"
			cluster := newCluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "alice", password),
				kfake.SeedTopics(1, topic), kfake.ListenFn(l.listen))
			good := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
				o.SASL = signin.Credentials{Mechanism: mechanism, Username: "alice", Password: password}
				o.GroupID = "g"
			})
			await(t, "ready", func() bool { return good.Status().Ready })
			if err := good.stop(); err != nil {
				t.Fatal(err)
			}

			began := time.Now()
			bad := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
				o.SASL = signin.Credentials{Mechanism: mechanism, Username: "alice", Password: "wrong-secret"}
				o.GroupID = "g"
			})
			const pause = time.Second // in place of 10 s
			bad.source.refusedPause = pause
			tries := l.accepted.Load()
			bad.start(t)
			await(t, "the reason", func() bool {
				return strings.Contains(
					bad.reasons(),
					`SASL authentication failed for user "alice" with `+mechanism+`: the broker refused user name or password`,
				)
			})
			if d := time.Since(began); d > 10*time.Second || bad.Status().Ready {
				t.Errorf("ready %v after %v", bad.Status().Ready, d)
			}
			await(t, "some tries", func() bool { return l.accepted.Load() >= tries+3 })
			if n, most := l.accepted.Load()-tries, int64(time.Since(began)/pause)+1; n > most {
				t.Errorf("%d tries, want at most %d in %v", n, most, time.Since(began))
			}
			if strings.Contains(bad.log.String()+bad.reasons(), "wrong-secret") {
				t.Errorf("the password is shown: %s", bad.log)
			}
			if _, err := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic},
				func(o *Options) {
					o.SASL = signin.Credentials{Mechanism: mechanism, Username: "alice", Password: "x"}
				}).Ends(t.Context()); err == nil || !strings.Contains(err.Error(), "SASL authentication failed") {
				t.Errorf("Ends: %v", err)
			}
		})
	}
}

// TestUserIsRemoved takes the user away while the consumer reads: the next connection is refused, and taken up again
// with the user.
func TestUserIsRemoved(t *testing.T) {
	t.Parallel()
	const topic = "t"
	var l line
	cluster := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root-secret"),
		kfake.SeedTopics(3, topic), kfake.ListenFn(l.listen))
	admin := kadm.NewClient(newProducer(t, cluster.ListenAddrs(), saslPlain("root", "root-secret")))
	change := func(set bool) {
		t.Helper()
		var err error
		if set {
			_, err = admin.AlterUserSCRAMs(
				t.Context(),
				nil,
				[]kadm.UpsertSCRAM{
					{User: "bob", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "bob-secret"},
				},
			)
		} else {
			_, err = admin.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: "bob", Mechanism: kadm.ScramSha256}}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(true)
	r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.SASL = signin.Credentials{Mechanism: "SCRAM-SHA-256", Username: "bob", Password: "bob-secret"}
		o.GroupID = "g"
	})
	const pause = time.Second
	r.source.refusedPause = pause
	r.start(t)
	await(t, "ready", func() bool { return r.Status().Ready })
	change(false)
	began, tries := time.Now(), l.accepted.Load()
	r.source.drop()
	await(t, "the reason",
		func() bool { return strings.Contains(r.reasons(), `SASL authentication failed for user "bob"`) })
	await(t, "some tries", func() bool { return l.accepted.Load() >= tries+4 })
	// fetching, looking and committing begin together
	if n, most := l.accepted.Load()-tries, int64(time.Since(began)/pause)+3; n > most {
		t.Errorf("%d tries, want at most %d in %v", n, most, time.Since(began))
	}
	change(true)
	await(t, "ready again", func() bool { return r.Status().Ready })
}
