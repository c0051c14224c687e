package config

import (
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestByteOrderMark: a configuration may begin with the mark that some editors write. One in UTF-16 is refused as
// what it is.
func TestByteOrderMark(t *testing.T) {
	src, err := os.ReadFile("../../configs/ratings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(string) (string, bool) { return "", false }
	want, wantErr := Parse("x.yaml", src, lookup)
	got, err := Parse("x.yaml", append([]byte(strictyaml.ByteOrderMark), src...), lookup)
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || err == nil &&
		len(got.Models) != len(want.Models) {
		t.Errorf("with a mark: %v, without: %v", err, wantErr)
	}
	for _, text := range []string{"\xff\xfek\x00a\x00", "\xfe\xff\x00k\x00a", "k\x00a\x00", "\x00k\x00a"} {
		if _, err := Parse("x.yaml", []byte(text), lookup); err == nil || !strings.Contains(err.Error(),
			"the file is UTF-16: save it in UTF-8") {
			t.Errorf("%q: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(strictyaml.ByteOrderMark+"secret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &validator{Decoder: strictyaml.NewDecoder(reflect.TypeFor[Config](), lookup)}
	if got := v.private("password_file", path); got != "secret" {
		t.Errorf("a password with a mark: %q", got)
	}
}
