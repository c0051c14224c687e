package storage

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/refitd/refitd/sketch/internal/fault"
)

// A volume is a kind of file system by what keeps its files.
type volume struct {
	name    string
	network bool // another machine, or a program: mapped files and locks are not what they are on a disk
	memory  bool
}

// volumes are the kinds that are no local disk, by the type that statfs(2) of Linux gives them:
// include/uapi/linux/magic.h of the kernel, and for Lustre and BeeGFS their own sources. A FUSE file system does not
// say whether it reaches over a network; the programs that do it are many.
var volumes = map[uint32]volume{
	0x00006969: {name: "NFS", network: true},
	0x0000517b: {name: "SMB", network: true},
	0xff534d42: {name: "CIFS", network: true},
	0xfe534d42: {name: "SMB", network: true},
	0x65735546: {name: "FUSE", network: true},
	0x01021997: {name: "9P", network: true},
	0x5346414f: {name: "AFS", network: true},
	0x6b414653: {name: "AFS", network: true},
	0x00c36400: {name: "Ceph", network: true},
	0x73757245: {name: "Coda", network: true},
	0x0bd00bd0: {name: "Lustre", network: true},
	0x19830326: {name: "BeeGFS", network: true},
	0x01021994: {name: "tmpfs", memory: true},
	0x858458f6: {name: "ramfs", memory: true},
}

// volumeOf returns the kind of a file system by its type; the zero volume is a local disk, or one that is not known.
func volumeOf(kind uint32) volume {
	if runtime.GOOS != "linux" { // other systems number their types anew
		return volume{}
	}
	return volumes[kind]
}

// checkVolume refuses a state on a network's file system, unless that is allowed, and warns of one that ends with the
// machine.
func checkVolume(v volume, dir string, allowNetwork bool, log *slog.Logger) error {
	switch {
	case v.network && !allowNetwork:
		return fmt.Errorf("sketch: %s is on a file system of %s, where mapped files and locks are not reliable: %w",
			dir, v.name, fault.ErrNetwork)
	case v.network:
		log.Warn("state is on a network file system", "note", "mapped files and locks are not reliable there", "dir", dir,
			"file_system", v.name)
	case v.memory:
		log.Warn("state is in memory: it is gone after a reboot", "dir", dir, "file_system", v.name)
	}
	return nil
}
