package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestPythonClients: what the two Kafka clients of Python send, compressed and in transactions, is learned from once,
// what they abort is not, and both read the answers of score.topic. A client that is not installed is skipped.
func TestPythonClients(t *testing.T) {
	tier.Need(t, tier.Kills)
	for client, module := range map[string]string{"kafka-python": "kafka", "confluent-kafka": "confluent_kafka"} {
		t.Run(client, func(t *testing.T) {
			if out, err := exec.Command("python3", "-c", "import "+module).CombinedOutput(); err != nil {
				t.Skipf("%s is not installed: %v: %s", client, err, bytes.TrimSpace(out))
			}
			addr := embedded(t)
			a := admin(t, addr)
			events, answers := "events-"+module, "answers-"+module
			makeTopic(t, a, events, 2, 1)
			config := configure(
				t,
				module,
				settings{
					brokers: addr,
					topics:  []string{events},
					train:   trainOften,
					publish: publishOften,
					score:   "topic: " + answers,
				},
			)
			python := func(args ...string) []byte {
				t.Helper()
				cmd := exec.Command(
					"python3",
					append([]string{"testdata/clients.py", client, addr[0], events, answers}, args...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %s", err, stderr.Bytes())
				}
				return out
			}
			python()
			trainAnyway(t, config)
			c := run(t, refitd, config, nil)
			const sent, aborted = 900, 300
			c.caughtUp(time.Minute, events, ends(t, a, events))
			within(t, time.Minute, func() error {
				if n, err := c.metric("refitd_score_records_total"); err != nil || n < sent {
					return fmt.Errorf("%g offsets answered, %v", n, err)
				}
				return nil
			})
			read := map[string]int{}
			for line := range bytes.Lines(python(strconv.Itoa(sent))) {
				var answer struct {
					Partition int32
					Offset    int64
					Version   int64
				}
				if err := json.Unmarshal(line, &answer); err != nil || answer.Version < 1 {
					t.Fatalf("%s: %v", line, err)
				}
				read[fmt.Sprint(answer.Partition, answer.Offset)]++
			}
			if len(read) != sent {
				t.Errorf("%d events have answers of %d", len(read), sent)
			}
			state := c.stopClean()
			applied, skipped := int64(0), int64(0)
			for _, p := range state.Partitions {
				applied, skipped = applied+p.Applied, skipped+p.Aborted
			}
			if applied != sent || skipped != aborted {
				t.Errorf("%d events learned from and %d aborted, %d and %d were sent", applied, skipped, sent, aborted)
			}
			proved(t, config)
		})
	}
}
