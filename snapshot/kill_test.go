//go:build unix

package snapshot

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// killEnv makes a run of the test binary publish to a store and kill itself: the directory and the number of the step.
const killEnv = "SNAPSHOT_KILL"

func TestMain(m *testing.M) {
	for env, run := range map[string]func(string) error{killEnv: publishAndDie, appendEnv: appendUntilKilled} {
		if spec := os.Getenv(env); spec != "" {
			if err := run(spec); err != nil {
				fmt.Println(err)
				os.Exit(3)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// publishAndDie publishes a version that becomes champion, with two deltas, moves champion back, prunes, and publishes
// again; it kills itself at the step with the number.
func publishAndDie(spec string) error {
	dir, number, _ := strings.Cut(spec, "|")
	left, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	store := publish.NewStore(dir)
	if store.Signer, err = format.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1},
		ed25519.SeedSize))); err != nil {
		return err
	}
	store.LogBytes = 1000 // so that it begins another file, too
	store.Step = func(site string) error {
		if left--; left < 0 {
			fmt.Println(site)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	ctx := context.Background()
	published, err := store.Publish(ctx, "m", snapshottest.TestContents(snapshottest.Small),
		publish.Move{Alias: pointer.Champion})
	if err != nil {
		return err
	}
	if err := appendTwo(ctx, store, dir, published.Version); err != nil {
		return err
	}
	if _, err := store.MoveAlias(ctx, "m", publish.Move{Alias: pointer.Champion, To: 2,
		Event: publish.EventRollback}); err != nil {
		return err
	}
	if _, err = store.Prune(ctx, "m", publish.Retention{Keep: 1}); err != nil {
		return err
	}
	_, err = store.Publish(ctx, "m", snapshottest.TestContents(snapshottest.Small)) // after a record without moves
	return err
}

func appendTwo(ctx context.Context, store *publish.Store, dir string, version int64) error {
	c, err := store.OpenChain(ctx, "m", version)
	if err != nil {
		return err
	}
	m, err := Open(dir, "m", verify.Selector{Version: version})
	for range 2 {
		var frame []byte
		if err == nil {
			frame, m, err = snapshottest.DeltaAfter(m, 0, store.Signer)
		}
		if err == nil {
			err = c.Append(ctx, frame)
		}
	}
	return err
}

// checkChain reads what there is of the deltas of a version, and continues them.
func checkChain(t *testing.T, store *publish.Store, dir string, version int64, keys format.Keys) {
	t.Helper()
	c, m := openChain(t, store, dir, version)
	m, err := readDeltas(t.Context(), DirSource{dir, often}, m, c.Sequence(), keys)
	snapshottest.Must(t, err)
	if m.Position().Digest != c.Previous() || m.Position().Sequence != c.Sequence() {
		t.Errorf("version %d: read up to %d, the chain is at %d", version, m.Position().Sequence, c.Sequence())
	}
	grow(t, c, m, 1, 0)
}

// E2: wherever a publisher is killed, every alias names a whole and signed version; the next writer removes what was
// left behind, completes the log, and continues with larger numbers.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	var steps []string
	for number := 0; ; number++ {
		store, dir, keys := publishSigned(t, 2)
		snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
		step, ended := snapshottest.KilledChild(t, killEnv+"="+dir+"|"+strconv.Itoa(number))
		check := func(when string) {
			aliases, err := store.Aliases("m")
			if err != nil || aliases[pointer.Latest] < 2 || aliases[pointer.Champion] < 1 {
				t.Errorf("%s %q: aliases %v, %v", when, step, aliases, err)
			}
			for alias := range aliases {
				if _, err := (verify.Trust{Keys: keys}).Open(dir, "m", verify.Selector{Alias: alias}); err != nil {
					t.Errorf("%s %q: %s: %v", when, step, alias, err)
				}
			}
			versions, err := store.Versions("m")
			snapshottest.Must(t, err)
			for _, v := range versions {
				if _, err := (verify.Trust{Keys: keys}).Open(dir, "m", verify.Selector{Version: v}); err != nil {
					t.Errorf("%s %q: version %d: %v", when, step, v, err)
				}
				if when == "recovered from" {
					checkChain(t, store, dir, v, keys)
				}
			}
		}
		check("killed at")
		snapshottest.Must(t, store.Recover(t.Context(), "m"))
		check("recovered from")
		if left, err := filepath.Glob(filepath.Join(dir, "m", "*", ".new")); err != nil || len(left) > 0 {
			t.Errorf("%q: left behind: %v, %v", step, left, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "m", ".staging-*")); err != nil || len(left) > 0 {
			t.Errorf("%q: left behind: %v, %v", step, left, err)
		}
		all := records(t, store)
		for _, alias := range []string{pointer.Latest, pointer.Champion} {
			p, err := store.Alias("m", alias)
			snapshottest.Must(t, err)
			if live, err := store.LiveAt("m", p.Moved); err != nil || live[alias].Sequence != p.Sequence {
				t.Errorf("%q: the log says %s was moved by %+v, %v; the alias says %d", step, alias, live[alias], err,
					p.Sequence)
			}
		}
		m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
		snapshottest.Must(t, err)
		if last := records(t, store); len(last) != len(all)+1 || last[len(all)].Sequence <= all[len(all)-1].Sequence ||
			m.Version < 3 {
			t.Errorf("%q: version %d, record %+v", step, m.Version, last[len(all)])
		}
		if ended {
			break
		}
		steps = append(steps, step)
	}
	if len(steps) < 20 || !slices.Contains(steps, "snapshot.log_aside") ||
		!slices.Contains(steps, "snapshot.delta_written") {
		t.Errorf("only %d steps: %q", len(steps), steps)
	}
}
