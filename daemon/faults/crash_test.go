package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// embedded starts `refitd quickstart --broker-only`, the broker of the tests that need none of a real one's ways, and
// returns its address.
func embedded(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command(refitd, "quickstart", "--broker-only", "--dir", t.TempDir(), "--json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var broker report.Broker
	if err == nil {
		err = json.Unmarshal(line, &broker)
	}
	if err != nil || broker.BootstrapServers == "" {
		t.Fatalf("embedded broker: %q %v\n%s", line, err, stderr.Bytes())
	}
	return []string{broker.BootstrapServers}
}

// readyLimit is the longest a restart may take, from the start of the process to /-/ready.
const readyLimit = 5 * time.Second

// restlessly keeps trainer and publisher at work while a test kills: a kill falls into their steps, too.
const (
	trainOften   = "every: 300ms, " + quickTraining
	publishOften = "update_every: 200ms"
)

// trainAnyway forgets the deaths of earlier processes in refits, which would disable training for a while: a test that
// kills wants refits to fall into.
func trainAnyway(t *testing.T, config string) {
	t.Helper()
	if err := os.Remove(in(config, "deaths.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestKills (A1): the daemon is killed with kill -9 at random times under load and started again. Nothing is lost and
// nothing counts twice, by verify and by the producer's own list, and each start is ready within 5 s. One kill in
// five falls into the start. A consumer that watches the store during all of this refuses nothing of it, versions and
// deltas. At each digest that is announced it has the model of that digest.
func TestKills(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	kills, rate := tier.Size(25, 300), tier.Size(20_000, 20_000)
	makeTopic(t, admin(t, addr), "kills", 8, 1)
	p := newProducer(t, addr, "kills")
	config := configure(t, "kills", settings{brokers: addr, topics: []string{"kills"}, size: 20_000, train: trainOften,
		publish: "update_every: 1s, deltas: {every: 20ms}"})
	watcher := watchStore(t, config, true)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	began := time.Now()
	p.load(rate, ratings(seed, 0))
	var waits []time.Duration
	for i := range kills {
		trainAnyway(t, config)
		c := run(t, refitd, config, nil)
		if i%5 == 4 {
			pause(t, time.Duration(r.Int64N(int64(300*time.Millisecond))))
		} else {
			waits = append(waits, c.ready(readyLimit))
			pause(t, time.Duration(float64(200*time.Millisecond)+r.Float64()*float64(2800*time.Millisecond)))
		}
		c.kill()
	}
	took := time.Since(began)
	p.stop()
	if code, c := toTheEnd(t, config, 5*time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	result := proved(t, config)
	validStore(t, config)
	t.Logf(
		"%d kills in %v at %d events/s, %d records acknowledged: lost %d, double %d; ready after p50 %v p90 %v p99 %v max "+
			"%v (of %v)",
		kills,
		took.Round(time.Second),
		rate,
		p.total(),
		result.summary.Lost,
		result.summary.Double,
		percentile(waits, 50),
		percentile(waits, 90),
		percentile(waits, 99),
		slices.Max(waits).Round(time.Millisecond),
		readyLimit,
	)
	s := watcher.Status()
	t.Logf("a consumer loaded %d versions and applied %d deltas, refused %d and %d", s.Loads, s.DeltasApplied,
		s.Refused, s.DeltasRefused)
	if s.Loads == 0 || s.DeltasApplied == 0 || s.Refused+s.DeltasRefused > 0 {
		t.Errorf("a consumer: %+v", s)
	}
}

// validStore wants every version of the store whole and every alias to name one.
func validStore(t *testing.T, config string) {
	t.Helper()
	store := storePath(config)
	check := func(args ...string) {
		t.Helper()
		out, code := command(
			t,
			append([]string{"inspect", "--store", store, "--model", "ratings", "--json"}, args...)...)
		first, _, _ := bytes.Cut(out, []byte("\n"))
		if s := parsed[report.SnapshotInspection](first); code != 0 || !s.FilesOK || !s.GoldenOK {
			t.Errorf("version %v of the store: exit code %d, %s", args, code, first)
		}
	}
	for _, alias := range []string{"champion", "refit", "latest"} {
		check("--alias", alias)
	}
	names, err := os.ReadDir(filepath.Join(store, "ratings"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if _, err := strconv.Atoi(n.Name()); err == nil {
			check("--version", n.Name())
		}
	}
}

// TestFailpoints (A2): the daemon kills itself at each durable step, again and again under load: nothing is lost or
// double, the store holds whole versions only, and the next start is ready within 5 s.
func TestFailpoints(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "failpoints", 4, 1)
	makeTopic(t, admin(t, addr), "letters", 1, 1)
	p := newProducer(t, addr, "failpoints")
	// A gate that judges no refit promotes each of them. One that does would keep a champion for good in the long form:
	// its fold-in had learned from all events before the kill, a refit after a start from the rows of the sample only,
	// and then there is no step of keeping a new one.
	config := configure(
		t,
		"failpoints",
		settings{brokers: addr, topics: []string{"failpoints"}, train: trainOften, publish: publishOften,
			gate: "min_rows: 1, tolerance: 1", input: "dead_letter: {topic: letters}"},
	)
	p.load(1500, badIn(10, 1, 0))
	defer p.stop()
	// a first version: there is always something to continue from
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	kills := tier.Size(2, 20)
	// How likely a step is to be the last: those that every batch takes are spared most of the time.
	rare := map[string]float64{
		failpoint.SketchCommit:    0.03,
		failpoint.SketchCommitted: 0.03,
		failpoint.ConsumerBetween: 0.03,
		failpoint.SnapshotWrite:   0.3,
		failpoint.IngestRecord:    0.0003,
	}
	atStop := map[string]bool{failpoint.ConsumerOffsets: true, failpoint.DaemonShutdown: true}
	for _, site := range failpoint.Sites {
		switch site {
		case failpoint.SketchSync: // no step: see TestPowerCutWithoutSync
			continue
		case failpoint.TrainFit: // TestKilledWhileTraining: the third start would not get there
			continue
		}
		t.Run(site, func(t *testing.T) {
			for i := range kills {
				probability := 1.0
				if q, ok := rare[site]; ok {
					probability = q
				}
				trainAnyway(t, config)
				c := run(t, refitdFailing, config, []string{fmt.Sprintf("FAIL=%s=kill,%g,%d", site, probability, i+1)})
				if atStop[site] {
					c.ready(readyLimit)
					if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
				}
				dies(t, c, syscall.SIGKILL)
				validStore(t, config)
			}
			c := run(t, refitd, config, nil)
			wait := c.ready(readyLimit)
			balanced(t, c.stopClean())
			proved(t, config)
			t.Logf("%d kills, then ready after %v", kills, wait.Round(time.Millisecond))
		})
	}
	p.stop()
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	state := inspect(t, config)
	p.accountedFor(state)
	proved(t, config)
	rejected := 0
	for _, l := range state.Partitions {
		rejected += int(l.Rejected)
	}
	if letters := distinctKeys(t, addr, "letters", rejected); letters != rejected {
		t.Errorf("%d records have a dead letter, %d were rejected", letters, rejected)
	}
}

// distinctKeys reads a topic from its start until it has seen so many different keys, at most for a while.
func distinctKeys(t *testing.T, addr []string, topic string, want int) int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	keys := map[string]bool{}
	for len(keys) < want && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { keys[string(r.Key)] = true })
	}
	return len(keys)
}

// TestFailedCommit (A2): an error of the storage ends the process with exit code 5; whether the transaction was durable
// or not, the next start continues exactly where the ledger is.
func TestFailedCommit(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "failed", 4, 1)
	p := newProducer(t, addr, "failed")
	p.fill(5000, ratings(1, 0))
	// Small answers, for many transactions: one of them fails.
	config := configure(t, "failed",
		settings{brokers: addr, topics: []string{"failed"}, kafka: "max_partition_fetch_bytes: 4KiB"})
	for i, site := range []string{failpoint.SketchCommit, failpoint.SketchCommitted} {
		c := run(t, refitdFailing, config, []string{fmt.Sprintf("FAIL=%s=error,0.2,%d", site, i+1)}, "--until", "end")
		if code := c.wait(time.Minute); code != report.ExitState || c.failure == nil {
			t.Fatalf("%s: exit code %d, %+v", site, code, c.failure)
		}
		verifyOffline(t, config)
		p.fill(2000, ratings(2, 0))
	}
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
}

func verifyOffline(t *testing.T, config string) {
	t.Helper()
	if p := verify(t, config, "--offline"); p.code != 0 {
		t.Errorf("verify --offline: exit code %d, %+v", p.code, p)
	}
}
