package faults_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// image is what the steps of configs/Containerfile make.
type image struct {
	root            string
	user, volume    string
	entrypoint, cmd []string
}

// builder runs the steps of a Containerfile without a container engine and without a registry: the machine takes the
// place of the image of Go that the first stage begins with.
type builder struct {
	t         *testing.T
	context   string
	stages    map[string]string // root directory by name
	root      string            // of the stage in hand
	directory string            // its WORKDIR
	made      image
}

// build follows the steps; one that it does not know fails the test.
func build(t *testing.T, context, file string) image {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{t: t, context: context, stages: map[string]string{}}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		step, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Fields(rest)
		switch step {
		case "", "#":
		case "FROM":
			b.from(fields)
		case "WORKDIR":
			b.directory = rest
			b.sh(`mkdir -p "$0"`, filepath.Join(b.root, rest))
		case "COPY":
			b.copy(fields)
		case "RUN":
			b.run(rest)
		case "USER":
			b.made.user = rest
		case "VOLUME":
			b.made.volume = rest
		case "ENTRYPOINT":
			b.list(rest, &b.made.entrypoint)
		case "CMD":
			b.list(rest, &b.made.cmd)
		case "ARG":
		case "LABEL":
			if name, value, _ := strings.Cut(rest, "="); !strings.HasPrefix(name, "org.opencontainers.image.") ||
				value == "" {
				t.Errorf("LABEL %s", rest)
			}
		case "EXPOSE", "STOPSIGNAL":
			if want := map[string]string{"EXPOSE": "9464", "STOPSIGNAL": "SIGTERM"}[step]; rest != want {
				t.Errorf("%s %s, want %s", step, rest, want)
			}
		default:
			t.Fatalf("the step %q is unknown to this test", line)
		}
	}
	b.made.root = b.root
	return b.made
}

func (b *builder) list(text string, out *[]string) {
	if err := json.Unmarshal([]byte(text), out); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
}

// sh runs a line of shell with arguments from $0 on.
func (b *builder) sh(line string, args ...string) {
	b.t.Helper()
	if out, err := exec.Command("sh", append([]string{"-ec", line}, args...)...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %v: %v\n%s", line, args, err, out)
	}
}

func (b *builder) goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (b *builder) from(fields []string) {
	b.root, b.directory, b.made = b.t.TempDir(), "/", image{}
	b.sh(`chmod 755 "$0"`, b.root)
	if len(fields) == 3 && fields[1] == "AS" {
		b.stages[fields[2]] = b.root
	}
	if fields[0] == "scratch" {
		return
	}
	version, isGo := strings.CutPrefix(fields[0], "docker.io/library/golang:")
	if have := b.goEnv("GOVERSION"); !isGo || !strings.HasPrefix(have, "go"+version) {
		b.t.Fatalf("%s is %s here: no stand-in for it", have, fields[0])
	}
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/tmp", b.goEnv("GOROOT"),
		b.goEnv("GOMODCACHE"), b.goEnv("GOCACHE")} {
		b.sh(`if [ -e "$0" ]; then mkdir -p "$1$0"; fi`, dir, b.root)
	}
}

// copy copies files or directories, whose contents it takes, from the context or another stage.
func (b *builder) copy(fields []string) {
	from, owner := "", ""
	for ; strings.HasPrefix(fields[0], "--"); fields = fields[1:] {
		switch name, value, _ := strings.Cut(fields[0], "="); name {
		case "--from":
			from = b.stages[value]
		case "--chown":
			owner = value
		default:
			b.t.Fatalf("COPY %s is unknown to this test", fields[0])
		}
	}
	last := len(fields) - 1
	to := fields[last]
	if !filepath.IsAbs(to) {
		to = filepath.Join(b.directory, to) + "/"
	}
	for _, source := range fields[:last] {
		switch path := filepath.Join(from, source); {
		case from == "" && source == ".": // what is under version control
			b.sh(`mkdir -p "$1"; cd "$0"; git ls-files -z | xargs -0 cp --parents -t "$1"`, b.context, b.root+to)
		case from == "":
			b.sh(`mkdir -p "$1"; cp "$0" "$1"`, filepath.Join(b.context, source), b.root+to)
		default:
			if _, err := os.Stat(path); err != nil {
				path = source // of the machine
			}
			b.sh(`case "$1" in */) mkdir -p "$1" ;; *) mkdir -p "$(dirname "$1")" ;; esac
				if [ -d "$0" ]; then mkdir -p "$1"; cp -r "$0/." "$1"; else cp "$0" "$1"; fi
				if [ "$2" ]; then chown -R "$2" "$1"; fi`, path, b.root+to, owner)
		}
	}
}

// run runs a command with the stage as its root. What the machine gives cannot be written, but for Go's caches.
func (b *builder) run(command string) {
	b.t.Helper()
	script := `root=$0 at=$1 run=$2; shift 2
		for d in "$@"; do mount --rbind "$d" "$root$d"; done
		for d in /usr /bin /lib /lib64 /etc; do [ ! -e $d ] || { mount --bind $d "$root$d"; mount -o remount,bind,ro "$root$d"; }; done
		exec chroot "$root" /bin/sh -ec "cd $at; $run"`
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", script, b.root, b.directory, command, "/dev", "/proc",
		b.goEnv("GOMODCACHE"), b.goEnv("GOCACHE"))
	cmd.Env = append(os.Environ(), "PATH="+b.goEnv("GOROOT")+"/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOFLAGS=",
		"GOMODCACHE="+b.goEnv("GOMODCACHE"), "GOCACHE="+b.goEnv("GOCACHE"))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("RUN %s: %v\n%s", command, err, out)
	}
}

// namedVolume returns a directory with the owner that an engine gives a new named volume: that of the directory in the
// image, else root.
func namedVolume(t *testing.T, i *image) string {
	t.Helper()
	dir, uid, gid := t.TempDir(), 0, 0
	if info, err := os.Stat(filepath.Join(i.root, i.volume)); err == nil {
		stat := info.Sys().(*syscall.Stat_t)
		uid, gid = int(stat.Uid), int(stat.Gid)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// outside returns an address of this machine that is not loopback: where a published port leads to inside a container.
func outside(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Log("only loopback here: the published port is tried there")
	return "127.0.0.1"
}

// TestContainer (J26): the image of configs/Containerfile, made step by step, runs on a read-only root with a new named
// volume and the example of configs/container: its port is reached from outside, asks for the password, and a version
// is published onto the volume.
func TestContainer(t *testing.T) {
	tier.Need(t, tier.Kills)
	needRoot(t, "another root directory and user")
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "ratings", 2, 1)
	p := newProducer(t, addr, "ratings")
	p.fill(500, ratings(1, 0))
	p.flush()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port, configs := strconv.Itoa(ports[0]), filepath.Join("..", "..", "configs")
	i := build(t, filepath.Dir(configs), filepath.Join(configs, "Containerfile"))

	etc := t.TempDir()
	for _, name := range []string{"refitd.yaml", "web.yml"} {
		text, err := os.ReadFile(filepath.Join(configs, "container", name))
		if err != nil {
			t.Fatal(err)
		}
		edited := strings.NewReplacer("kafka:9092", addr[0], ":9464", ":"+port, "every: 5s", "every: 500ms").
			Replace(string(text))
		if err := os.WriteFile(filepath.Join(etc, name), []byte(edited), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	volume := namedVolume(t, &i)
	script := `root=$0 at=$1 user=$4
		mkdir -p "$root$at" "$root/etc/refitd" "$root/proc"
		mount --bind "$root" "$root"; mount --bind "$2" "$root$at"; mount --bind "$3" "$root/etc/refitd"; mount --rbind /proc "$root/proc"
		mount -o remount,bind,ro "$root/etc/refitd"; mount -o remount,bind,ro "$root"
		shift 4; exec chroot --userspec="$user" "$root" "$@"`
	args := append(
		[]string{"--mount", "sh", "-ec", script, i.root, i.volume, volume, etc, i.user},
		slices.Concat(i.entrypoint, i.cmd)...)
	cmd := exec.Command("unshare", args...)
	cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	base := "http://" + net.JoinHostPort(outside(t), port)
	ask := func(path, password string, want int) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			return err
		}
		if password != "" {
			req.SetBasicAuth("refitd", password)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			select {
			case err := <-ended:
				t.Fatalf("the daemon ended: %v\n%s", err, &log)
			default:
			}
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != want {
			return fmt.Errorf("%s with password %q: %s, want %d", path, password, res.Status, want)
		}
		return nil
	}
	within(t, time.Minute, func() error { return ask("/-/ready", "change-me", http.StatusOK) })
	for _, password := range []string{"", "guess"} {
		if err := ask("/v1/models", password, http.StatusUnauthorized); err != nil {
			t.Error(err)
		}
	}
	within(t, time.Minute,
		func() error { return ask("/v1/models/ratings/aliases/champion", "change-me", http.StatusOK) })
	for _, name := range []string{"state", "snapshots"} {
		if _, err := os.Stat(filepath.Join(volume, name, "ratings")); err != nil {
			t.Errorf("on the volume: %v", err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		if code := cmd.ProcessState.ExitCode(); code != report.ExitDone {
			t.Errorf("exit code %d\n%s", code, &log)
		}
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatalf("no end a minute after SIGTERM\n%s", &log)
	}
}
