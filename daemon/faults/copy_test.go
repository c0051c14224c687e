package faults_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestNaiveCopy (B16): a copy of the state directory that was made under load, file by file, is refused with the name
// of a file, or opened as a state of some moment that reads on from there: nothing is lost and nothing counts twice, by
// verify. The way that is documented is refitd state backup.
func TestNaiveCopy(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "copied", 4, 1)
	p := newProducer(t, addr, "copied")
	config := configure(t, "copied", settings{brokers: addr, topics: []string{"copied"}, size: 20_000})
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	p.load(tier.Size(10_000, 20_000), ratings(1, 0))
	var copies []string
	for range tier.Size(5, 20) {
		pause(t, 400*time.Millisecond)
		copied := t.TempDir()
		_ = os.CopyFS(
			copied,
			os.DirFS(statePath(config)),
		) // a file that is gone before it is reached is part of the fault
		copies = append(copies, copied)
	}
	p.stop()
	c.caughtUp(30*time.Second, "copied", p.ends())
	c.stopClean()
	proved(t, config)
	opened := 0
	for _, copied := range copies {
		again := run(t, refitd, config, nil, "--until", "end", "--storage.path", copied)
		switch code := again.wait(2 * time.Minute); code {
		case report.ExitDone:
			opened++
			p.accountedFor(again.summary.Models[0].State)
			if proof := verify(t, config, "--storage.path", copied); proof.code != report.ExitDone ||
				!proof.summary.OK {
				t.Errorf("a copy that was opened: %+v %+v", proof.summary, proof.partitions)
			}
		case report.ExitState:
			if again.failure == nil || !strings.Contains(again.failure.Message, filepath.Base(copied)) {
				t.Errorf("refused without a name: %+v", again.failure)
			}
		default:
			t.Errorf("exit code %d, %+v", code, again.failure)
		}
	}
	t.Logf("%d of %d copies were opened, the others refused", opened, len(copies))
}
