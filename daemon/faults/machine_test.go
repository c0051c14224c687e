package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// needRoot skips a test that changes the machine for its own processes: mounts, control groups.
func needRoot(t *testing.T, what string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("%s: that is for root", what)
	}
}

// mounted mounts a file system on a directory of the test until the test ends.
func mounted(t *testing.T, source, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(source, dir, kind, 0, options); err != nil {
		t.Skipf("cannot mount %s: %v", kind, err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// unmount waits until nothing uses a file system any more: a process that was killed may take a moment.
func unmount(t *testing.T, dir string) {
	t.Helper()
	err := until(10*time.Second, func() error { return unix.Unmount(dir, 0) })
	if err != nil {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

// volume is an ext4 file system in an image file. Its power can be cut.
type volume struct {
	t          *testing.T
	image, dir string
	loop       *os.File // holds the loop device, which goes with it
	mounted    bool
}

// newVolume makes and mounts a file system, or skips the test with the reason.
func newVolume(t *testing.T, size int64) *volume {
	t.Helper()
	needRoot(t, "a separate file system")
	v := &volume{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	if err := os.WriteFile(v.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(v.image, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", v.image).CombinedOutput(); err != nil {
		t.Skipf("cannot make a file system: mkfs.ext4: %v %s", err, out)
	}
	t.Cleanup(v.unmount)
	if err := v.mount(); err != nil {
		t.Skipf("cannot mount a file system in a file: %v", err)
	}
	return v
}

// mount attaches the image to a loop device that is new to it, so that nothing of an earlier one is remembered, and
// mounts it.
func (v *volume) mount() error {
	image, err := os.OpenFile(v.image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer image.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for range 20 { // another process may be faster
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("no free loop device: %w", err)
		}
		device := fmt.Sprint("/dev/loop", n)
		if v.loop, err = os.OpenFile(device, os.O_RDWR, 0); err != nil {
			return err
		}
		c := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(v.loop.Fd()), &c)
		if err == nil {
			err = unix.Mount(device, v.dir, "ext4", 0, "")
		}
		if err == nil {
			v.mounted = true
			return nil
		}
		_ = v.loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s: %w", device, err)
		}
	}
	return errors.New("no free loop device: all are taken while they are asked for")
}

func (v *volume) unmount() {
	v.t.Helper()
	if v.mounted {
		v.mounted = false
		unmount(v.t, v.dir)
		_ = v.loop.Close()
	}
}

// fsIOCShutdown is FS_IOC_SHUTDOWN of linux/fs.h, _IOR('X', 125, __u32), and noLogFlush its flag
// FS_SHUTDOWN_FLAGS_NOLOGFLUSH: from now on every read and write of the file system fails, and nothing is written that
// was not, its journal included.
const (
	fsIOCShutdown = 0x8004587d
	noLogFlush    = 2
)

// cut is the power cut: what is not on disk yet will never be.
func (v *volume) cut() {
	v.t.Helper()
	root, err := os.Open(v.dir)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(root.Fd()), fsIOCShutdown, noLogFlush)
		_ = root.Close()
	}
	if err != nil {
		v.t.Fatalf("shut down %s: %v", v.dir, err)
	}
}

// restore is what the next start of the machine does: the journal is replayed.
func (v *volume) restore() {
	v.t.Helper()
	v.unmount()
	if err := v.mount(); err != nil {
		v.t.Fatal(err)
	}
}

// keep puts state and store of a configuration onto the file system.
func (v *volume) keep(config string) {
	v.t.Helper()
	for _, path := range []string{statePath(config), storePath(config)} {
		on := filepath.Join(v.dir, filepath.Base(path))
		if err := errors.Join(os.Mkdir(on, 0o700), os.Symlink(on, path)); err != nil {
			v.t.Fatal(err)
		}
	}
}

// group is a control group for one child.
type group struct {
	t   *testing.T
	dir string
}

// groupRoot is where systems mount control groups: those of version 2 themselves, or a directory for each controller of
// version 1.
const groupRoot = "/sys/fs/cgroup"

// newGroup makes a control group with limits, which are pairs of file and value for version 1 or for version 2, or
// skips the test with the reason.
func newGroup(t *testing.T, controller string, limits1, limits2 []string) group {
	t.Helper()
	needRoot(t, "a separate control group")
	parent, limits := filepath.Join(groupRoot, controller), limits1
	if _, err := os.Stat(filepath.Join(groupRoot, "cgroup.controllers")); err == nil {
		parent, limits = groupRoot, limits2
		if err := os.WriteFile(filepath.Join(groupRoot, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			t.Skipf("no control group for %s: %v", controller, err)
		}
	}
	dir, err := os.MkdirTemp(parent, "refitd-")
	if err != nil {
		t.Skipf("no control group for %s: %v", controller, err)
	}
	t.Cleanup(func() {
		if err := until(10*time.Second, func() error { return unix.Rmdir(dir) }); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	for i := 0; i+1 < len(limits); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, limits[i]), []byte(limits[i+1]), 0); err != nil {
			t.Skipf("no limit for %s: %v", controller, err)
		}
	}
	return group{t, dir}
}

// memoryGroup makes a control group that may take so many bytes, swapped out ones included.
func memoryGroup(t *testing.T, bytes int) group {
	t.Helper()
	limit := strconv.Itoa(bytes)
	return newGroup(t, "memory", []string{"memory.limit_in_bytes", limit, "memory.memsw.limit_in_bytes", limit},
		[]string{"memory.max", limit, "memory.swap.max", "0"})
}

// processorGroup makes a control group that may take a share of one processor.
func processorGroup(t *testing.T, share float64) group {
	t.Helper()
	const period = 100_000 // microseconds, that of Kubernetes
	quota := strconv.Itoa(int(share * period))
	return newGroup(t, "cpu", []string{"cpu.cfs_period_us", strconv.Itoa(period), "cpu.cfs_quota_us", quota},
		[]string{"cpu.max", fmt.Sprint(quota, " ", period)})
}

// enter is what a shell does to be in the group.
func (g group) enter() string { return "echo $$ >" + filepath.Join(g.dir, "cgroup.procs") }

// count returns a number from the first file of these names that the group has.
func (g group) count(key string, files ...string) int {
	g.t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(g.dir, f))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			g.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
				if n, err := strconv.Atoi(value); err == nil {
					return n
				}
			}
		}
	}
	g.t.Fatalf("%s has no %q in %v", g.dir, key, files)
	return 0
}
