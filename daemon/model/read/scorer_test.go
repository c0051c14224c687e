package read

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/locked"
)

// TestMemberName: a state keeps its name among the members of a group, and gets another where the file has something
// that is no name.
func TestMemberName(t *testing.T) {
	dir := t.TempDir()
	var log locked.Buffer
	name := func() string {
		t.Helper()
		name, err := memberName(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !isMember.MatchString(name) {
			t.Fatalf("%q, %v", name, err)
		}
		return name
	}
	last := name()
	if now := name(); now != last || log.String() != "" {
		t.Errorf("%s, then %s; log %s", last, now, log.String())
	}
	path := filepath.Join(dir, config.MemberFile)
	for _, text := range []string{"", "\x00\x00", "torn", strings.Repeat("a", 1<<20), last + "\n" + last} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		now := name()
		if now == last || name() != now || strings.Count(log.String(), path) != 1 {
			t.Errorf("%.20q: %s after %s; log %s", text, now, last, log.String())
		}
		last, log = now, locked.Buffer{}
	}
}
