package daemon

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// TestMachineMemory: without a budget and a control group the limit is half of what the machine has.
func TestMachineMemory(t *testing.T) {
	for text, want := range map[string]int64{"MemTotal:        8000000 kB\nMemFree: 1 kB\n": 8_000_000 << 10,
		"MemFree: 1 kB\n": 0, "MemTotal: x kB": 0} {
		if got := machineMemory(fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte(text)}}); got != want {
			t.Errorf("%q: %d bytes, want %d", text, got, want)
		}
	}
	if got := machineMemory(fstest.MapFS{}); got != 0 {
		t.Errorf("%d bytes of a machine that does not say", got)
	}
}

// TestCollectEarlier: the collector runs at half of what is in use, unless the environment says otherwise.
func TestCollectEarlier(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for env, want := range map[string]int{"": gcPercent, "70": 100} { // the runtime has read it before the test set it
		debug.SetGCPercent(100)
		t.Setenv("GOGC", env)
		collectEarlier()
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("GOGC=%q: %d percent, want %d", env, got, want)
		}
	}
}

// TestGroupMemory (G3): the limit is the smallest of the control group's and those around it, under both versions and
// inside containers.
func TestGroupMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none": {nil, 0},
		"version 2": {map[string]string{"proc/self/cgroup": "0::/system.slice/refitd.service\n",
			"sys/fs/cgroup/system.slice/refitd.service/memory.max": "536870912\n"}, 512 << 20},
		"around": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n"}, 1000000},
		"the smallest": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "3000000\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n"}, 1000000},
		"no limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 1": {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/x/y\n0::/\n",
			"sys/fs/cgroup/memory/x/y/memory.limit_in_bytes": "268435456\n", "sys/fs/cgroup/cpu/x/memory.max": "5\n"},
			256 << 20},
		"version 1, none": {map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"inside a container": {map[string]string{"proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"},
			256 << 20},
		"nonsense": {map[string]string{"proc/self/cgroup": "nonsense\n0::/a\n", "sys/fs/cgroup/a/memory.max": "-7\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := groupMemory(root); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}
