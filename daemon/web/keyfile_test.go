//go:build unix

package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerKey: F14. The server's key is refused unless it is there, whole, and readable by its owner alone, who is
// this user; the refusal names the file.
func TestServerKey(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.files(dir)
	key, file := filepath.Join(dir, "server.key"), filepath.Join(dir, "web.yaml")
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, named, want string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("tls_server_config: {cert_file: server.pem, key_file: "+named+"}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		switch err := Check(file); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for _, named := range []string{"server.key", key} { // relative to the file, and absolute
		for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: key, 0o644: key, 0o604: key, 0o666: key} {
			if err := os.Chmod(key, mode); err != nil {
				t.Fatal(err)
			}
			check(mode.String(), named, want)
		}
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // only root can give a file away
		if err := os.Chown(key, 12345, -1); err != nil {
			t.Fatal(err)
		}
		check("of another user", "server.key", "belongs to user 12345")
		if err := os.Chown(key, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	check("absent", "none.key", "none.key")
	check("a directory", dir, dir)
	for what, b := range map[string][]byte{"empty": nil, "half": content[:len(content)/2], "junk": []byte("junk")} {
		if err := os.WriteFile(key, b, 0o600); err != nil {
			t.Fatal(err)
		}
		check(what, "server.key", "PEM")
	}
}
