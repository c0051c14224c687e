package faults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// secureTopic is a topic with some events in it.
func secureTopic(t *testing.T, k *lone, name string) *producer {
	t.Helper()
	makeTopic(t, admin(t, k.addr()), name, 2, 1)
	p := newProducer(t, k.addr(), name)
	p.fill(500, ratings(1, 0))
	return p
}

func sasl(mechanism, password string) string {
	return fmt.Sprintf("sasl: {mechanism: %s, username: %s, password: %s}", mechanism, kafkaUser, password)
}

// TestTLS (C26): a broker with a certificate that is not right is refused in words, at once and without falling back;
// with the right ones, the whole topic is read and proved.
func TestTLS(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	p := secureTopic(t, k, "tls")
	c := k.certificates
	trusted := "tls: {enabled: true, ca_file: " + c.ca + "%s}"
	identity := fmt.Sprintf(", cert_file: %s, key_file: %[1]s", c.client)
	for _, test := range []struct {
		name, listener, tls string
		refused             string // text of /-/ready; empty reads the topic
	}{
		{"right", "SSL", fmt.Sprintf(trusted, ""), ""},
		{"mutual", "MTLS", fmt.Sprintf(trusted, identity), ""},
		{"wrong-ca", "SSL", "tls: {enabled: true, ca_file: " + c.otherCA + "}", "unknown authority"},
		{"expired", "EXPIRED", fmt.Sprintf(trusted, ""), "expired"},
		{"not-yet-valid", "FUTURE", fmt.Sprintf(trusted, ""), "not yet valid"},
		{"wrong-host", "WRONGHOST", fmt.Sprintf(trusted, ""), "127.0.0.1"},
		{"no-client-certificate", "MTLS", fmt.Sprintf(trusted, ""), "certificate"},
		{"plain-port", "PLAINTEXT", fmt.Sprintf(trusted, ""), "tls"},
		{"tls-port-without-tls", "SSL", "", "TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr := k.addr()
			if test.listener != "PLAINTEXT" {
				addr = c.addr(test.listener)
			}
			config := configure(t, test.name, settings{brokers: addr, topics: []string{"tls"}, kafka: test.tls})
			if test.refused == "" {
				if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
					t.Fatalf("exit code %d, %+v", code, c.failure)
				}
				proved(t, config)
				p.accountedFor(inspect(t, config))
				return
			}
			d := run(t, refitd, config, nil)
			d.unready(10*time.Second, test.refused)
			d.stop()
		})
	}
}

// TestSASL (C28): with the right password each mechanism reads the whole topic; with a wrong one the daemon says so
// within ten seconds, tries again at most every ten, and no log holds the password.
func TestSASL(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	p := secureTopic(t, k, "sasl")
	c := k.certificates
	encrypted := ", tls: {enabled: true, ca_file: " + c.ca + "}"
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		for _, listener := range []string{"SASL_SSL", "SASL_PLAINTEXT"} {
			tls := ""
			if listener == "SASL_SSL" {
				tls = encrypted
			}
			t.Run(mechanism+"/"+listener, func(t *testing.T) {
				config := configure(
					t,
					"right",
					settings{
						brokers: c.addr(listener),
						topics:  []string{"sasl"},
						kafka:   sasl(mechanism, kafkaPassword) + tls,
					},
				)
				if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
					t.Fatalf("exit code %d, %+v", code, c.failure)
				}
				proved(t, config)
				p.accountedFor(inspect(t, config))
				hidden(t, config, kafkaPassword)
			})
		}
		t.Run(mechanism+"/wrong", func(t *testing.T) {
			const wrong = "canary-77aa-wrong"
			config := configure(
				t,
				"wrong",
				settings{
					brokers: c.addr("SASL_SSL"),
					topics:  []string{"sasl"},
					kafka:   sasl(mechanism, wrong) + encrypted,
				},
			)
			d := run(t, refitd, config, nil)
			d.unready(10*time.Second, "authentication failed")
			d.stop()
			hidden(t, config, wrong)
		})
	}
	t.Run("plain-port-without-sasl", func(t *testing.T) {
		config := configure(t, "none", settings{brokers: c.addr("SASL_PLAINTEXT"), topics: []string{"sasl"}})
		d := run(t, refitd, config, nil)
		d.unready(10*time.Second, "SASL")
		d.stop()
	})
}

// TestSASLUserRemoved (C28): a user that is removed while the daemon runs is noticed when a connection is made anew,
// and nothing is lost when the user comes back.
func TestSASLUserRemoved(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	p := secureTopic(t, k, "removed")
	a := admin(t, k.addr())
	password := func(secret string) {
		t.Helper()
		answer, err := a.AlterUserSCRAMs(t.Context(), nil,
			[]kadm.UpsertSCRAM{{User: "bob", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: secret}})
		if err == nil {
			err = answer.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	password("bob-secret")
	config := configure(
		t,
		"removed",
		settings{brokers: k.certificates.addr("SASL_PLAINTEXT"), topics: []string{"removed"},
			kafka: "sasl: {mechanism: scram-sha-512, username: bob, password: bob-secret}"},
	)
	d := run(t, refitd, config, nil)
	within(t, 20*time.Second, func() error { // a new user takes a moment to reach the broker
		code, body, err := d.get("/-/ready")
		if err == nil && code != 200 {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
	d.caughtUp(20*time.Second, "removed", p.ends())
	answer, err := a.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: "bob", Mechanism: kadm.ScramSha512}}, nil)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	k.restart(t, nil) // connections that exist are not asked again
	d.unready(30*time.Second, "authentication failed")
	password("bob-secret")
	p.fill(500, ratings(2, 0))
	d.caughtUp(40*time.Second, "removed", p.ends())
	p.accountedFor(d.stopClean())
	proved(t, config)
}

// hidden wants no trace of a secret in the log of a child.
func hidden(t *testing.T, config, secret string) {
	t.Helper()
	b, err := os.ReadFile(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), secret) {
		t.Errorf("the password is in the log of %s", config)
	}
}
