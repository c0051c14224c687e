package sketch

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"testing"
)

// childDir names the environment variable that turns the test binary into a process that applies a log until it is
// killed.
const childDir = "SKETCH_CHILD_DIR"

func killOptions(dir string) Options {
	return Options{Dir: dir, Size: 2000, HoldoutSize: 200, HoldoutFraction: 0.1, Seed: 5}
}

// applyForever continues where the ledger says, in parts of odd sizes, and prints next after each.
func applyForever(dir string) {
	s, err := Open(context.Background(), killOptions(dir))
	if err == nil {
		err = s.Begin("a", 0, 0)
	}
	if err != nil {
		log.Fatal(err)
	}
	records := mixedLog(100_000)
	next, _ := s.Position("a", 0)
	rng := rand.New(rand.NewPCG(uint64(next), 1))
	i := 0
	for ; ; next, _ = s.Position("a", 0) {
		p := &Part{Topic: "a", Base: next, Next: next + 1 + rng.Int64N(700)}
		for ; records[i].Offset < p.Next; i++ {
			if records[i].Offset >= p.Base {
				p.Records = append(p.Records, records[i])
			}
		}
		if err := s.Apply(p, nil); err != nil {
			log.Fatal(err)
		}
		fmt.Println(p.Next)
	}
}

// TestKilled: after SIGKILL at any moment every acknowledged part is there, and the state is what an undisturbed store
// has at the same offset.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 1))
	for range 4 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err, child.Start())
		lines := bufio.NewScanner(out)
		acknowledged := int64(0)
		for parts := 5 + rng.IntN(40); parts > 0 && lines.Scan(); parts-- {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			must(t, err)
			acknowledged = n
		}
		must(t, child.Process.Kill())
		child.Wait() // reports the kill

		s := mustOpen(t, killOptions(dir))
		must(t, s.Check())
		next, _ := s.Position("a", 0)
		if acknowledged == 0 || next < acknowledged {
			t.Fatalf("next is %d, %d was acknowledged", next, acknowledged)
		}
		m, err := NewMemory(killOptions(""))
		must(t, err)
		applyLog(t, m, "a", 0, mixedLog(int(next)), next, 5000)
		if got, want := stateOf(t, s), stateOf(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("state after a kill\n%+v, want\n%+v", got, want)
		}
		must(t, s.Close())
	}
}
