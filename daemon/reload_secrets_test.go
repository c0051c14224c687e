package daemon_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
)

// TestReloadHidesSecrets: a password of the wrong type in a file that a running daemon has to read again is in
// neither the answer, the status page nor the log.
func TestReloadHidesSecrets(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	path := b.Configure("s")
	d, log, stop := startWith(b, path)
	defer stop()
	base := "http://" + d.Addr()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const number = "7311884291"
	said := &strings.Builder{}
	for _, shape := range []string{"password: " + number, "password: [" + canary + "]", "password: {a: " + canary + "}",
		"password:" + canary,
		"password: &" + canary + " x", "password: *" + canary, "password: !" + canary + " x", "password: [" + canary,
		"pass word: " + canary,
		canary, "password: true, mechanism: [" + canary + "]", "password: 0." + number, `password: "${` + canary + `}"`} {
		bad := strings.Replace(string(good), "fetch_max_wait: 100ms",
			"fetch_max_wait: 100ms, sasl: {username: u, "+shape+"}", 1)
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		status, body := post(t, base+"/-/reload")
		_, page := daemontest.Get(t, base+"/")
		if status != http.StatusUnprocessableEntity || !strings.Contains(page, "Configuration not reloaded") {
			t.Errorf("%s: %d %s", shape, status, body)
		}
		said.WriteString(body + page)
	}
	for _, secret := range []string{canary, number} {
		if text := said.String() + log.String(); strings.Contains(text, secret) {
			t.Errorf("the secret is said: %s", text[max(0, strings.Index(text, secret)-200):])
		}
	}
}
