package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVectorTable: where vectors are written changes no version, so that a champion is carried over; the table is none
// that the daemon needs for something else; and a URL has no secret.
func TestVectorTable(t *testing.T) {
	with := func(text string) (*Config, error) {
		return Parse("a.yaml", []byte(tablesText+"  publish: {vectors: {"+text+"}}\n"), nil)
	}
	c, err := with("to: 'postgres://refitd@db/shop', over: item")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Parse("a.yaml", []byte(tablesText), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	if m.Hash() != plain.Models[0].Hash() || m.SampleHash() != plain.Models[0].SampleHash() {
		t.Error("a champion is lost where vectors are written from now on")
	}
	for model, want := range map[string]string{"Shop-1": "refitd_shop_1", "vectors": "refitd_vectors_",
		"changed": "refitd_changed_"} {
		if got := m.Publish.Vectors.TableOf(model); got != want {
			t.Errorf("table of %s: %s, want %s", model, got, want)
		}
	}
	for _, x := range []struct{ text, key string }{
		{"to: 'postgres://db/shop', over: item, table: refitd_vectors", "publish.vectors.table"},
		{"to: 'postgres://db/shop', over: item, table: refitd_changed", "publish.vectors.table"},
		{"to: 'postgres://db/shop?sslpassword=s3cret', over: item", "publish.vectors.to"},
		{"to: 'postgres://db/shop', over: price", "publish.vectors.over"},
	} {
		if _, err := with(x.text); err == nil || !strings.Contains(err.Error(), x.key) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", x.text, err, x.key)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	for _, password := range []string{"s3cret", "renewed"} {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if password == "s3cret" {
			if c, err = with("to: 'postgres://db/shop', over: item, password_file: " + file); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.Models[0].Publish.Vectors.Password(); got != password || err != nil {
			t.Errorf("password %q, %v, want that of the file now", got, err)
		}
	}
}
