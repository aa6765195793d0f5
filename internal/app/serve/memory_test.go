package serve

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// Go keeps within nine tenths of what the control group grants.
func TestATK55_MemoryLimitFollowsTheControlGroup(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int64
	}{
		{"no control groups", fstest.MapFS{}, 0},
		{"version 2", fstest.MapFS{"proc/self/cgroup": file("0::/app\n"), "sys/fs/cgroup/app/memory.max": file("1000000\n")}, 900000},
		{"version 2 in a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1000000\n")}, 900000},
		{"version 2 with the host's path", fstest.MapFS{"proc/self/cgroup": file("0::/kube/pod\n"), "sys/fs/cgroup/memory.max": file("1000000\n")}, 900000},
		{"the parent's limit", fstest.MapFS{"proc/self/cgroup": file("0::/slice/app\n"), "sys/fs/cgroup/slice/app/memory.max": file("max\n"), "sys/fs/cgroup/slice/memory.max": file("2000000\n")}, 1800000},
		{"the smaller one", fstest.MapFS{"proc/self/cgroup": file("0::/slice/app\n"), "sys/fs/cgroup/slice/app/memory.max": file("1000000\n"), "sys/fs/cgroup/slice/memory.max": file("2000000\n")}, 900000},
		{"version 2 without a limit", fstest.MapFS{"proc/self/cgroup": file("0::/app\n"), "sys/fs/cgroup/app/memory.max": file("max\n")}, 0},
		{"version 1", fstest.MapFS{"proc/self/cgroup": file("5:cpu,cpuacct:/a\n4:memory:/docker/x\n"), "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": file("1000000\n")}, 900000},
		{"version 1 without a limit", fstest.MapFS{"proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		{"no number", fstest.MapFS{"proc/self/cgroup": file("junk\n0::/\n"), "sys/fs/cgroup/memory.max": file("lots\n")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := memoryLimit(c.root); got != c.want {
				t.Errorf("the limit is %d; want %d", got, c.want)
			}
		})
	}
}

// GOMEMLIMIT of the environment wins, and the process has its old limit afterwards.
func TestMemoryLimitOfTheEnvironmentWins(t *testing.T) {
	const own = int64(math.MaxInt64 - 1)
	old := debug.SetMemoryLimit(own)
	defer debug.SetMemoryLimit(old)
	restore := Tune(func(name string) string { return map[string]string{"GOMEMLIMIT": "1GiB"}[name] })
	if got := debug.SetMemoryLimit(-1); got != own {
		t.Errorf("the limit is %d; want %d, which Go has read from GOMEMLIMIT", got, own)
	}
	restore()
	if got := debug.SetMemoryLimit(-1); got != own {
		t.Errorf("the limit afterwards is %d; want %d", got, own)
	}
}
