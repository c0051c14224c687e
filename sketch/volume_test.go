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
)

// TestVolume (B19): a state on a network's file system is refused unless that was asked for, one in memory is warned
// of, and a disk is not spoken of. The numbers are those of statfs(2).
func TestVolume(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    uint32
		allow   bool
		refused bool
		warns   string
	}{
		{"NFS", 0x6969, false, true, ""},
		{"NFS", 0x6969, true, false, "state is on a network file system"},
		{"CIFS", 0xff534d42, false, true, ""},
		{"SMB", 0xfe534d42, false, true, ""},
		{"FUSE", 0x65735546, false, true, ""},
		{"FUSE", 0x65735546, true, false, "state is on a network file system"},
		{"tmpfs", 0x01021994, false, false, "gone after a reboot"},
		{"ramfs", 0x858458f6, true, false, "gone after a reboot"},
		{"ext4", 0xef53, false, false, ""},
		{"xfs", 0x58465342, false, false, ""},
		{"overlay", 0x794c7630, false, false, ""},
	} {
		var log bytes.Buffer
		err := checkVolume(volumeOf(c.kind), "state", c.allow, slog.New(slog.NewTextHandler(&log, nil)))
		if c.refused != errors.Is(err, ErrNetwork) || c.refused && !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s, allowed %t: %v", c.name, c.allow, err)
		}
		if c.warns == "" && log.Len() > 0 || !strings.Contains(log.String(), c.warns) ||
			c.warns != "" && !strings.Contains(log.String(), c.name) {
			t.Errorf("%s, allowed %t: log %q, want %q", c.name, c.allow, &log, c.warns)
		}
	}
}

// TestVolumeInMemory (B19): the daemon's Open looks at the real type. What only inspects says nothing.
func TestVolumeInMemory(t *testing.T) {
	const shared = "/dev/shm"
	var s syscall.Statfs_t
	if err := syscall.Statfs(shared, &s); err != nil || !volumeOf(uint32(s.Type)).memory {
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
