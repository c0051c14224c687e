package sketch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/refitd/refitd/sketch/internal/storage"
)

// A team is shards with a trainer, and one reference store that applies all that they do.
type team struct {
	rng     *rand.Rand
	o       Options
	whole   *Store
	shards  []*teamShard
	trainer *teamTrainer
	logs    []*teamLog
	topic   []teamMessage

	settling bool // only what changed is sent
	putBack  bool // a shard was: what it had sent since then may stay in the topic
}

// A teamLog is a partition's log, of which its shard has read some.
type teamLog struct {
	topic   string
	number  int32
	shard   int
	records []Record
}

type teamShard struct {
	backend *storage.Memory
	backup  *storage.Memory // nil without one
	store   *Store
	after   *Excerpt
	merges  bool // it takes up partitions of others
}

type teamMessage struct {
	shard int
	pairs []Pair
	head  *Head
}

// A teamTrainer reads the topic as a trainer does: pairs wait for the head that they belong to.
type teamTrainer struct {
	backend *storage.Memory
	store   *Store
	at      int
	waiting []map[string][]byte
	since   []int // where the first of those is
}

func openTeamStore(b storage.Backend, o Options) (*Store, error) {
	o.Lineage = "" // each has its own
	return load(context.Background(), inPieces{b}, &o, o.choose)
}

// inPieces is a backend whose transactions are small: what is merged takes several.
type inPieces struct{ storage.Backend }

func (inPieces) Limits() (entries, bytes int64) { return 40, 1 << 20 }

func newTeam(rng *rand.Rand) (*team, error) {
	t := &team{rng: rng, o: settingsOf(rng)}
	if rng.IntN(4) == 0 && t.o.Identity == "" && t.o.CapBy == "" {
		t.o.MaxCost = int64(t.o.Size) * (MinCost + 100)
	}
	t.o.CheckpointEvery = 1000
	if t.o.Identity != "" && t.o.HoldoutBy == "" && rng.IntN(3) > 0 { // the topic b has outcomes of the events of a
		t.o.Outcomes = []Order{Earliest, Latest}[rng.IntN(2)]
	}
	var err error
	if t.whole, err = openTeamStore(storage.NewMemory(), t.o); err != nil {
		return nil, err
	}
	for range 1 + rng.IntN(4) {
		sh := &teamShard{backend: storage.NewMemory()}
		if err := t.restart(sh); err != nil {
			return nil, err
		}
		t.shards = append(t.shards, sh)
	}
	t.trainer = &teamTrainer{backend: storage.NewMemory()}
	if err := t.restartTrainer(); err != nil {
		return nil, err
	}
	for i := range 2 + rng.IntN(5) {
		l := &teamLog{topic: []string{"a", "b"}[i%2], number: int32(i / 2), shard: i / 2 % len(t.shards)}
		t.logs = append(t.logs, l)
		for _, s := range []*Store{t.whole, t.shards[l.shard].store} {
			if err := s.Begin(l.topic, l.number, 0); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (t *team) restart(sh *teamShard) (err error) {
	o := t.o
	o.Mirror, o.Merges = true, sh.merges
	sh.store, err = openTeamStore(sh.backend, o)
	sh.after = nil
	return err
}

func (t *team) restartTrainer() (err error) {
	o := t.o
	o.Merges = true
	tr := t.trainer
	if tr.store, err = openTeamStore(tr.backend, o); err != nil {
		return err
	}
	resume, _, _, err := tr.store.Merged()
	tr.at, tr.waiting, tr.since = int(resume), make([]map[string][]byte, len(t.shards)), make([]int, len(t.shards))
	return err
}

// produce adds records to a log.
func (t *team) produce(l *teamLog) {
	for range 1 + t.rng.IntN(20) {
		r := Record{
			Offset: int64(len(l.records)),
			Fate:   []Fate{Applied, Applied, Applied, Applied, Rejected, Control, Aborted}[t.rng.IntN(7)],
			CRC:    t.rng.Uint32(),
		}
		switch r.Fate {
		case Rejected:
			r.Reason = []string{"json", "label"}[t.rng.IntN(2)]
		case Applied:
			user := fmt.Sprint("u", t.rng.IntN(6))
			r.Time, r.Weight = int64(t.rng.IntN(5000)), 1
			if t.o.Weighted {
				r.Weight = 0.1 + t.rng.Float64()
			}
			if t.o.Identity != "" {
				r.Identity = fmt.Appendf(nil, "i%d", t.rng.IntN(60))
			}
			if t.o.HoldoutBy != "" {
				r.HoldoutKey = []byte(user)
			}
			if t.o.CapBy != "" {
				r.Group = []byte(user)
			} else if len(t.o.Quotas) > 0 {
				r.Group = fmt.Appendf(nil, "c%d", 1+t.rng.IntN(3))
			}
			if t.ofOutcomes(l) {
				r.Value, r.TakesBack = float64(t.rng.IntN(5)), t.rng.IntN(9) == 0
				break
			}
			r.Payload = fmt.Appendf(nil, "%s %0*d", user, 1+t.rng.IntN(400), t.rng.IntN(10))
		}
		l.records = append(l.records, r)
	}
}

// ofOutcomes reports whether a log has outcomes of the events of others.
func (t *team) ofOutcomes(l *teamLog) bool { return t.o.Outcomes != "" && l.topic == "b" }

// deliver has the shard of a log, and the store of all, read on.
func (t *team) deliver(l *teamLog, n int) error {
	sh := t.shards[l.shard].store
	from, ok := sh.Position(l.topic, l.number)
	if !ok { // a copy from before it was begun
		if err := sh.Begin(l.topic, l.number, 0); err != nil {
			return err
		}
	}
	to := min(from+int64(n), int64(len(l.records)))
	for _, s := range []*Store{sh, t.whole} {
		p := &Part{Topic: l.topic, Partition: l.number, Base: from, Next: to, Records: slices.Clone(l.records[from:to]),
			Outcomes: t.ofOutcomes(l)}
		for i := range p.Records {
			r := &p.Records[i]
			user, _, _ := bytes.Cut(r.Payload, []byte(" "))
			r.Forgotten = r.Fate == Applied && s.Forgets(l.topic, l.number, r.Offset, "user", user)
		}
		if err := s.Apply(p, nil); err != nil {
			return err
		}
	}
	return nil
}

// send has a shard put an excerpt into the topic; some are cut short by a crash before it knows that they are there.
func (t *team) send(i, limit int, crash bool) (sent bool, err error) {
	sh := t.shards[i]
	e, err := sh.store.Excerpt(limit, sh.after, t.rng.IntN(9) == 0 && !t.settling)
	if err != nil || e == nil {
		return false, err
	}
	t.topic = append(t.topic, teamMessage{i, e.Pairs, e.Head})
	switch {
	case crash:
		return true, t.restart(sh)
	case e.Head == nil:
		sh.after = e
		return true, nil
	}
	sh.after = nil
	for _, l := range t.logs { // between Excerpt and Mirrored
		if l.shard == i && (t.settling || t.rng.IntN(len(t.logs)) == 0) {
			if err := t.deliver(l, 3); err != nil {
				return false, err
			}
		}
	}
	return true, sh.store.Mirrored(e, nil, false)
}

// read has the trainer read the next message.
func (t *team) read() error { return t.trainer.read(t.topic, func(*Share) {}) }

func (tr *teamTrainer) read(topic []teamMessage, edit func(*Share)) error {
	m := topic[tr.at]
	if tr.waiting[m.shard] == nil {
		tr.waiting[m.shard], tr.since[m.shard] = map[string][]byte{}, tr.at
	}
	for _, p := range m.pairs {
		tr.waiting[m.shard][string(p.Key)] = p.Value
	}
	tr.at++
	if m.head == nil {
		return nil
	}
	share := &Share{Shard: uint32(m.shard), Head: m.head, Values: namesOf, Resume: int64(tr.at)}
	for key, value := range tr.waiting[m.shard] {
		share.Pairs = append(share.Pairs, Pair{Key: []byte(key), Value: value})
	}
	for i := range tr.waiting {
		if i != m.shard && tr.waiting[i] != nil {
			share.Resume = min(share.Resume, int64(tr.since[i]))
		}
	}
	edit(share)
	before := tr.store.Ledger()
	_, err := tr.store.Merge(share)
	if errors.Is(err, ErrBehind) {
		return nil
	}
	tr.waiting[m.shard] = nil
	for _, l := range before {
		if next, ok := tr.store.Position(l.Topic, l.Partition); err == nil && (!ok || next < l.Next) {
			return fmt.Errorf("%s/%d goes back from %d to %d", l.Topic, l.Partition, l.Next, next)
		}
	}
	return err
}

// namesOf is userOf, which never fails.
func namesOf(field string, payload []byte) ([][]byte, error) { return userOf(field, payload), nil }

// settle reads all logs to their end, some of the last records while others are sent, sends everything and reads it.
func (t *team) settle() error {
	t.settling = true
	defer func() { t.settling = false }()
	for _, l := range t.logs {
		from, _ := t.shards[l.shard].store.Position(l.topic, l.number)
		if err := t.deliver(l, max(0, len(l.records)-int(from)-t.rng.IntN(3))); err != nil {
			return err
		}
	}
	if err := t.sendAll(); err != nil {
		return err
	}
	for _, l := range t.logs { // a shard that was put back may have had nothing to send, and be behind the trainer
		if err := t.deliver(l, 3); err != nil {
			return err
		}
	}
	if err := t.sendAll(); err != nil {
		return err
	}
	for t.trainer.at < len(t.topic) {
		if err := t.read(); err != nil {
			return err
		}
	}
	return nil
}

// sendAll has all shards send what they have.
func (t *team) sendAll() error {
	for i := range t.shards {
		for more := true; more; {
			var err error
			if more, err = t.send(i, 200, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *team) step() error {
	i := t.rng.IntN(len(t.shards))
	sh, l := t.shards[i], among(t.rng, t.logs)
	switch t.rng.IntN(24) {
	case 0, 1, 2, 3:
		t.produce(l)
	case 4, 5, 6, 7, 8:
		return t.deliver(l, t.rng.IntN(15))
	case 9, 10, 11:
		_, err := t.send(i, 1+t.rng.IntN(2000), t.rng.IntN(4) == 0)
		return err
	case 12, 13, 14, 15:
		if t.trainer.at < len(t.topic) {
			return t.read()
		}
	case 16, 17:
		_, err := sh.store.Raise(t.trainer.store.Thresholds())
		return err
	case 18:
		return t.restart(sh)
	case 19:
		return t.restartTrainer()
	case 20:
		return sh.store.Resend()
	case 22:
		sh.backup = copyOf(sh.backend)
	case 23:
		if sh.backup != nil {
			sh.backend, t.putBack = copyOf(sh.backup), true
			return t.restart(sh)
		}
	case 21:
		if t.o.Identity != "" || t.rng.IntN(4) > 0 { // which older event of an identity comes back is not decided
			return nil
		}
		if err := t.settle(); err != nil {
			return err
		}
		return t.forget(fmt.Sprint("u", t.rng.IntN(6)))
	}
	return nil
}

func (t *team) forget(user string) error {
	stores := []*Store{t.whole, t.trainer.store}
	for _, sh := range t.shards {
		sh.backup = nil // a shard learns of the subjects before it continues
		stores = append(stores, sh.store)
	}
	for _, s := range stores {
		if _, err := s.ForgetSubject("user", []byte(user)); err != nil {
			return err
		}
		if _, err := s.Erase(context.Background(), userOf); err != nil {
			return err
		}
	}
	return nil
}

// rows returns the rows by role.
func (sh *teamShard) rows() [NumRoles]int {
	rows, _ := sh.store.Size()
	return rows
}

// copyOf returns a copy of a backend.
func copyOf(m *storage.Memory) *storage.Memory {
	out, ops := storage.NewMemory(), []storage.Op{}
	_ = m.View(func(c storage.Cut) error {
		return c.Each(nil, func(key, value []byte) error {
			ops = append(ops, storage.Op{Key: bytes.Clone(key), Value: bytes.Clone(value)})
			return nil
		})
	})
	out.Commit(ops)
	return out
}

// compact leaves what a compacted topic may have left: of each key the last message.
func (t *team) compact() {
	type key struct {
		shard int
		key   string
	}
	seen := map[key]bool{}
	for i := len(t.topic) - 1; i >= 0; i-- {
		m := &t.topic[i]
		m.pairs = slices.DeleteFunc(slices.Clone(m.pairs), func(p Pair) bool {
			k := key{m.shard, string(p.Key)}
			was := seen[k]
			seen[k] = true
			return was
		})
		if k := (key{m.shard, "head"}); m.head != nil {
			if seen[k] {
				m.head = nil
			}
			seen[k] = true
		}
	}
}

// reshard ends the shards and gives the partitions to another number of them, which begin with what is in the topic,
// and to a new trainer.
func (t *team) reshard() error {
	count, topic := 1+t.rng.IntN(5), t.topic
	t.topic, t.putBack = nil, false
	was := len(t.shards)
	t.shards = nil
	for i := range count {
		sh := &teamShard{backend: storage.NewMemory(), merges: true}
		if err := t.restart(sh); err != nil {
			return err
		}
		take := func(n int) error {
			reader := &teamTrainer{store: sh.store, waiting: make([]map[string][]byte, was), since: make([]int, was)}
			for reader.at < n {
				if err := reader.read(topic, func(m *Share) {
					m.Only, m.Carry = func(_ string, number int32) bool { return int(number)%count == i }, int(m.Shard)%count == i
				}); err != nil {
					return err
				}
			}
			return nil
		}
		if t.rng.IntN(3) == 0 { // cut short
			if err := take(t.rng.IntN(len(topic) + 1)); err != nil {
				return err
			}
			if err := t.restart(sh); err != nil {
				return err
			}
		}
		if err := take(len(topic)); err != nil {
			return err
		}
		if err := sh.store.Taken(); err != nil {
			return err
		}
		sh.merges = false
		if t.rng.IntN(2) == 0 {
			if err := t.restart(sh); err != nil {
				return err
			}
		}
		t.shards = append(t.shards, sh)
	}
	for _, l := range t.logs {
		l.shard = int(l.number) % count
		if _, ok := t.shards[l.shard].store.Position(l.topic, l.number); !ok {
			return fmt.Errorf("%s/%d was not taken up", l.topic, l.number)
		}
	}
	t.trainer = &teamTrainer{backend: storage.NewMemory()}
	return t.restartTrainer()
}

// check compares the trainer with the store of all.
func (t *team) check() error {
	want, err := t.whole.State()
	if err != nil {
		return err
	}
	got, err := t.trainer.store.State()
	if err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{{"digest", got.SampleDigest, want.SampleDigest}, {"rows", got.Rows, want.Rows}, {"accounts", got.Partitions,
		want.Partitions},
		{"stubs", []int{got.Stubs, got.Joined}, []int{want.Stubs, want.Joined}}, {"reasons", got.RejectedByReason,
			want.RejectedByReason}, {"watermark", got.Watermark, want.Watermark}} {
		if !reflect.DeepEqual(c.got, c.want) {
			return fmt.Errorf("%s: %v, one store has %v", c.what, c.got, c.want)
		}
	}
	a, b := t.trainer.store.Thresholds(), t.whole.Thresholds()
	if t.o.Outcomes != "" { // the larger one of both sides is what both have
		a, b = t.trainer.store.joint(a), t.whole.joint(b)
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("thresholds %v, one store has %v", a, b)
	}
	for i, sh := range t.shards {
		if err := sh.store.Check(); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return t.trainer.store.Check()
}
