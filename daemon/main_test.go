package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/daemontest"
)

// childBroker names the directory of a broker that a child process of a test is.
const childBroker = "REFITD_TEST_BROKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childBroker); dir != "" {
		os.Exit(serve(dir))
	}
	daemontest.Main(m)
}

// serve is a broker until its standard input ends.
func serve(dir string) int {
	b, err := broker.Start(broker.Options{Dir: dir, Logger: daemontest.Quiet()})
	if err == nil {
		err = b.CreateTopic(context.Background(), daemontest.Topic, 8, 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.Close()
	fmt.Println(b.Addr())
	_, _ = os.Stdin.Read(make([]byte, 1)) // the end is what is waited for
	return 0
}

// brokerProcess starts a broker in a child process, with 8 partitions, and returns its address.
func brokerProcess(t *testing.T) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childBroker+"="+filepath.Join(t.TempDir(), "broker")), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
