package faults_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// The session that the broker grants, and how long its tokens are valid.
const (
	maxSession    = 10 * time.Second
	tokenLifetime = 15 * time.Second
)

// tokenIssuer is npm's oauth2-mock-server as a process: the broker checks the signatures of its tokens.
type tokenIssuer struct {
	t         *testing.T
	port      int
	dir, log  string
	key, code string
	cmd       *exec.Cmd // nil while it is away
}

// newIssuer skips the test, with the reason, where the package cannot be had. It is kept in the user's cache directory.
func newIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no issuer of tokens here: %v", err)
	}
	i := &tokenIssuer{t: t, dir: filepath.Join(cache, "refitd", "oauth2-mock-server-8.2.3")}
	npm := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", i.dir,
		"oauth2-mock-server@8.2.3")
	if out, err := npm.CombinedOutput(); err != nil {
		t.Skipf("no issuer of tokens here: npm install: %v: %s", err, out)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("testdata/issuer.mjs")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	i.port, i.code = ports[0], string(code)
	i.key, i.log = filepath.Join(work, "key.json"), filepath.Join(work, "issuer.log")
	t.Cleanup(i.kill)
	i.start()
	return i
}

func (i *tokenIssuer) url(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s", i.port, path)
}

func (i *tokenIssuer) start() {
	i.t.Helper()
	log, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		i.t.Fatal(err)
	}
	defer log.Close()
	i.cmd = exec.Command("node", "--input-type=module") // of standard input, which finds packages in its directory
	i.cmd.Dir, i.cmd.Stdin, i.cmd.Stdout, i.cmd.Stderr = i.dir, strings.NewReader(i.code), log, log
	i.cmd.Env = append(os.Environ(), fmt.Sprint("ISSUER_PORT=", i.port), "ISSUER_SECRET="+kafkaPassword,
		fmt.Sprint("ISSUER_SECONDS=", tokenLifetime.Seconds()), "ISSUER_KEY="+i.key)
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := i.cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	within(i.t, 20*time.Second, func() error {
		answer, err := http.Get(i.url("jwks"))
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

func (i *tokenIssuer) kill() {
	if i.cmd != nil {
		_ = i.cmd.Process.Kill()
		_ = i.cmd.Wait()
		i.cmd = nil
	}
}

func (i *tokenIssuer) issued() int {
	i.t.Helper()
	log, err := os.ReadFile(i.log)
	if err != nil {
		i.t.Fatal(err)
	}
	return strings.Count(string(log), "issued\n")
}

// tokenKafka is a broker whose second listener takes tokens of an issuer. addr are the listeners' addresses.
func tokenKafka(t *testing.T, i *tokenIssuer) (k *kafka, addr []string) {
	t.Helper()
	needKafka(t)
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	addr = []string{fmt.Sprint("127.0.0.1:", ports[0])}
	const plain, key = "PLAINTEXT://127.0.0.1:@PORT@", "listener.name.oauth."
	const classes = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
	t.Setenv("JAVA_TOOL_OPTIONS", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="+i.url("jwks"))
	k, err = makeKafka(t.TempDir(), 1, strings.Join([]string{
		"listeners=" + plain + ",CONTROLLER://127.0.0.1:@CONTROLLER@,OAUTH://" + addr[0],
		"advertised.listeners=" + plain + ",OAUTH://" + addr[0], "inter.broker.listener.name=PLAINTEXT",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
		key + "sasl.enabled.mechanisms=OAUTHBEARER", key + "sasl.oauthbearer.jwks.endpoint.url=" + i.url("jwks"),
		key + "oauthbearer.sasl.jaas.config=" + classes + "LoginModule required;",
		key + "oauthbearer.sasl.server.callback.handler.class=" + classes + "ValidatorCallbackHandler",
		key + "oauthbearer.connections.max.reauth.ms=" + fmt.Sprint(maxSession.Milliseconds()),
	}, "\n")+"\n", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.stop)
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	return k, addr
}

// pauses measures how long a count does not grow.
type pauses struct {
	last    float64
	moved   time.Time
	longest time.Duration
}

func (p *pauses) add(count float64) {
	now := time.Now()
	if p.moved.IsZero() {
		p.moved = now
	}
	p.longest = max(p.longest, now.Sub(p.moved))
	if count > p.last {
		p.last, p.moved = count, now
	}
}

// bareReader reads a topic with the fetch loop alone until the test ends: what it waits for, every reader waits for.
func bareReader(t *testing.T, addr []string, topic string) *counting {
	t.Helper()
	o := consumer.DefaultOptions()
	o.Brokers, o.Topics, o.ClientID, o.StartPolicy = addr, []string{topic}, "bare", consumer.StartPolicy("earliest")
	o.Logger, o.Registerer = slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry()
	sink := new(counting)
	c, err := consumer.New(o, sink)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return sink
}

// TestTokens (C28): with sessions of ten seconds and tokens of fifteen a daemon reads without trouble and without a
// pause that readers without sessions do not have. While the issuer is away it says so, and once it is back nothing is
// lost.
func TestTokens(t *testing.T) {
	tier.Need(t, tier.Broker)
	issuer := newIssuer(t)
	k, addr := tokenKafka(t, issuer)
	makeTopic(t, admin(t, k.addr()), "tokens", 8, 1)
	p := newProducer(t, k.addr(), "tokens")
	p.fill(500, ratings(1, 0))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(kafkaPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	config := configure(t, "tokens", settings{
		brokers: addr, topics: []string{"tokens"}, group: "tokens",
		kafka: fmt.Sprintf("sasl: {mechanism: oauthbearer, token_url: %q, client_id: alice, client_secret_file: %s}",
			issuer.url("token"), secret),
	})
	d := run(t, refitd, config, nil)
	d.ready(20 * time.Second)
	before, err := os.ReadFile(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	bare := bareReader(t, k.addr(), "tokens")
	p.load(tier.Size(2_000, 50_000), ratings(3, 0))
	var daemon, plain, machine pauses
	began := time.Now()
	for looks := 0.0; time.Since(began) < tier.Size(30*time.Second, 10*time.Minute); looks++ {
		code, body, err := d.get("/metrics")
		if err != nil || code != http.StatusOK {
			t.Fatal(code, err)
		}
		daemon.add(metricIn(body, "refitd_events_total"))
		plain.add(float64(bare.records.Load()))
		machine.add(looks)
		pause(t, 50*time.Millisecond)
	}
	rate := float64(p.total()) / time.Since(began).Seconds()
	log, err := os.ReadFile(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log[len(before):])) {
		if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") {
			t.Errorf("log: %s", line)
		}
	}
	if daemon.longest > 2*max(time.Second, plain.longest) {
		t.Errorf("nothing was read for %v", daemon.longest)
	}
	t.Logf("%d tokens, %g events, %.0f acknowledged a second; longest pause %v (1s), without sessions %v, of looks %v",
		issuer.issued(), daemon.last, rate, daemon.longest.Round(time.Millisecond),
		plain.longest.Round(time.Millisecond), machine.longest.Round(time.Millisecond))
	issuer.kill()
	d.unready(maxSession+tokenLifetime+10*time.Second, "no token to sign in with")
	pause(t, tier.Size(20*time.Second, 2*time.Minute))
	issuer.start()
	d.ready(30 * time.Second)
	p.stop()
	d.caughtUp(tier.Size(30*time.Second, 5*time.Minute), "tokens", p.ends())
	p.accountedFor(d.stopClean())
	proved(t, config)
	hidden(t, config, kafkaPassword)
	hidden(t, config, "eyJ")
}
