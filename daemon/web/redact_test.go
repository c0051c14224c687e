package web

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/locked"
)

// TestWebFileSecrets: a password or a key of the wrong shape in the file with TLS and authentication is in no message
// about that file, neither at the start nor when the file is changed under a server.
func TestWebFileSecrets(t *testing.T) {
	const secret = "Xq7canary"
	file := filepath.Join(t.TempDir(), "web.yml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := new(locked.Buffer)
	write("basic_auth_users: {}\n")
	addr, _ := newBench(t, func(o *Options) {
		o.ConfigFile, o.Log = file, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}).listen(t)
	client := newClient(t)
	get := func() {
		if res, err := client.Get("http://" + addr + "/-/healthy"); err != nil {
			t.Fatal(err)
		} else if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	get()
	refused := 0
	for _, text := range []string{
		"basic_auth_users: " + secret, "basic_auth_users: [" + secret + "]", "basic_auth_users: {ann: [" + secret + "]}",
		"basic_auth_users: {ann: {" + secret + ": 1}}", "basic_auth_users:\n  ann:\n    - " + secret,
		"basic_auth_users: {ann: *" + secret + "}",
		"basic_auth_users: {ann: &" + secret + " x}", "basic_auth_users: {ann: !" + secret + " x}",
		"basic_auth_users: {ann: " + secret + "}",
		"basic_auth_users: {ann: |\n" + secret + "}", "tls_server_config: " + secret, "tls_server_config: {key: [" + secret +
			"]}",
		"tls_server_config: {cert: x, key: " + secret + "}", "tls_server_config: {key: {a: " + secret + "}}", secret,
		"basic_auth_users: \"" + secret,
	} {
		write(text)
		err := Check(file)
		if err == nil {
			continue // another name for a mapping of nothing
		}
		refused++
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), secret[:7]) {
			t.Errorf("%s: %v", text, err)
		}
		get()
	}
	if refused < 12 {
		t.Errorf("%d files refused", refused)
	}
	if text := log.String(); strings.Contains(text, secret[:7]) || !strings.Contains(text, redacted) {
		t.Errorf("log\n%s", text)
	}
}

// TestWebFileAtTheStart: nor if it is found wrong only when the server begins.
func TestWebFileAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte("basic_auth_users: Xq7canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBench(t, func(o *Options) { o.ConfigFile = file })
	if err := b.Serve(t.Context(), l); err == nil || strings.Contains(err.Error(), "Xq7") {
		t.Errorf("error %v", err)
	}
}
