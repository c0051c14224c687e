// Package publish numbers the versions of a model, writes them to the snapshot store and moves its aliases.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/refitd/refitd/daemon/build"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/solver"
)

// The decisions of the gate, and the aliases that follow a promotion: champion is what consumers should use, refit
// the newest promoted refit, which a restart continues from. The store itself moves latest to every new version.
const (
	Promoted = "promoted"
	Kept     = "kept"

	Champion = pointer.Champion
	Refit    = "refit"
)

// Writer is the name of the program in manifests, with its version and commit.
var Writer = "refitd " + build.Release()

// Publisher publishes the versions of one model. It belongs to one goroutine; what Begin returns may write a version on
// another one.
type Publisher struct {
	model    *config.Model
	dir      string
	store    *publish.Store // nil numbers versions without writing them
	log      *slog.Logger
	now      func() time.Time
	epoch    int64
	version  int64
	champion *int64
	sequence int64  // of the move that made it champion
	chosen   bool   // by an operator
	missing  bool   // the alias of the champion is gone
	lost     bool   // the store is, with it, or its version is damaged
	damage   error  // of that version or of the alias
	watching bool   // another publisher is the one that publishes: see Watch
	chain    *chain // of deltas; nil without

	mu       sync.Mutex // guards refusals and refused: HTTP moves aliases, too
	refusals []Refusal
	refused  map[string]Refusal // the last one of each alias
}

// New returns the publisher of a model. dir is the store; empty only numbers and digests versions. What a killed
// publisher left behind is removed, damaged aliases are rebuilt, and log, which may be nil, says so. With a signing
// key, only what it or publish.trusted_keys signed is taken from the store: see Refusals. It returns snapshot.ErrKey
// for a key that cannot be used.
func New(m *config.Model, dir string, now func() time.Time, log *slog.Logger) (*Publisher, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Publisher{
		model:    m,
		dir:      dir,
		now:      now,
		log:      log,
		watching: m.Shard.Standby > 0,
		refused:  make(map[string]Refusal),
	}
	if dir == "" {
		return p, nil
	}
	p.store = publish.NewStore(dir)
	p.store.Now, p.store.By, p.store.Logger = now, by(), log
	if place := m.Publish.Objects; place != "" {
		bucket, err := objects.Open(place)
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		p.store.Bucket = bucket
	}
	err := p.loadKeys(&m.Publish)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	err = p.store.Recover(context.Background(), m.Name)
	if errors.Is(err, snapshot.ErrNotFound) {
		p.epoch = 1
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if p.epoch, err = nextEpoch(p.store, m.Name, p.refuse); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	champion, err := p.look()
	switch {
	case isForged(err) && p.watching:
		p.refuse(Champion, err)
		return p, nil
	case isForged(err):
		champion, err = p.restore(err)
	}
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) && !isDamaged(err) {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if err == nil {
		p.follow(champion)
	}
	return p, nil
}

// Configure applies a configuration that differs in what publish.keep says and in what versions carry of it.
func (p *Publisher) Configure(m *config.Model) { p.model = m }

// by names this instance in the publish log.
func by() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return "refitd@" + host
}

// nextEpoch is one more than that of the newest version; refuse takes an alias that is not signed by our keys.
func nextEpoch(store *publish.Store, model string, refuse func(alias string, reason error)) (int64, error) {
	latest, err := store.Alias(model, snapshot.Latest)
	var manifest snapshot.Manifest
	switch {
	case err == nil:
		manifest, err = store.Manifest(model, latest.Version)
	case isForged(err):
		refuse(snapshot.Latest, err)
		manifest, err = store.Newest(model, nil)
	case !errors.Is(err, snapshot.ErrNotFound) && !isDamaged(err):
		return 0, err
	}
	if err != nil {
		return 1, nil // its epoch is not worth failing for: the next publication says what is wrong
	}
	return manifest.Epoch + 1, nil
}

// Store returns the store, nil without one.
func (p *Publisher) Store() *publish.Store { return p.store }

// Chosen reports whether an operator chose the champion. Only a refit that passes the gate against it may replace it
// then.
func (p *Publisher) Chosen() bool { return p.chosen }

// Follow returns the version that champion names if somebody else has moved the alias since this publisher last looked
// or published: an operator, or another instance. It is the champion from then on. It returns nil if nothing has
// changed.
func (p *Publisher) Follow() (*snapshot.Model, error) {
	if p.store == nil {
		return nil, nil
	}
	pointer, err := p.look()
	if isDamaged(err) {
		if err = p.store.Recover(context.Background(), p.model.Name); err == nil {
			pointer, err = p.look()
		}
	}
	if isForged(err) && p.watching {
		p.refuse(Champion, err)
		return nil, nil // the one that publishes knows what was right
	}
	if isForged(err) {
		pointer, err = p.restore(err)
	}
	if errors.Is(err, snapshot.ErrNotFound) && p.champion != nil {
		pointer, err = p.search()
	}
	p.damage = nil
	if p.missing = errors.Is(err, snapshot.ErrNotFound); p.missing {
		return nil, nil // the next promotion sets it
	}
	if isDamaged(err) { // Strays names it
		p.lost, p.damage = p.champion != nil && !p.watching, err
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	p.lost = false
	if p.champion != nil && *p.champion == pointer.Version && p.sequence == pointer.Sequence {
		p.damage = p.inspect(pointer)
		p.lost = p.damage != nil && !p.watching
		return nil, nil
	}
	p.follow(pointer)
	model, err := p.trust().Open(p.dir, p.model.Name, snapshot.Selector{Version: pointer.Version})
	if err != nil {
		return nil, fmt.Errorf("publish: champion: %w", err)
	}
	return model, nil
}

// search looks for a champion that is gone: the store rebuilds its aliases, if it has a log still. Otherwise it may be
// lost as a whole.
func (p *Publisher) search() (snapshot.Pointer, error) {
	if err := p.store.Recover(context.Background(), p.model.Name); err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return snapshot.Pointer{}, err
	}
	pointer, err := p.look()
	if errors.Is(err, snapshot.ErrNotFound) {
		if _, latest := p.store.Alias(p.model.Name, snapshot.Latest); errors.Is(latest, snapshot.ErrNotFound) {
			p.lost = true
		}
	}
	return pointer, err
}

// Lost reports whether Follow found no store where this publisher had published, or Damage, until a version is promoted
// again.
func (p *Publisher) Lost() bool { return p.lost }

// Champion returns the version that consumers should use and the number of the move that made it champion, as far as
// this publisher knows.
func (p *Publisher) Champion() publish.Numbers {
	if p.champion == nil {
		return publish.Numbers{}
	}
	return publish.Numbers{Version: *p.champion, Sequence: p.sequence}
}

func (p *Publisher) follow(champion snapshot.Pointer) {
	p.champion, p.sequence = &champion.Version, champion.Sequence
	made := []pointer.Event{
		publish.EventPublish,
		publish.EventRecovered,
		publish.EventRestored,
		"",
	} // by a publisher
	p.chosen = !slices.Contains(made, champion.Event)
}

// isDamaged reports whether an alias is there and cannot be read, also after the store has tried to rebuild it.
func isDamaged(err error) bool {
	return errors.Is(err, snapshot.ErrFormat) || errors.Is(err, snapshot.ErrDigest)
}

// Strays lists what is in the directory of the model and no part of the store, or damaged; nil without a store.
func (p *Publisher) Strays() ([]publish.Stray, error) {
	if p.store == nil {
		return nil, nil
	}
	strays, err := p.store.Strays(p.model.Name)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	}
	return strays, err
}

// Publish writes a judged model as the next version and fills in its number, parent and payload digest. A promoted
// one becomes champion, unless somebody else moved that alias since: then nothing is written and the error is
// snapshot.ErrConflict. Old versions beyond publish.keep are removed, aliased ones never. What fails after the
// version is there is logged: the next publication tries it again.
func (p *Publisher) Publish(ctx context.Context, ch *fitted.Fitted) error {
	if err := p.Begin().Write(ctx, ch); err != nil {
		return err
	}
	p.End(ctx, ch)
	return nil
}

// Publication is a version that is being published, with the state of its publisher when it began.
type Publication struct {
	of       Publisher // what Write reads of it
	champion int64     // 0 without
}

// Begin begins a publication: the parts of Publish are Begin, Write on any one goroutine, and, after a Write without
// an error, End. Before End the publisher may publish deltas of the champion, and nothing else; Follow would take the
// new champion for somebody else's.
func (p *Publisher) Begin() *Publication {
	w := &Publication{
		of: Publisher{model: p.model, dir: p.dir, store: p.store, now: p.now, epoch: p.epoch, missing: p.missing},
	}
	if p.champion != nil {
		w.champion = *p.champion
		w.of.champion = &w.champion
	}
	return w
}

// Write writes a judged model as the next version, moves the aliases and fills in parent and payload digest, and with a
// store the number. With an error there is no new version, or none that some of the aliases point to: see
// publish.Store.Publish.
func (w *Publication) Write(ctx context.Context, ch *fitted.Fitted) error {
	p, v := &w.of, &ch.Version
	v.Parent = p.champion
	tensors := strings.ToUpper(p.model.Publish.Tensors)
	if tensors == format.F32 {
		ch.Model = single(ch.Model)
	}
	contents := ch.Contents(p.model)
	contents.Tensors = tensors
	contents.Meta.Writer, contents.Meta.Created, contents.Meta.Epoch = Writer, p.now(), p.epoch
	contents.Meta.Expires = p.Expires(contents.Meta.Created)
	if p.store == nil {
		digest, err := format.PayloadDigest(contents)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		v.PayloadDigest = digest
		return nil
	}
	if ch.Kept != nil {
		var err error
		if contents.Meta.KeptSample, err = reproduce.Keep(p.dir, p.model.Name, ch.Kept); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		ch.Kept = nil
	}
	manifest, err := p.store.Publish(ctx, p.model.Name, contents, p.moves(v)...)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	v.Version, v.PayloadDigest = manifest.Version, manifest.PayloadDigest
	return nil
}

// End takes up a version that a Publication wrote, and removes old ones.
func (p *Publisher) End(ctx context.Context, ch *fitted.Fitted) {
	v := &ch.Version
	if p.store == nil {
		p.version++
		v.Version = p.version
	}
	if v.Decision == Promoted {
		promoted := v.Version
		p.champion, p.chosen, p.missing, p.lost, p.damage = &promoted, false, false, false, nil
		if err := p.remember(); err != nil {
			p.log.Warn("champion cannot be read after its publication", "version", v.Version, "error", err)
		}
	}
	if err := p.prune(ctx); err != nil && ctx.Err() == nil {
		p.log.Warn("old versions not removed", "note", "tried again with the next publication", "error", err)
	}
}

// Expires says until when consumers may use what is published or renewed at a time; zero is for ever.
func (p *Publisher) Expires(at time.Time) time.Time {
	after := p.model.Publish.ExpiresAfter.Std()
	if after <= 0 {
		return time.Time{}
	}
	return at.Add(after)
}

// Renew renews the champion's alias at the current time: the champion may be used for publish.expires_after from now
// on. It returns false without a champion, or if the alias is not signed by our keys: Follow sees to that.
func (p *Publisher) Renew(ctx context.Context) (pointer snapshot.Pointer, done bool, err error) {
	if p.store == nil || p.champion == nil {
		return pointer, false, nil
	}
	pointer, err = p.store.Renew(ctx, p.model.Name, Champion, p.Expires(p.now()))
	if errors.Is(err, snapshot.ErrNotFound) || p.store.Keys != nil && isForged(err) {
		return pointer, false, nil
	}
	if err != nil {
		return pointer, false, fmt.Errorf("publish: %w", err)
	}
	return pointer, true, nil
}

// single rounds the parameters of a model to F32, so that this process continues from what a restart would find.
func single(m *solver.Model) *solver.Model {
	m = m.Clone()
	for _, values := range [][]float64{m.Basis, m.Weights, m.Linear, m.Bias, m.Map} {
		for i, v := range values {
			values[i] = float64(float32(v))
		}
	}
	return m
}

// remember notes the move that has just made a version champion, unless somebody moved the alias again already: Follow
// sees that.
func (p *Publisher) remember() error {
	if p.store == nil {
		return nil
	}
	pointer, err := p.store.Alias(p.model.Name, Champion)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if pointer.Version == *p.champion {
		p.sequence = pointer.Sequence
	}
	return nil
}

// moves are the aliases that a version moves: none unless it is promoted.
func (p *Publisher) moves(v *report.Version) []publish.Move {
	if v.Decision != Promoted {
		return nil
	}
	from := int64(0)
	if p.champion != nil && !p.missing {
		from = *p.champion
	}
	moves := []publish.Move{{Alias: Champion, From: &from}}
	if v.Kind == "refit" {
		moves = append(moves, publish.Move{Alias: Refit})
	}
	return moves
}

func (p *Publisher) prune(ctx context.Context) error {
	if p.store == nil || p.model.Publish.Keep == 0 {
		return nil
	}
	keep := publish.Retention{Keep: p.model.Publish.Keep, MaxAge: p.model.Publish.KeepFor.Std()}
	removed, err := p.store.Prune(ctx, p.model.Name, keep)
	if err == nil && len(removed) > 0 {
		err = reproduce.Prune(p.store, p.dir, p.model.Name, 0)
	}
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
