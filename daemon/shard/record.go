// Package shard carries the samples of shards to a trainer, over a compacted topic with one partition: the merge topic.
// Each shard writes what changes of its rows, then a head with the accounts that they belong to; the trainer merges
// both (sketch.Store.Merge) and writes back the thresholds that all samples have come to, so that the shards send no
// more than the sample of all of them needs. It knows nothing of events, of models or of learning.
package shard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
)

// formatVersion is that of the records. Readers refuse later ones.
const formatVersion = 1

// The kinds of records, the first byte of their keys:
//
//	p shard u32 | key of the state     a row, checkpoint, time bound or schema, as the state has it; a tombstone where it has none any more
//	h shard u32                        a head: JSON
//	t                                  what the trainer asks for: JSON
//
// Pairs carry a header with the policy that their sample follows and the instance that wrote them. Integers are
// big-endian.
const (
	kindPair    = 'p'
	kindHead    = 'h'
	kindTrainer = 't'
)

const instanceHeader = "i"

// A head says how far a shard has come. The pairs before it, of the same instance, belong to it.
type head struct {
	Format int      `json:"format"`
	Model  string   `json:"model"`
	Shard  int      `json:"shard"`
	Count  int      `json:"count"`
	By     instance `json:"by"`
	State  string   `json:"state"` // which stays with a state directory
	Host   string   `json:"host"`  // for messages
	Sent   int64    `json:"sent"`  // pairs that this instance has sent in all
	// the last head of an instance before that was acknowledged, of whose rows none was sent again; zero if all were
	After mark `json:"after,omitzero"`
	// the instance of which the trainer missed pairs: everything was sent again since
	Resent instance `json:"resent,omitzero"`
	// offset of this topic from which on it has all of the shard: everything was sent again there; 0 for its start
	From int64 `json:"from,omitempty"`
	Lag  int64 `json:"lag"` // records of its partitions that it has not applied yet
	// the term of the trainer whose wishes it follows: those of earlier ones are passed over
	Heeds instance `json:"heeds,omitzero"`
	Clock int64    `json:"clock,omitempty"` // of its host when it was written, milliseconds
	// Agreement is SenderOptions.Agreement; absent of a build that did not say.
	Agreement map[string]string `json:"agreement,omitempty"`
	Head      sketch.Head       `json:"head"`
}

// A mark says which head it is. Those that a state keeps also say what the topic was read for before it, under which
// policy.
type mark struct {
	By   instance `json:"by"`
	Sent int64    `json:"sent"`
	// what is asked for below it is done, and no later instance has written a head there; 0 of a build that did not say
	Next   int64  `json:"next,omitempty"`
	Passed uint64 `json:"passed,omitempty"` // largest epoch of pairs there
	Policy policy `json:"policy,omitzero"`
	From   int64  `json:"from,omitempty"` // as in a head
}

func (h *head) mark() mark { return mark{By: h.By, Sent: h.Sent} }

// head returns the mark without what a state keeps with it.
func (m mark) head() mark { return mark{By: m.By, Sent: m.Sent} }

func (m mark) compare(n mark) int { return cmp.Or(m.By.compare(n.By), cmp.Compare(m.Sent, n.Sent)) }

// wishes is what the trainer asks of the shards.
type wishes struct {
	Format     int                `json:"format"`
	Model      string             `json:"model"`
	By         instance           `json:"by,omitzero"`       // the term of the trainer; zero of a build that did not say
	Host       string             `json:"host,omitempty"`    // for messages
	Version    int64              `json:"version,omitempty"` // the newest that trainers have published
	Settings   []byte             `json:"settings"`          // of the trainer's state, as in a sketch.Head
	Thresholds []sketch.Threshold `json:"thresholds"`
	Merged     int                `json:"merged"`              // shards of which events have been
	Forgotten  *sketch.Witness    `json:"forgotten,omitempty"` // of the trainer's state, if subjects were
	Resend     map[int]instance   `json:"resend,omitempty"`    // shards of which something was lost
	// shards whose heads are passed over, and the later instance of them that was merged
	Passed map[int]instance `json:"passed,omitempty"`
}

// An instance is a run of a shard. The later of two counts.
type instance struct {
	Epoch uint64 `json:"epoch"` // one more than the last one that the topic has
	Name  string `json:"name"`  // drawn at random
}

const (
	// maxEpoch is above the epochs of heads and wishes: a shard that is started again each second comes to it in a
	// century.
	maxEpoch = 1 << 32
	// maxRuns is how many runs may end before their first head, so that pairs alone say that there were any.
	maxRuns = 1 << 20
	// maxName bounds the names of instances, which have 26 letters (rand.Text).
	maxName = 64
)

// plausible reports whether an instance can be one. An epoch that nobody can outdo would be the last one.
func (a instance) plausible() bool { return a.Epoch < maxEpoch && len(a.Name) <= maxName }

// follows reports whether pairs of an instance can come after a head of an epoch.
func (a instance) follows(head uint64) bool { return a.plausible() && a.Epoch <= head+maxRuns }

// followsHead reports whether a head of an instance can come after one of an epoch; 0 is not known. Otherwise a single
// record would use up all epochs.
func (a instance) followsHead(head uint64) bool {
	return a.plausible() && (head == 0 || a.follows(head))
}

// rules reports whether what a trainer wishes in a term takes the place of what the topic has of the last one before:
// that of a later term does. One so far above the other that no term can come to it is none, whichever was first.
func (a instance) rules(last instance) bool {
	none := instance{} // of a build that did not say
	switch {
	case a == none || last == none:
		return true
	case a.compare(last) < 0:
		return !last.follows(a.Epoch)
	}
	return a.follows(last.Epoch)
}

var errImplausible = errors.New("it has numbers that no shard and no trainer comes to")

// check refuses numbers of a head that cannot be true.
func (h *head) check() error {
	if !h.By.plausible() || !h.After.By.plausible() || !h.Resent.plausible() || !h.Heeds.plausible() ||
		h.Sent < 0 || h.After.Sent < 0 || h.From < 0 || h.Lag < 0 {
		return errImplausible
	}
	return nil
}

// check refuses numbers of wishes that cannot be true.
func (w *wishes) check() error {
	for _, others := range []map[int]instance{w.Resend, w.Passed} {
		for _, a := range others {
			if !a.plausible() {
				return errImplausible
			}
		}
	}
	if !w.By.plausible() || w.Version < 0 || w.Merged < 0 {
		return errImplausible
	}
	return nil
}

func (a instance) compare(b instance) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), strings.Compare(a.Name, b.Name))
}

// header marks the pairs of an instance.
func (a instance) header(of policy) kgo.RecordHeader {
	return kgo.RecordHeader{
		Key:   instanceHeader,
		Value: append(binary.BigEndian.AppendUint64(of[:], a.Epoch), a.Name...),
	}
}

// instanceOf returns which instance a pair is of; ok is false if it follows none of the policies.
func instanceOf(r *kgo.Record, of [2]policy) (a instance, ok bool) {
	i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == instanceHeader })
	if i < 0 || len(r.Headers[i].Value) < len(policy{})+8 ||
		!slices.Contains(of[:], policy(r.Headers[i].Value[:len(policy{})])) {
		return a, false
	}
	b := r.Headers[i].Value[len(policy{}):]
	return instance{binary.BigEndian.Uint64(b), string(b[8:])}, true
}

// A policy is a digest of the model, the number of shards, the settings of the sample and the agreement: pairs of
// another one are of another sample.
type policy [8]byte

// policiesOf returns the policy, and that of builds which did not say what they agreed in.
func policiesOf(model string, count int, store *sketch.Store, agreement map[string]string) (out [2]policy) {
	b := fmt.Appendf(nil, "%s %d %s", model, count, store.Fingerprint())
	sum := sha256.Sum256(b)
	out[0], out[1] = policy(sum[:len(policy{})]), policy(sum[:len(policy{})])
	if len(agreement) > 0 {
		sum = sha256.Sum256(fmt.Append(b, " ", agreement)) // a map is printed in the order of its keys
		out[0] = policy(sum[:len(policy{})])
	}
	return out
}

// differs returns the first key, with what it is there and here, of which another process says something else; ok is
// false if no key differs.
func differs(there, here map[string]string) (key, others, own string, ok bool) {
	if len(there) == 0 || len(here) == 0 {
		return "", "", "", false // of a build that did not say
	}
	for _, key := range slices.Sorted(maps.Keys(here)) {
		if other, said := there[key]; said &&
			other != here[key] { // a build that knows more keys, or less, says so by its policy
			return key, other, here[key], true
		}
	}
	return "", "", "", false
}

func keyOf(kind byte, shard int, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(shard)), key...)
}

// parseKey returns what a record is; ok is false if it is none of this package.
func parseKey(b []byte) (kind byte, shard int, key []byte, ok bool) {
	if len(b) == 1 && b[0] == kindTrainer {
		return kindTrainer, 0, nil, true
	}
	if len(b) < 5 || b[0] != kindPair && b[0] != kindHead || b[0] == kindHead && len(b) > 5 {
		return 0, 0, nil, false
	}
	return b[0], int(binary.BigEndian.Uint32(b[1:])), b[5:], true
}

// decode reads the JSON of a record of this model, and checks what can check itself.
func decode(r *kgo.Record, model string, into any) error {
	var about struct {
		Format int    `json:"format"`
		Model  string `json:"model"`
	}
	if err := json.Unmarshal(r.Value, &about); err != nil {
		return fmt.Errorf("the record at offset %d cannot be read: %w", r.Offset, err)
	}
	if about.Format > formatVersion {
		return fmt.Errorf("the record at offset %d has format %d, this build reads up to %d", r.Offset, about.Format,
			formatVersion)
	}
	if about.Model != model {
		return fmt.Errorf("the record at offset %d is of model %q, not of %q: no two models may share a merge topic",
			r.Offset, about.Model, model)
	}
	err := json.Unmarshal(r.Value, into)
	if checked, ok := into.(interface{ check() error }); ok && err == nil {
		err = checked.check()
	}
	if err != nil {
		return fmt.Errorf("the record at offset %d cannot be read: %w", r.Offset, err)
	}
	return nil
}

// The settings of the merge topic that matter. What is superseded stays for lagMillis, so that who reads on within it
// reads everything that was written. It goes once its segment is no longer written to: who takes a shard up reads what
// there is.
const (
	cleanupPolicy = "cleanup.policy"
	compact       = "compact"
	compactionLag = "min.compaction.lag.ms"
	segmentTime   = "segment.ms"
	lagMillis     = 600_000
	longSegment   = 3_600_000 // segment.ms above it are worth a word; that of brokers is a week
	timestampType = "message.timestamp.type"
	appendTime    = "LogAppendTime" // the clock of the brokers, with which those of the shards are compared
)

// ErrTopic: the merge topic is not what it has to be, which only an operator can change.
var ErrTopic = errors.New("the merge topic cannot be used")

// check creates the merge topic, or refuses an existing one that does not fit: where old records are deleted, rows
// are lost that are in the sample. Settings that only make it slow are logged if advises is set, as it is for the
// trainer: there are many shards.
func check(ctx context.Context, client *kgo.Client, topic string, log *slog.Logger, advises bool) error {
	policy, lag, stamps := compact, strconv.Itoa(lagMillis), appendTime
	created, err := produce.Ensure(ctx, client, topic, 1,
		map[string]*string{cleanupPolicy: &policy, compactionLag: &lag, segmentTime: &lag, timestampType: &stamps})
	if err != nil {
		return fmt.Errorf("topic %s (shard.topic): %w", topic, err)
	}
	if created {
		log.Info("topic created", "topic", topic, cleanupPolicy, compact)
		return nil
	}
	admin := kadm.NewClient(client)
	found, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("topic %s (shard.topic): %w", topic, err)
	}
	if n := len(found[topic].Partitions); n > 1 {
		return fmt.Errorf("topic %s (shard.topic) has %d partitions, want 1: %w", topic, n, ErrTopic)
	}
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil { // the check needs a right that merging does not need
		log.Warn("settings of the topic cannot be read",
			"note", "it has to be compacted, and only that", "topic", topic, "error",
			err)
		return nil
	}
	for _, d := range described {
		for _, c := range d.Configs {
			value := strings.TrimSpace(c.MaybeValue())
			if c.Key == cleanupPolicy && value != compact {
				return fmt.Errorf(
					"topic %s (shard.topic) has %s %s, which loses rows of the sample: set it to %s and have each shard send "+
						"everything "+
						"again by a new topic: %w",
					topic,
					cleanupPolicy,
					value,
					compact,
					ErrTopic,
				)
			}
			if n, err := strconv.ParseInt(value, 10, 64); advises && c.Key == segmentTime && err == nil &&
				n > longSegment {
				log.Warn(
					"merge topic keeps what is superseded for long",
					"note", "a process that takes a shard over reads all of it: set segment.ms of the topic",
					"topic",
					topic,
					segmentTime,
					n,
					"want",
					lagMillis,
				)
			}
		}
	}
	return nil
}

// bounds returns the first and the next offset of the merge topic.
func bounds(ctx context.Context, client *kgo.Client, topic string) (start, end int64, err error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	from, _ := starts.Lookup(topic, 0)
	to, _ := ends.Lookup(topic, 0)
	return from.Offset, to.Offset, errors.Join(from.Err, to.Err)
}

// readFrom has a client read the merge topic from an offset on.
func readFrom(topic string, offset int64) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}})
}

// unlike says of an error that a setting is another one there than here, by its key; key returns that of an option of
// sketch, and nil is its name.
func unlike(err error, key func(option string) string, there, here string) error {
	e, ok := errors.AsType[*sketch.ConfigError](err)
	if !ok {
		return err
	}
	name := e.Option
	if key != nil {
		name = key(e.Option)
	}
	return fmt.Errorf("%s is %s %s, %s %s: all have to have the same", name, e.Configured, there, e.Stored, here)
}

// epochOf returns the epoch that a head says, of whatever model it is: it has taken the place of the last one in the
// topic.
func epochOf(head []byte) uint64 {
	var said struct {
		By instance `json:"by"`
	}
	if json.Unmarshal(head, &said) != nil || !said.By.plausible() {
		return 0
	}
	return said.By.Epoch
}
