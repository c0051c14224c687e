package faults_test

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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startScript runs one node of a real Kafka. Exit code 3 says that something it needs is missing.
const startScript = "../../.ci/kafka/start"

const missingCode = 3

// kafka is a real Apache Kafka: one node or a cluster of three, each a process.
type kafka struct {
	dir   string
	nodes []*node
}

type node struct {
	id, port, controller int
	voters               string
	dir                  string
	cmd                  *exec.Cmd // nil while it is down
	ended                chan struct{}
}

// needKafka skips the test, with the reason, where no broker can be had.
func needKafka(t *testing.T) {
	t.Helper()
	if err := haveKafka(); err != nil {
		t.Skipf("no real Kafka here: %v", err)
	}
}

var haveKafka = sync.OnceValue(func() error {
	out, err := exec.Command(startScript, "--jars").CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() == missingCode {
		return errors.New(strings.TrimSpace(string(out)))
	}
	return err
})

// makeKafka lays out a cluster that is not running yet. extra are lines for the properties of each node, format
// arguments for its format.
func makeKafka(dir string, nodes int, extra, format string) (*kafka, error) {
	k := &kafka{dir: dir}
	var voters []string
	for i := range nodes {
		ports, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		n := &node{id: i + 1, port: ports[0], controller: ports[1], dir: filepath.Join(dir, fmt.Sprint("node-", i+1))}
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n.id, n.controller))
		k.nodes = append(k.nodes, n)
		err = os.MkdirAll(n.dir, 0o700)
		extra := strings.NewReplacer("@PORT@", fmt.Sprint(n.port), "@CONTROLLER@", fmt.Sprint(n.controller)).
			Replace(extra)
		err = errors.Join(err, os.WriteFile(filepath.Join(n.dir, "extra.properties"), []byte(extra), 0o600),
			os.WriteFile(filepath.Join(n.dir, "format-arguments"), []byte(format), 0o600))
		if err != nil {
			return nil, err
		}
	}
	if nodes > 1 {
		for _, n := range k.nodes {
			n.voters = strings.Join(voters, ",")
		}
	}
	return k, nil
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// start starts a node; it is not up yet.
func (n *node) start() error {
	args := []string{n.dir, fmt.Sprint(n.id), fmt.Sprint(n.port), fmt.Sprint(n.controller)}
	if n.voters != "" {
		args = append(args, n.voters)
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(startScript, args...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL,
	} // its java and itself end with us
	if err := n.cmd.Start(); err != nil {
		n.cmd = nil
		return err
	}
	ended := make(chan struct{})
	n.ended = ended
	go func(cmd *exec.Cmd) {
		defer close(ended)
		_ = cmd.Wait()
	}(n.cmd)
	return nil
}

// died says that a node has ended without being stopped.
func (n *node) died() bool {
	select {
	case <-n.ended:
		return n.cmd != nil
	default:
		return false
	}
}

// kill is SIGKILL: what is not on disk is lost to the broker, as in a crash.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
	<-n.ended
	n.cmd = nil
}

// restart is kill -9, whatever changes on disk, start, and up again.
func (k *kafka) restart(t *testing.T, change func()) {
	t.Helper()
	for _, n := range k.nodes {
		n.kill()
	}
	if change != nil {
		change()
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
}

// start starts the nodes that are down and waits until all can be asked.
func (k *kafka) start() error {
	for _, n := range k.nodes {
		if n.cmd == nil {
			if err := n.start(); err != nil {
				return err
			}
		}
	}
	died := false
	err := until(90*time.Second, func() error {
		if died = slices.ContainsFunc(k.nodes, (*node).died); died {
			return nil
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(k.addr()...))
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		if err == nil && len(brokers) != len(k.nodes) {
			err = fmt.Errorf("%d of %d brokers are up", len(brokers), len(k.nodes))
		}
		return err
	})
	if err != nil || died {
		return fmt.Errorf("kafka did not start: %v\n%s", err, k.log())
	}
	return nil
}

func (k *kafka) stop() {
	for _, n := range k.nodes {
		n.kill()
	}
}

func (k *kafka) addr() (list []string) {
	for _, n := range k.nodes {
		list = append(list, fmt.Sprint("127.0.0.1:", n.port))
	}
	return list
}

// log returns the ends of what the brokers said.
func (k *kafka) log() string {
	var b bytes.Buffer
	for _, n := range k.nodes {
		text, err := os.ReadFile(filepath.Join(n.dir, "broker.log"))
		fmt.Fprintf(&b, "node %d: %v\n%s\n", n.id, err, text[max(0, len(text)-4000):])
	}
	return b.String()
}

// lone is the single broker that tests share; each has its own topics, and finds it running.
type lone struct {
	*kafka
	certificates *certificates
}

var shared lone

// sharedKafka returns the single broker, started if need be, with all its listeners; see secureProperties.
func sharedKafka(t *testing.T) *lone {
	t.Helper()
	needKafka(t)
	if shared.kafka == nil {
		dir, err := os.MkdirTemp("", "refitd-kafka-")
		if err == nil {
			shared.certificates, err = makeCertificates(dir)
		}
		if err == nil {
			shared.kafka, err = makeKafka(dir, 1, shared.certificates.properties, scramUsers)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.start(); err != nil {
		t.Fatal(err)
	}
	return &shared
}

func (l *lone) stop() {
	if l.kafka != nil {
		l.kafka.stop()
		_ = os.RemoveAll(l.dir)
	}
}

// admin is a client of the brokers for everything but producing.
func admin(t *testing.T, addr []string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// makeTopic creates a topic and waits until its partitions have leaders. config holds pairs of name and value.
func makeTopic(t *testing.T, a *kadm.Client, name string, partitions, replicas int, config ...string) {
	t.Helper()
	values := map[string]*string{}
	for i := 0; i+1 < len(config); i += 2 {
		values[config[i]] = &config[i+1]
	}
	within(t, 30*time.Second, func() error { // a topic of that name may still be on its way out
		_, err := a.CreateTopic(t.Context(), int32(partitions), int16(replicas), values, name)
		return err
	})
	within(t, 30*time.Second, func() error {
		ends, err := a.ListEndOffsets(t.Context(), name)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[name]) != partitions {
			err = fmt.Errorf("%d of %d partitions are there", len(ends[name]), partitions)
		}
		return err
	})
}

// ends returns the ends of a topic's partitions.
func ends(t *testing.T, a *kadm.Client, topic string) map[int32]int64 {
	t.Helper()
	list, err := a.ListCommittedOffsets(t.Context(), topic)
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	list.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out
}

// cutLog makes retention take everything of a partition below an offset.
func cutLog(t *testing.T, a *kadm.Client, topic string, partition int32, offset int64) {
	t.Helper()
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset})
	answer, err := a.DeleteRecords(t.Context(), cut)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
