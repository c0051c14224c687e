package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/objects/objectstest"
	"github.com/refitd/refitd/snapshot/publish"
)

// publishAndDie publishes a version that becomes champion with a delta, moves champion back, prunes and publishes
// again; it kills itself at the step with the number.
func publishAndDie(spec string) error {
	parts := strings.Split(spec, "|")
	store, err := writer(parts[0], parts[1])
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(parts[2])
	if err != nil {
		return err
	}
	store.Step = func(site string) error {
		if left--; left < 0 {
			fmt.Println(site)
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	ctx := context.Background()
	published, err := store.Publish(ctx, "m", contents(), publish.Move{Alias: pointer.Champion})
	if err != nil {
		return err
	}
	chain, err := store.OpenChain(ctx, "m", published.Version)
	if err != nil {
		return err
	}
	m, err := snapshot.Open(parts[1], "m", snapshot.Selector{Version: published.Version})
	if err != nil {
		return err
	}
	frame, _, err := snapshottest.DeltaAfter(m, 0, store.Signer)
	if err == nil {
		err = chain.Append(ctx, frame)
	}
	if err == nil {
		_, err = store.MoveAlias(ctx, "m", publish.Move{Alias: pointer.Champion, To: 2, Event: publish.EventRollback})
	}
	if err == nil {
		_, err = store.Prune(ctx, "m", publish.Retention{Keep: 1})
	}
	if err == nil {
		_, err = store.Publish(ctx, "m", contents())
	}
	return err
}

// killedAtEveryStep kills a writer at each of its steps: aliases of the bucket name whole versions, and the next
// writer, with the same working copy or without one, continues with larger numbers.
func killedAtEveryStep(t *testing.T, stride int, url func(number int) string) (steps []string) {
	for number := 0; ; number += stride {
		at, dir := url(number), t.TempDir()
		store := writerOf(t, at, dir)
		publishOne(t, store)
		publishOne(t, store)
		step, ended := snapshottest.KilledChild(t, killEnv+"="+at+"|"+dir+"|"+strconv.Itoa(number))
		whole := func(when string) {
			for _, alias := range []string{pointer.Latest, pointer.Champion} {
				if _, err := load(t, at, alias); err != nil {
					t.Errorf("%s %q: %s: %v", when, step, alias, err)
				}
			}
		}
		whole("killed at")
		if number%4 >= 2 {
			dir = t.TempDir()
		}
		store = writerOf(t, at, dir)
		snapshottest.Must(t, store.Recover(t.Context(), "m"))
		whole("recovered from")
		latest, err := store.Alias("m", pointer.Latest)
		snapshottest.Must(t, err)
		if v := publishOne(t, store); v <= latest.Version {
			t.Errorf("%q: published version %d after %d", step, v, latest.Version)
		}
		whole("published after")
		last := int64(0)
		for r, err := range store.Log("m") {
			if snapshottest.Must(t, err); r.Sequence <= last {
				t.Errorf("%q: record %d after %d", step, r.Sequence, last)
			}
			last = r.Sequence
		}
		if ended {
			return steps
		}
		steps = append(steps, step)
	}
}

func TestKilledAtEveryStep(t *testing.T) { each(t, killed) }

func killed(t *testing.T, server *objectstest.Server) {
	stride := 2
	if server.Cloud != "s3" {
		stride = 6 // the writer is the same
	}
	steps := killedAtEveryStep(t, tier.Size(stride, 1), func(number int) string {
		return server.URL(fmt.Sprint("k", number))
	})
	for _, site := range []string{"snapshot.object", "snapshot.object_alias", "snapshot.object_delta",
		"snapshot.object_head"} {
		if tier.Asked(tier.Long) && !slices.Contains(steps, site) {
			t.Errorf("never killed at %s: %q", site, steps)
		}
	}
	t.Logf("killed at %d steps", len(steps))
}

// TestStores runs the kills and a race of writers on stores of others: versitygw, Azurite and fake-gcs-server, which
// have to be on the PATH or in Go's directory of commands.
func TestStores(t *testing.T) {
	tier.Need(t, tier.Broker)
	for name, start := range map[string]func(*testing.T) string{
		"versitygw": versity, "azurite": azurite, "fake-gcs-server": fakeGoogle,
	} {
		t.Run(name, func(t *testing.T) { onStore(t, start(t), name) })
	}
}

func onStore(t *testing.T, url, name string) {
	began := time.Now()
	var steps []string
	for round := range tier.Size(1, 6) {
		steps = append(steps, killedAtEveryStep(t, 1, func(number int) string {
			return strings.Replace(url, "models", fmt.Sprintf("models/k%d-%d", round, number), 1)
		})...)
	}
	t.Logf("%d kills in %v", len(steps), time.Since(began).Round(time.Millisecond))
	stores := []*publish.Store{writerOf(t, url, t.TempDir()), writerOf(t, url, t.TempDir())}
	var mu sync.Mutex
	won, lost := make(map[int64]bool), 0
	var group sync.WaitGroup
	for _, store := range stores {
		group.Go(func() {
			for range 30 {
				m, err := store.Publish(context.Background(), "m", contents(), publish.Move{Alias: pointer.Champion})
				mu.Lock()
				if errors.Is(err, snapshot.ErrConflict) {
					lost++
				} else if err != nil || won[m.Version] {
					t.Errorf("version %d: %v, two writers: %v", m.Version, err, won[m.Version])
				}
				won[m.Version] = err == nil
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("%d races lost", lost)
	const poll = time.Second
	bucket, err := objects.Open(url)
	snapshottest.Must(t, err)
	asked := &counted{Reader: bucket}
	w, err := snapshot.Watch(&objects.Source{Bucket: asked, Every: poll},
		snapshot.WatchOptions{Model: "m", Trust: snapshot.Trust{Keys: signer().Keys()}})
	snapshottest.Must(t, err)
	t.Cleanup(w.Close)
	await(t, "the champion", func() bool { return w.Status().Version > 0 })
	var worst time.Duration
	for range 20 {
		began := time.Now()
		v := publishOne(t, stores[0])
		took := time.Now()
		await(t, "the version", func() bool { return w.Status().Version == v })
		worst = max(worst, time.Since(took))
		t.Logf("version %d: published in %v, loaded %v later", v, took.Sub(began), time.Since(took))
	}
	if tier.Asked(tier.Load) && worst > poll*3/2 { // pauses are up to 1.3 polls
		t.Errorf("loaded %v after publication, polls are %v", worst, poll)
	}
	await(t, "polls without news", func() bool { return asked.gets.Swap(0) == 0 })
	const polls = 20
	began = time.Now()
	pause(t, polls*poll)
	most := int64(time.Since(began)/(poll*4/5)) + 1
	if n := asked.gets.Load(); n > most {
		t.Errorf("%d requests of an idle follower in %d polls", n, polls)
	} else {
		t.Logf("%d requests of an idle follower in %d polls", n, polls)
	}
}

// counted counts the requests of a source, which has no others than GET.
type counted struct {
	objects.Reader
	gets atomic.Int64
}

func (c *counted) Get(ctx context.Context, key, unless string, limit int64) ([]byte, string, error) {
	c.gets.Add(1)
	return c.Reader.Get(ctx, key, unless, limit)
}

// command returns the path of a command, or skips the test.
func command(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		home, _ := os.UserHomeDir() // LookPath says what is missing
		if path, err = exec.LookPath(filepath.Join(home, "go", "bin", name)); err != nil {
			t.Skip(name + " is not installed: " + install)
		}
	}
	return path
}

// started runs a store until the test ends. args are made of its address.
func started(t *testing.T, path string, args func(host, port string) []string) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	snapshottest.Must(t, err)
	address = ln.Addr().String()
	snapshottest.Must(t, ln.Close())
	host, port, err := net.SplitHostPort(address)
	snapshottest.Must(t, err)
	store := exec.Command(path, args(host, port)...)
	var out bytes.Buffer
	store.Stdout, store.Stderr = &out, &out
	snapshottest.Must(t, store.Start())
	t.Cleanup(func() {
		_ = store.Process.Kill()
		_ = store.Wait() // it was killed
		if t.Failed() {
			t.Log(out.String())
		}
	})
	await(t, "the store", func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	return address
}

// versity starts versitygw and returns the URL of a bucket in it.
func versity(t *testing.T) string {
	path := command(t, "versitygw", "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "tester-secret")
	t.Setenv("ROOT_ACCESS_KEY_ID", "tester")
	t.Setenv("ROOT_SECRET_ACCESS_KEY", "tester-secret")
	root := t.TempDir()
	snapshottest.Must(t, os.Mkdir(filepath.Join(root, "models"), 0o755))
	return "s3://models?path_style=true&endpoint=http://" + started(t, path, func(host, port string) []string {
		return []string{"--access", "tester", "--secret", "tester-secret", "--port", host + ":" + port, "--quiet", "posix",
			root}
	})
}

// fakeGoogle starts fake-gcs-server and returns the URL of a bucket in it.
func fakeGoogle(t *testing.T) string {
	path := command(t, "fake-gcs-server", "go install github.com/fsouza/fake-gcs-server@v1.56.1")
	data := t.TempDir()
	snapshottest.Must(t, os.Mkdir(filepath.Join(data, "models"), 0o755))
	t.Setenv("STORAGE_EMULATOR_HOST", "http://"+started(t, path, func(host, port string) []string {
		return []string{"-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-data", data, "-log-level",
			"warn"}
	}))
	return "gs://models"
}

// azurite starts Azurite and returns the URL of a container in it. The account and its key are those of every Azurite.
func azurite(t *testing.T) string {
	path := command(t, "azurite-blob", "npm install -g azurite@3.37.0")
	const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	t.Setenv("AZURE_STORAGE_KEY", key)
	address := started(t, path, func(host, port string) []string {
		return []string{"--blobHost", host, "--blobPort", port, "--location", t.TempDir(), "--disableTelemetry", "--silent"}
	})
	url := "http://" + address + "/devstoreaccount1"
	snapshottest.Must(t, objects.MakeContainer(t.Context(), "azure://devstoreaccount1/models?endpoint="+url))
	return "azure://devstoreaccount1/models?endpoint=" + url
}
