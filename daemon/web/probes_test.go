package web

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestProbesNeedNoPassword: where the listener asks for a password, probes get healthy and the status of ready from the
// health listener, without reasons and names of models. It serves nothing else.
func TestProbesNeedNoPassword(t *testing.T) {
	b := newBench(t, func(o *Options) { o.ConfigFile = webFile(t, "basic_auth_users: {ann: "+passwordHash+"}\n") })
	main, _ := b.listen(t)
	health, err := ListenHealth("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.ServeHealth(ctx, health) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	ask := func(url string, want int) string {
		t.Helper()
		res, err := client.Get("http://" + url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Errorf("%s: %d %s, %v, want %d", url, res.StatusCode, text, err, want)
		}
		return string(text)
	}
	probe := health.Addr().String()
	ask(main+"/-/ready", http.StatusUnauthorized)
	for _, path := range []string{"/-/healthy", "/-/ready", "/-/ready?model=ratings"} {
		ask(probe+path, http.StatusOK)
	}
	b.fake.state = night("broker kafka-7 is away") // before the next request
	if text := ask(probe+"/-/ready", http.StatusServiceUnavailable); strings.Contains(text, "kafka-7") ||
		strings.Contains(text, "ratings") ||
		!strings.Contains(text, "web.listen_address") {
		t.Errorf("a probe without a password gets %q", text)
	}
	ask(probe+"/-/healthy", http.StatusOK)
	for _, path := range []string{"/", "/metrics", "/v1/models", "/config", "/-/reload"} {
		ask(probe+path, http.StatusNotFound)
	}
}
