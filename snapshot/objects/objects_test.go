package objects_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/objects/objectstest"
	"github.com/refitd/refitd/snapshot/publish"
)

// killEnv makes a run of the test binary publish to a bucket and kill itself: URL, working copy and number of the step.
const killEnv = "OBJECTS_KILL"

func TestMain(m *testing.M) {
	if spec := os.Getenv(killEnv); spec != "" {
		if err := publishAndDie(spec); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		return
	}
	os.Exit(m.Run())
}

func signer() *format.Signer {
	s, err := format.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	return s
}

// writer returns a store with a working copy in dir that publishes to a bucket.
func writer(url, dir string) (*publish.Store, error) {
	bucket, err := objects.Open(url)
	if err != nil {
		return nil, err
	}
	store := publish.NewStore(dir)
	store.Bucket, store.Signer, store.By = bucket, signer(), "test"
	store.Keys = store.Signer.Keys()
	return store, nil
}

func writerOf(t *testing.T, url, dir string) *publish.Store {
	t.Helper()
	store, err := writer(url, dir)
	snapshottest.Must(t, err)
	return store
}

// each tests with a store of each cloud.
func each(t *testing.T, test func(t *testing.T, server *objectstest.Server)) {
	for _, cloud := range objectstest.Clouds {
		t.Run(cloud, func(t *testing.T) { test(t, objectstest.For(t, cloud)) })
	}
}

func contents() *format.Contents { return snapshottest.TestContents(snapshottest.Small) }

func publishOne(t *testing.T, store *publish.Store) int64 {
	t.Helper()
	m, err := store.Publish(t.Context(), "m", contents(), publish.Move{Alias: pointer.Champion})
	snapshottest.Must(t, err)
	return m.Version
}

// follower follows the champion of a bucket.
func follower(t *testing.T, url string, every time.Duration) *snapshot.Watcher {
	t.Helper()
	bucket, err := objects.Open(url)
	snapshottest.Must(t, err)
	w, err := snapshot.Watch(&objects.Source{Bucket: bucket, Every: every},
		snapshot.WatchOptions{Model: "m", Trust: snapshot.Trust{Keys: signer().Keys()}})
	snapshottest.Must(t, err)
	t.Cleanup(w.Close)
	return w
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// idle waits until a follower asks for what has not changed alone.
func idle(t *testing.T, server *objectstest.Server) {
	t.Helper()
	await(t, "the last request about news", func() bool {
		c := server.Counts()
		return c["GET304"] > 0 && len(c) == 1
	})
}

// pause lets polls happen: only the number of requests in a time shows that they are few.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// load reads what an alias of a bucket names, as a consumer without history does.
func load(t *testing.T, url, alias string) (*snapshot.Model, error) {
	t.Helper()
	bucket, err := objects.Open(url)
	snapshottest.Must(t, err)
	source := &objects.Source{Bucket: bucket}
	p, err := source.Wait(t.Context(), "m", alias, pointer.Pointer{})
	if err == nil {
		err = p.Verify("m", alias, signer().Keys())
	}
	if err != nil {
		return nil, err
	}
	return (snapshot.Trust{Keys: signer().Keys()}).Load("m", p, func(name string, limit int64) ([]byte, error) {
		b, _, err := bucket.Get(t.Context(), fmt.Sprintf("m/%d/%s", p.Version, name), "", limit)
		return b, err
	})
}

// TestPublishAndFollow: a version, its deltas and a rollback reach a follower; one without news makes one conditional
// request a poll and no list.
func TestPublishAndFollow(t *testing.T) { each(t, publishAndFollow) }

func publishAndFollow(t *testing.T, server *objectstest.Server) {
	url := server.URL("prod")
	const every = 20 * time.Millisecond
	store := writerOf(t, url, t.TempDir())
	publishOne(t, store)
	w := follower(t, url, every)
	await(t, "version 1", func() bool { return w.Status().Version == 1 })

	chain, err := store.OpenChain(t.Context(), "m", 1)
	snapshottest.Must(t, err)
	m := w.Model()
	for range 3 {
		var frame []byte
		frame, m, err = snapshottest.DeltaAfter(m, 0, store.Signer)
		snapshottest.Must(t, err, chain.Append(t.Context(), frame))
	}
	await(t, "three deltas", func() bool { return w.Model().Position().Sequence == 3 })
	if w.Model().Position().Digest != m.Position().Digest {
		t.Error("the follower has another model than the deltas make")
	}
	publishOne(t, store)
	await(t, "version 2", func() bool { return w.Status().Version == 2 })
	_, err = store.MoveAlias(t.Context(), "m",
		publish.Move{Alias: pointer.Champion, To: 1, Event: publish.EventRollback})
	snapshottest.Must(t, err)
	await(t, "the rollback", func() bool { return w.Status().Version == 1 })
	renewed, err := store.Renew(t.Context(), "m", pointer.Champion, time.Now().Add(time.Hour))
	snapshottest.Must(t, err)
	await(t, "the renewal", func() bool { return w.Status().Renewed.Equal(renewed.Renewal.Renewed) })

	// Without news the head is asked for alone, but in one of 15 polls the alias and a delta, which is not there.
	idle(t, server)
	const polls = 48
	began := time.Now()
	pause(t, polls*every)
	most := int(time.Since(began)/(every*4/5)) + 1
	if c := server.Counts(); c["LIST"] > 0 || c["GET"] > most/15+1 || c["GET"]+c["GET304"] > most || c["GET304"] < 2 {
		t.Errorf("requests of an idle follower: %v, want at most %d, not changed, and no list", c, most)
	}
}

// TestEachPollSeesAnAlias: a poll that asks for a delta in place of the head asks for the alias, too: a version waits
// for one poll at most.
func TestEachPollSeesAnAlias(t *testing.T) {
	server := objectstest.New(t)
	var mu sync.Mutex
	var asked []string
	deltas := 0
	server.Answer = func(_ http.ResponseWriter, _ *http.Request, _, key string) bool {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, key)
		if strings.HasSuffix(key, ".seg") {
			deltas++
		}
		return false
	}
	publishOne(t, writerOf(t, server.URL("x"), t.TempDir()))
	follower(t, server.URL("x"), time.Millisecond)
	seen := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return deltas >= n
	}
	await(t, "the first delta that is asked for", func() bool { return seen(2) })
	mu.Lock()
	asked, deltas = nil, 0
	mu.Unlock()
	await(t, "deltas without news", func() bool { return seen(3) })
	mu.Lock()
	defer mu.Unlock()
	for i := 3; i < len(asked)-3; i++ { // both are asked for at the same time, and the head may be before one of them
		near := strings.Join(asked[i-3:i+4], " ")
		if strings.HasSuffix(asked[i], ".seg") && !strings.Contains(near, "/aliases/") {
			t.Errorf("a delta is asked for without the alias: %s", near)
		}
	}
}

// TestHeadIsNotTrusted: a follower finds what is new without the head, later: the writer knows none, as those before it
// did, or was killed before it wrote it; or somebody else writes it.
func TestHeadIsNotTrusted(t *testing.T) {
	for _, cloud := range objectstest.Clouds {
		t.Run(cloud, func(t *testing.T) { headIsNotTrusted(t, cloud) })
	}
}

func headIsNotTrusted(t *testing.T, cloud string) {
	const head = "models/x/m/head"
	for name, change := range map[string]func(o map[string][]byte){
		"stale":   func(map[string][]byte) {},
		"none":    func(o map[string][]byte) { delete(o, head) },
		"refused": func(map[string][]byte) {},
		"garbage": func(o map[string][]byte) { o[head] = bytes.Repeat([]byte("x"), 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstest.For(t, cloud)
			var older atomic.Bool
			server.Before = func(method, key string) int {
				if older.Load() && key == head && (method == "PUT" || name == "refused") { // without the right to list, too
					return 403
				}
				return 0
			}
			url, dir := server.URL("x"), t.TempDir()
			store := writerOf(t, url, dir)
			publishOne(t, store)
			w := follower(t, url, 2*time.Millisecond)
			await(t, "version 1", func() bool { return w.Status().Version == 1 })
			grow := func() {
				chain, err := store.OpenChain(t.Context(), "m", w.Status().Version)
				snapshottest.Must(t, err)
				frame, _, err := snapshottest.DeltaAfter(w.Model(), 0, store.Signer)
				snapshottest.Must(t, err, chain.Append(t.Context(), frame))
			}
			idle(t, server)
			older.Store(true)
			server.Objects(change)
			grow() // and no alias changes
			await(t, "the delta", func() bool { return w.Model().Position().Sequence == 1 })
			renewed, err := store.Renew(t.Context(), "m", pointer.Champion, time.Now().Add(time.Hour))
			snapshottest.Must(t, err)
			await(t, "the renewal", func() bool { return w.Status().Renewed.Equal(renewed.Renewal.Renewed) })
			grow()
			await(t, "the second delta", func() bool { return w.Model().Position().Sequence == 2 })
			publishOne(t, store)
			await(t, "version 2", func() bool { return w.Status().Version == 2 })
			older.Store(false)
			publishOne(t, store)
			await(t, "version 3", func() bool { return w.Status().Version == 3 })
			older.Store(true)
			grow()
			older.Store(false)
			snapshottest.Must(t, writerOf(t, url, dir).Recover(t.Context(), "m"))
			await(t, "the delta of a killed writer", func() bool { return w.Model().Position().Sequence == 1 })
		})
	}
}

// TestTwoWriters: of writers that do not know of each other one wins each number and move; the other has changed
// nothing, and continues from what the winner wrote.
func TestTwoWriters(t *testing.T) { each(t, twoWriters) }

func twoWriters(t *testing.T, server *objectstest.Server) {
	url := server.URL("")
	const writers, each = 3, 12
	var mu sync.Mutex
	won := make(map[int64]string)
	lost := 0
	var group sync.WaitGroup
	for i := range writers {
		store := writerOf(t, url, t.TempDir())
		store.By = fmt.Sprint("writer ", i)
		group.Go(func() {
			for n := 0; n < each; {
				m, err := store.Publish(context.Background(), "m", contents(), publish.Move{Alias: pointer.Champion})
				mu.Lock()
				switch {
				case errors.Is(err, snapshot.ErrConflict):
					lost++
				case err != nil:
					t.Error(err)
					n = each
				case won[m.Version] != "":
					t.Errorf("version %d has two writers", m.Version)
				default:
					won[m.Version] = store.By
					n++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	store := writerOf(t, url, t.TempDir())
	snapshottest.Must(t, store.Recover(t.Context(), "m"))
	sequences := make(map[int64]bool)
	published := 0
	for r, err := range store.Log("m") {
		snapshottest.Must(t, err)
		if sequences[r.Sequence] {
			t.Errorf("two moves have the number %d", r.Sequence)
		}
		sequences[r.Sequence] = true
		if r.Event == publish.EventPublish {
			published++
			if won[r.Version] != r.By {
				t.Errorf("version %d is by %q in the log, %q published it", r.Version, r.By, won[r.Version])
			}
		}
	}
	if len(won) != writers*each || published < writers*each-lost {
		t.Errorf("%d versions won, %d in the log, %d races lost", len(won), published, lost)
	}
	for _, alias := range []string{pointer.Latest, pointer.Champion} {
		if _, err := load(t, url, alias); err != nil {
			t.Errorf("%s: %v", alias, err)
		}
	}
	t.Logf("%d versions of %d writers, %d races lost", len(won), writers, lost)
}

// TestLostWorkingCopy: a writer without its directory takes versions, aliases and log from the bucket, and one whose
// bucket lost everything writes it anew.
func TestLostWorkingCopy(t *testing.T) { each(t, lostWorkingCopy) }

func lostWorkingCopy(t *testing.T, server *objectstest.Server) {
	url := server.URL("a/b")
	dir := t.TempDir()
	store := writerOf(t, url, dir)
	for range 3 {
		publishOne(t, store)
	}
	fresh := writerOf(t, url, t.TempDir())
	_, err := fresh.MoveAlias(t.Context(), "m", publish.Move{Alias: pointer.Champion, To: 2})
	snapshottest.Must(t, err)
	if v := publishOne(t, fresh); v != 4 {
		t.Errorf("published version %d, want 4", v)
	}
	if versions, err := fresh.Versions("m"); err != nil || !slices.Equal(versions, []int64{1, 2, 3, 4}) {
		t.Errorf("versions %v, %v", versions, err)
	}
	if v := publishOne(t, store); v != 5 { // it takes over what the other one did
		t.Errorf("published version %d, want 5", v)
	}
	server.Objects(func(objects map[string][]byte) { clear(objects) })
	again := writerOf(t, url, dir)
	if v := publishOne(t, again); v != 6 {
		t.Errorf("published version %d, want 6", v)
	}
	if m, err := load(t, url, pointer.Champion); err != nil || m.Manifest().Version != 6 {
		t.Errorf("champion: %v", err)
	}
}

// TestMissingVersion: a version that the bucket does not have is none of the working copy, though a move or an alias of
// the bucket names it.
func TestMissingVersion(t *testing.T) {
	server := objectstest.New(t)
	url := server.URL("p")
	store := writerOf(t, url, t.TempDir())
	publishOne(t, store)
	_, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: "canary", To: 999_999})
	if !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("moved to a version that nobody has: %v", err)
	}
	if v := publishOne(t, store); v != 2 {
		t.Errorf("published version %d, want 2", v)
	}
	server.Objects(func(objects map[string][]byte) {
		maps.DeleteFunc(objects, func(key string, _ []byte) bool {
			return strings.HasPrefix(key, "models/p/m/2/") && !strings.HasSuffix(key, "/.claim")
		})
	})
	fresh := writerOf(t, url, t.TempDir())
	publishOne(t, fresh)
	if versions, err := fresh.Versions("m"); err != nil || !slices.Equal(versions, []int64{1, 3}) {
		t.Errorf("versions %v, %v", versions, err)
	}
}

// TestPruned: versions that go are gone from the bucket, and so is what killed writers left below the newest.
func TestPruned(t *testing.T) { each(t, pruned) }

func pruned(t *testing.T, server *objectstest.Server) {
	url := server.URL("p")
	store := writerOf(t, url, t.TempDir())
	for range 4 {
		publishOne(t, store)
	}
	server.Objects(func(objects map[string][]byte) {
		objects["models/p/m/2/.claim"], objects["models/p/other/1/manifest.json"] = nil, nil
		delete(objects, "models/p/m/2/manifest.json")
	})
	removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 2})
	if err != nil || !slices.Equal(removed, []int64{1, 2}) {
		t.Fatalf("removed %v, %v", removed, err)
	}
	for _, key := range server.Objects(nil) {
		if strings.HasPrefix(key, "models/p/m/1/") || strings.HasPrefix(key, "models/p/m/2/") {
			t.Errorf("%s is left", key)
		}
	}
	if !slices.Contains(server.Objects(nil), "models/p/other/1/manifest.json") {
		t.Error("another model's version was removed")
	}
}

// TestAttacks: an attacker who may write to the bucket can stop consumers, and change nothing that they use.
func TestAttacks(t *testing.T) { each(t, attacks) }

func attacks(t *testing.T, server *objectstest.Server) {
	url := server.URL("x")
	store := writerOf(t, url, t.TempDir())
	publishOne(t, store)
	old := make(map[string][]byte)
	server.Objects(func(objects map[string][]byte) {
		for key, b := range objects {
			old[key] = bytes.Clone(b)
		}
	})
	publishOne(t, store)
	const champion = "models/x/m/aliases/champion"
	other, err := format.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	snapshottest.Must(t, err)
	forged := pointer.Pointer{Version: 1, ManifestDigest: "sha256:" + strings.Repeat("0", 64), Sequence: 1 << 20}
	forged.Seal("m", pointer.Champion, other)
	forgedText, err := forged.Encode()
	snapshottest.Must(t, err)
	for name, attack := range map[string]func(objects map[string][]byte){
		"forged alias": func(o map[string][]byte) { o[champion] = forgedText },
		"torn alias":   func(o map[string][]byte) { o[champion] = o[champion][:20] },
		"empty alias":  func(o map[string][]byte) { o[champion] = nil },
		"swapped alias": func(o map[string][]byte) {
			o[champion] = o["models/x/m/aliases/latest"]
		},
		"flipped file": func(o map[string][]byte) {
			for key := range o {
				if strings.HasPrefix(key, "models/x/m/2/") && !strings.HasSuffix(key, ".claim") && len(o[key]) > 9 {
					o[key] = append(bytes.Clone(o[key][:9]), append([]byte{o[key][9] ^ 1}, o[key][10:]...)...)
				}
			}
		},
		"old version's files": func(o map[string][]byte) {
			for key := range o {
				if rest, ok := strings.CutPrefix(key, "models/x/m/2/"); ok && old["models/x/m/1/"+rest] != nil {
					o[key] = old["models/x/m/1/"+rest]
				}
			}
		},
		"no manifest": func(o map[string][]byte) { delete(o, "models/x/m/2/manifest.json") },
	} {
		var before map[string][]byte
		server.Objects(func(o map[string][]byte) {
			before = make(map[string][]byte, len(o))
			for key, b := range o {
				before[key] = bytes.Clone(b)
			}
			attack(o)
		})
		if m, err := load(t, url, pointer.Champion); err == nil {
			t.Errorf("%s: version %d was loaded", name, m.Manifest().Version)
		}
		server.Objects(func(o map[string][]byte) {
			clear(o)
			for key, b := range before {
				o[key] = b
			}
		})
	}
	// An old copy is refused by who has seen a newer one, and a forged alias replaced by the next move.
	w := follower(t, url, 5*time.Millisecond)
	await(t, "version 2", func() bool { return w.Status().Version == 2 })
	server.Objects(func(o map[string][]byte) { o[champion] = old[champion] })
	await(t, "a refusal", func() bool { return errors.Is(w.Status().Err, snapshot.ErrOlder) })
	server.Objects(func(o map[string][]byte) { o[champion] = forgedText })
	await(t, "a refusal", func() bool { return errors.Is(w.Status().Err, snapshot.ErrSignature) })
	if v := publishOne(t, store); v != 3 {
		t.Errorf("published version %d, want 3", v)
	}
	await(t, "version 3", func() bool { return w.Status().Version == 3 })
}

// TestRefusals: what cannot be a bucket is refused with its key, and no error has the secret.
func TestRefusals(t *testing.T) {
	for _, place := range []string{"s3://", "s3://UPPER/x", "s3://u:p@models", "s3://models?endpoint=ftp://x",
		"s3://models?endpoint=https://x/path", "s3://models?path_style=perhaps", "s3://models?bucket=x", "gs://UPPER", "gs://models?region=x",
		"azure://account",
		"azure://account/UPPER", "azure://account/models?path_style=true", "swift://models"} {
		if _, err := objects.Open(place); err == nil || !strings.HasPrefix(err.Error(), "objects: ") {
			t.Errorf("%s: %v", place, err)
		}
	}
	for _, cloud := range objectstest.Clouds {
		for _, condition := range []string{"If-Match", "If-None-Match"} {
			server := objectstest.For(t, cloud)
			server.Ignores = condition
			store := writerOf(t, server.URL("x"), t.TempDir())
			if _, err := store.Publish(t.Context(), "m", contents()); err == nil ||
				!strings.Contains(err.Error(), "does not look at "+condition) {
				t.Errorf("%s without %s: %v", cloud, condition, err)
			}
			if keys := server.Objects(nil); len(keys) != 1 {
				t.Errorf("%s without %s has %v, want the claim alone", cloud, condition, keys)
			}
		}
		server := objectstest.For(t, cloud)
		server.Before = func(string, string) int { return 403 }
		store := writerOf(t, server.URL("x"), t.TempDir())
		_, err := store.Publish(t.Context(), "m", contents())
		place, _, _ := strings.Cut(server.URL("x"), "?")
		if err == nil || strings.Contains(err.Error(), "canary-secret") || !strings.Contains(err.Error(), place+"/m") {
			t.Errorf("%s: error %v", cloud, err)
		}
	}
}
