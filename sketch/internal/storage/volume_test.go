package storage

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/refitd/refitd/sketch/internal/fault"
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
		if c.refused != errors.Is(err, fault.ErrNetwork) || c.refused && !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s, allowed %t: %v", c.name, c.allow, err)
		}
		if c.warns == "" && log.Len() > 0 || !strings.Contains(log.String(), c.warns) ||
			c.warns != "" && !strings.Contains(log.String(), c.name) {
			t.Errorf("%s, allowed %t: log %q, want %q", c.name, c.allow, &log, c.warns)
		}
	}
}
