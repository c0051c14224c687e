package faults_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// The session of the listener OAUTH, and how long its tokens are valid.
const (
	maxSession    = 10 * time.Second
	tokenLifetime = 15 * time.Second
)

// oauthProperties make the listener take unsecured tokens, whose issuer anybody can be.
func oauthProperties(key string) []string {
	const module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
	return []string{
		key + "sasl.enabled.mechanisms=OAUTHBEARER",
		key + "oauthbearer.sasl.jaas.config=" + module + " required unsecuredLoginStringClaim_sub=\"broker\";",
		key + "oauthbearer.connections.max.reauth.ms=" + fmt.Sprint(maxSession.Milliseconds()),
	}
}

// tokenIssuer gives unsecured tokens for client credentials.
type tokenIssuer struct {
	*httptest.Server
	away   atomic.Bool
	issued atomic.Int64
}

func newIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	i := new(tokenIssuer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); i.away.Load() || secret != kafkaPassword {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		i.issued.Add(1)
		now := time.Now()
		encode := base64.RawURLEncoding.EncodeToString
		token := encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"alice","iat":%d,"exp":%d}`,
			now.Unix(), now.Add(tokenLifetime).Unix())) + "."
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, token, int(tokenLifetime.Seconds()))
	}))
	t.Cleanup(i.Close)
	return i
}

// TestTokens (C28): with sessions of ten seconds and tokens of fifteen a daemon reads without trouble and without a
// pause; while the issuer is away it says so, and once it is back nothing is lost.
func TestTokens(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	p := secureTopic(t, k, "tokens")
	issuer := newIssuer(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(kafkaPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	config := configure(t, "tokens", settings{
		brokers: k.certificates.addr("OAUTH"), topics: []string{"tokens"}, group: "tokens",
		kafka: fmt.Sprintf("sasl: {mechanism: oauthbearer, token_url: %q, client_id: alice, client_secret_file: %s}",
			issuer.URL, secret),
	})
	d := run(t, refitd, config, nil)
	d.ready(20 * time.Second)
	before, err := os.ReadFile(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	p.load(tier.Size(2_000, 50_000), ratings(3, 0))
	stall, last, moved := time.Duration(0), float64(0), time.Now()
	for end := time.Now().Add(tier.Size(30*time.Second, 10*time.Minute)); time.Now().Before(end); {
		code, body, err := d.get("/metrics")
		if err != nil || code != http.StatusOK {
			t.Fatal(code, err)
		}
		if events := metricIn(body, "refitd_events_total"); events > last {
			last, moved = events, time.Now()
		}
		stall = max(stall, time.Since(moved))
		pause(t, 50*time.Millisecond)
	}
	log, err := os.ReadFile(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log[len(before):])) {
		if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") {
			t.Errorf("log: %s", line)
		}
	}
	if stall > 2*time.Second {
		t.Errorf("nothing was read for %v", stall)
	}
	t.Logf("%d tokens, %g events, longest pause %v", issuer.issued.Load(), last, stall.Round(time.Millisecond))
	issuer.away.Store(true)
	d.unready(maxSession+tokenLifetime+10*time.Second, "no token to sign in with")
	pause(t, tier.Size(20*time.Second, 2*time.Minute))
	issuer.away.Store(false)
	d.ready(30 * time.Second)
	p.stop()
	d.caughtUp(30*time.Second, "tokens", p.ends())
	p.accountedFor(d.stopClean())
	hidden(t, config, kafkaPassword)
	hidden(t, config, "eyJ")
}
