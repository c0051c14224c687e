package sketch

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestVolumeInMemory (B19): the daemon's Open looks at the real type. What only inspects says nothing.
func TestVolumeInMemory(t *testing.T) {
	const shared = "/dev/shm"
	var s syscall.Statfs_t
	if err := syscall.Statfs(shared, &s); err != nil || s.Type != 0x01021994 {
		t.Skipf("%s is no tmpfs here: %v", shared, err)
	}
	root, err := os.MkdirTemp(shared, "refitd-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(root)) })
	dir := filepath.Join(root, "not", "there", "yet")
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	store, err := Open(t.Context(), Options{Dir: dir, Size: 10, Logger: logger})
	must(t, err)
	must(t, store.Close())
	if !strings.Contains(log.String(), "gone after a reboot") || !strings.Contains(log.String(), dir) {
		t.Errorf("log %q", &log)
	}
	log.Reset()
	store, err = OpenExisting(t.Context(), dir, logger)
	must(t, err)
	must(t, store.Close())
	if strings.Contains(log.String(), "reboot") {
		t.Errorf("log %q", &log)
	}
}

// TestDatabaseIsAwaited: the directory of a database is locked a moment longer than it was open where a child was being
// started, and is opened then; one that stays locked is in use.
func TestDatabaseIsAwaited(t *testing.T) {
	o := damageOptions(t.TempDir())
	s, err := Open(t.Context(), o)
	must(t, err)
	must(t, s.Close())
	held, err := os.Open(filepath.Join(o.Dir, rowsName))
	must(t, err)
	defer held.Close()
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked by another: %v", err)
	}
	released := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		defer close(released)
		_ = syscall.Flock(int(held.Fd()), syscall.LOCK_UN)
	})
	s, err = Open(t.Context(), o)
	<-released // before held is closed
	must(t, err)
	must(t, s.Close())
}
