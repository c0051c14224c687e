package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadStored: the settings of a state come back as they were kept; the error for what cannot be read as such
// names the file.
func TestReadStored(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadStored(dir); !errors.Is(err, ErrNoModelFile) {
		t.Errorf("without a file: %v", err)
	}
	m := DefaultModel()
	m.Name, m.Schema.Task = "ratings", "regression"
	path := filepath.Join(dir, ModelFile)
	for _, text := range []string{string(m.Stored()), "", "null", "{}", "[]", "\x00", string(m.Stored()[:100])} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadStored(dir)
		switch whole := text == string(m.Stored()); {
		case whole && (err != nil || got.Hash() != m.Hash()):
			t.Errorf("as it was kept: %v", err)
		case !whole && (!errors.Is(err, ErrModelFileDamaged) || !strings.Contains(err.Error(), path)):
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
