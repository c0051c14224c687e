package config

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// Shard divides a model over processes: shards read the topics, each some of the partitions, and a trainer has the sample of all of them.
type Shard struct {
	Role  string `json:"role"`  // all, shard or trainer
	Count int    `json:"count"` // shards there are
	Index string `json:"index"` // of a shard: 0 to Count-1, or Ordinal
	Topic string `json:"topic"` // the merge topic
	From  From   `json:"from"`  // where a shard with an empty state begins
}

// From is the merge topic of another number of shards, which have ended: a shard takes its partitions up from there.
type From struct {
	Topic string `json:"topic"` // empty for none
	Count int    `json:"count"` // shards that wrote it
}

// The values of Shard.Role.
const (
	RoleAll     = "all"     // one process does everything
	RoleShard   = "shard"   // reads its partitions and sends what of them is in the sample
	RoleTrainer = "trainer" // merges what the shards send, refits and publishes
)

// Ordinal is the Index that is the number at the end of the host's name, as that of a pod of a StatefulSet.
const Ordinal = "ordinal"

// maxShards bounds Shard.Count.
const maxShards = 1000

// IsShard and IsTrainer report the role.
func (s *Shard) IsShard() bool   { return s.Role == RoleShard }
func (s *Shard) IsTrainer() bool { return s.Role == RoleTrainer }

// Number returns the number of a shard. The error says how the host is to be called where it is the host's.
func (s *Shard) Number() (int, error) {
	host, err := os.Hostname()
	if err != nil && s.Index == Ordinal {
		return 0, fmt.Errorf("config: shard.index: %w", err)
	}
	return s.numberOn(host)
}

var ordinal = regexp.MustCompile(`-(\d{1,4})(\.|$)`)

func (s *Shard) numberOn(host string) (int, error) {
	text := s.Index
	if text == Ordinal {
		found := ordinal.FindStringSubmatch(host)
		if found == nil {
			return 0, fmt.Errorf("config: shard.index is ordinal, but the host's name %q does not end in a number, such as refitd-0", host)
		}
		text = found[1]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= s.Count {
		return 0, fmt.Errorf("config: shard.index is %s of shard.count %d: want 0 to %d", text, s.Count, s.Count-1)
	}
	return n, nil
}

// Owns reports whether a partition is of a shard.
func (s *Shard) Owns(number int, partition int32) bool { return int(partition)%s.Count == number }

func (v *validator) shard(m *Model, path string) {
	s := &m.Shard
	v.oneOf(path+".role", s.Role, RoleAll, RoleShard, RoleTrainer)
	v.whole(path+".count", s.Count, 0, maxShards)
	if s.Role == RoleAll {
		if *s != (Shard{Role: RoleAll}) {
			v.bad(path+".role", s.Role, "shard or trainer, or leave the other keys of shard out")
		}
		return
	}
	if !isTopic(s.Topic) {
		v.bad(path+".topic", s.Topic, "1 to 249 letters, digits, '.', '_' or '-': the topic that the shards write to and the trainer reads")
	}
	if s.Count == 0 {
		v.bad(path+".count", s.Count, "the number of shards, the same for all of them and the trainer")
	}
	switch n, err := strconv.Atoi(s.Index); {
	case s.IsTrainer() && s.Index != "":
		v.bad(path+".index", s.Index, "none: a trainer is no shard")
	case s.IsShard() && s.Index != Ordinal && (err != nil || n < 0 || n >= s.Count):
		v.bad(path+".index", s.Index, fmt.Sprintf("0 to %d, or ordinal for the number at the end of the host's name", s.Count-1))
	}
	v.from(m, path+".from")
	if m.Sample.Seed == nil {
		v.bad(path[:len(path)-len("shard")]+"sample.seed", nil, "a number, the same for the trainer and all shards: it decides which events are kept")
	}
	if len(m.Schema.Derived) > 0 {
		v.bad(path+".role", s.Role, "all: fields of schema.derived follow from events that one process has read")
	}
	if m.Score.Topic != "" && s.IsShard() {
		v.bad(path+".role", s.Role, "trainer or all, where score.topic is set: scores are of the trainer")
	}
	if m.Publish.Deltas.Every > 0 || m.Serve.Live {
		v.bad(path+".role", s.Role, "all, or neither publish.deltas nor serve.live: what is learned between refits is of one process")
	}
}

func (v *validator) from(m *Model, path string) {
	s, from := &m.Shard, &m.Shard.From
	v.whole(path+".count", from.Count, 0, maxShards)
	switch {
	case *from == From{}:
	case s.IsTrainer():
		v.bad(path+".topic", from.Topic, "none: a trainer begins with an empty state and the new topic")
	case !isTopic(from.Topic) || from.Topic == s.Topic:
		v.bad(path+".topic", from.Topic, "the topic that the shards wrote to before there were others, which is not shard.topic")
	case from.Count == 0:
		v.bad(path+".count", from.Count, "the number of shards that wrote shard.from.topic")
	case len(m.Sample.Quotas) > 0:
		v.bad(path+".topic", from.Topic, "none where sample.quotas is set: events of a class are not counted by partition, so the log has to be read again")
	}
}
