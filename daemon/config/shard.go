package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shard divides models over processes: shards read the topics, each some of the partitions, and a trainer has the
// samples of all of them. In the file it is the process's; that of a model has the process's role and the model's own
// topics.
type Shard struct {
	Count int   `json:"count"` // shards there are
	Index Index `json:"index"` // of a shard: 0 to Count-1, or Ordinal; empty with Group
	// in place of Index: the Kafka group that gives each process its shards, and the topic of that name with a
	// partition for each
	Group string `json:"group"`
	Topic string `json:"topic"` // the merge topic; ModelName in it is replaced by the name of the model

	// LiveTopic is where shards forward their events for the trainer to learn from, with ModelName as in Topic; empty
	// for models that learn by refits alone.
	LiveTopic string `json:"live_topic"`
	From      From   `json:"from"` // where a shard with an empty state begins

	// with Group: how long a process may be silent before the others have its shards
	Session Duration `json:"session"`
	// with Group: name of a static member, HostName for that of the host; empty for a member that leaves when it ends
	Instance string `json:"instance_id"`

	// Standby is, of a trainer, how long the one that trains may be silent before another one does; 0 where there is
	// one.
	Standby Duration `json:"standby"`

	Role string `json:"-" yaml:"-"` // of a model: that of the process
}

// From is the merge topic of another number of shards, which have ended: a shard takes its partitions up from there.
type From struct {
	Topic string `json:"topic"` // empty for none; ModelName as in Shard.Topic
	Count int    `json:"count"` // shards that wrote it
}

// An Index is a number or Ordinal.
type Index string

// UnmarshalText takes the text as it is: what it may be depends on the count.
func (i *Index) UnmarshalText(text []byte) error {
	*i = Index(text)
	return nil
}

// The values of Config.Role.
const (
	RoleAll     = "all"     // one process does everything
	RoleShard   = "shard"   // reads its partitions and sends what of them is in the sample
	RoleTrainer = "trainer" // merges what the shards send, refits and publishes
)

// Ordinal is the Index that is the number at the end of the host's name, as that of a pod of a StatefulSet.
const Ordinal = "ordinal"

// HostName is replaced by the name of the host in Shard.Instance.
const HostName = "hostname"

// The values of a Shard with a Group that says nothing else.
const (
	groupCount    = 12                         // two, three, four, six or twelve processes have as many each
	groupSession  = Duration(6 * time.Second)  // the least that brokers take unless they are configured otherwise
	staticSession = Duration(10 * time.Second) // with Instance, who is started again within it
)

// ModelName is what a merge topic's name has in place of that of the model.
const ModelName = "{model}"

// settle gives what follows from a group its values.
func (s *Shard) settle() {
	if s.Group == "" {
		return
	}
	if s.Count == 0 {
		s.Count = groupCount
	}
	switch {
	case s.Session != 0:
	case s.Instance != "":
		s.Session = staticSession
	default:
		s.Session = groupSession
	}
}

// IsGiven reports whether a group decides which shards a process is.
func (s *Shard) IsGiven() bool { return s.IsShard() && s.Group != "" }

// At returns the shard as one with a number, which a group has given.
func (s Shard) At(number int) Shard {
	s.Index = Index(strconv.Itoa(number))
	return s
}

// Member returns the name of a static member of the group, empty for a dynamic one.
func (s *Shard) Member() (string, error) {
	if s.Instance != HostName {
		return s.Instance, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("config: shard.instance_id: %w", err)
	}
	return host, nil
}

// of returns what a model has of it.
func (s Shard) of(role, model string) Shard {
	s.Role = role
	for _, topic := range []*string{&s.Topic, &s.LiveTopic, &s.From.Topic} {
		*topic = strings.ReplaceAll(*topic, ModelName, model)
	}
	return s
}

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
	text := string(s.Index)
	if text == Ordinal {
		found := ordinal.FindStringSubmatch(host)
		if found == nil {
			return 0, fmt.Errorf(
				"config: shard.index is ordinal, but the host's name %q does not end in a number, such as refitd-0",
				host)
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

// shard checks what a process is, and that its models can be divided.
func (v *validator) shard(c *Config) {
	s := &c.Shard
	v.oneOf("role", c.Role, RoleAll, RoleShard, RoleTrainer)
	v.whole("shard.count", s.Count, 0, maxShards)
	if c.Role == RoleAll {
		if *s != (Shard{}) {
			v.bad("role", c.Role, "shard or trainer, or leave shard out")
		}
		return
	}
	if s.Count == 0 {
		v.bad("shard.count", s.Count, "the number of shards, the same for all of them and the trainer")
	}
	v.group(c)
	switch n, err := strconv.Atoi(string(s.Index)); {
	case c.Role == RoleTrainer && s.Index != "":
		v.bad("shard.index", s.Index, "none: a trainer is no shard")
	case s.Group != "" && s.Index != "":
		v.bad("shard.index", s.Index, "none where shard.group is set: the group decides")
	case s.Group != "":
	case c.Role == RoleShard && s.Index != Ordinal && (err != nil || n < 0 || n >= s.Count):
		v.bad("shard.index", s.Index,
			fmt.Sprintf("0 to %d, or ordinal for the number at the end of the host's name", s.Count-1))
	}
	v.mergeTopic(c, "shard.topic", s.Topic, "the topic that the shards write to and the trainer reads")
	if s.LiveTopic == s.Topic {
		v.bad("shard.live_topic", s.LiveTopic, "another topic than shard.topic: old records of it are deleted")
	} else if s.LiveTopic != "" {
		v.mergeTopic(c, "shard.live_topic", s.LiveTopic, "the topic into which shards forward their events")
	}
	v.from(c)
	v.standby(c)
	for i := range c.Models {
		v.shared(c.Role, &c.Models[i], fmt.Sprintf("models[%d].", i))
	}
}

// The limits of Shard.Session.
const (
	minSession = time.Second
	maxSession = 30 * time.Minute
)

// group checks what a process says of the group that gives it its shards. A trainer may say the same: it has the count
// from it.
func (v *validator) group(c *Config) {
	s := &c.Shard
	switch {
	case s.Group == "" && s.Session != 0:
		v.bad("shard.session", s.Session, "0s, or shard.group: it is that group's")
	case s.Group == "" && s.Instance != "":
		v.bad("shard.instance_id", s.Instance, "none, or shard.group: it is a name in that group")
	case s.Group == "":
		return
	case !isTopic(s.Group):
		v.bad("shard.group", s.Group, "1 to 249 letters, digits, '.', '_' or '-': the name of a group and of its topic")
	case s.Group == c.Kafka.GroupID:
		v.bad("shard.group", s.Group,
			"another group than kafka.group_id: brokers take no offsets from outside of a group that has members")
	case s.Instance != "" && !isTopic(s.Instance):
		v.bad("shard.instance_id", s.Instance,
			"1 to 249 letters, digits, '.', '_' or '-', or hostname for the name of the host")
	case s.Session.Std() < minSession || s.Session.Std() > maxSession:
		v.bad("shard.session", s.Session, fmt.Sprintf("%v to %v", minSession, maxSession))
	}
	for i := range c.Models {
		if m := &c.Models[i]; s.Group == m.Shard.Topic || s.Group == m.Shard.LiveTopic ||
			slices.Contains(m.Input.Topics, s.Group) {
			v.bad("shard.group", s.Group,
				"a name that no other topic has: the group's own has a partition for each shard, and no records")
		}
	}
}

// mergeTopic checks the name of a merge topic: each model needs a separate one.
func (v *validator) mergeTopic(c *Config, key, topic, what string) {
	if !isTopic(strings.ReplaceAll(topic, ModelName, "m")) {
		v.bad(key, topic, "1 to 249 letters, digits, '.', '_' or '-': "+what)
	} else if len(c.Models) > 1 && !strings.Contains(topic, ModelName) {
		v.bad(key, topic, "a name with "+ModelName+" in it, such as merge-"+ModelName+": each model needs a separate topic")
	}
}

// shared checks that a model can be divided over processes.
func (v *validator) shared(role string, m *Model, path string) {
	if m.Sample.Seed == nil {
		v.bad(path+"sample.seed", nil,
			"a number, the same for the trainer and all shards: it decides which events are kept")
	}
	if len(m.Schema.Derived) > 0 {
		v.bad("role", role, "all: fields of "+path+"schema.derived follow from events that one process has read")
	}
	if len(m.Tables) > 0 {
		v.bad("role", role, "all: "+path+"tables are read by one process")
	}
	if m.Score.Topic != "" && role == RoleShard {
		v.bad("role", role, "trainer or all, where "+path+"score.topic is set: scores are of the trainer")
	}
	v.liveTopic(m, path)
	if m.Shard.From.Topic != "" && len(m.Sample.Quotas) > 0 {
		v.bad(
			"shard.from.topic",
			m.Shard.From.Topic,
			"none where "+path+"sample.quotas is set: events of a class are not counted by partition, so the log has to be "+
				"read again",
		)
	}
}

// The limits of Shard.Standby. The brokers have their own: 6 s to 30 min by default.
const (
	minStandby = time.Second
	maxStandby = 5 * time.Minute
)

func (v *validator) standby(c *Config) {
	switch standby := c.Shard.Standby; {
	case standby == 0:
	case c.Role != RoleTrainer:
		v.bad("shard.standby", standby, "0s: only a trainer may be a standby")
	case standby.Std() < minStandby || standby.Std() > maxStandby:
		v.bad("shard.standby", standby,
			fmt.Sprintf("0s for a trainer that is the only one, or %v to %v", minStandby, maxStandby))
	}
}

// liveTopic checks what a model needs that learns between refits over several processes.
func (v *validator) liveTopic(m *Model, path string) {
	const key = "shard.live_topic"
	switch topic := m.Shard.LiveTopic; {
	case topic == "" && (m.Publish.Deltas.Every > 0 || m.Serve.Live):
		v.bad(key, topic,
			"a topic, or neither "+path+"publish.deltas nor serve.live: without it nothing is learned between refits")
	case topic != "" && !m.Train.FoldIn.Enabled:
		v.bad(key, topic, "none, or "+path+"train.fold_in.enabled: true: without it nothing is learned between refits")
	}
}

func (v *validator) from(c *Config) {
	from := &c.Shard.From
	v.whole("shard.from.count", from.Count, 0, maxShards)
	switch {
	case *from == From{}:
	case c.Role == RoleTrainer:
		v.bad("shard.from.topic", from.Topic, "none: a trainer begins with an empty state and the new topic")
	case from.Topic == c.Shard.Topic:
		v.bad("shard.from.topic", from.Topic,
			"the topic that the shards wrote to before there were others, which is not shard.topic")
	case from.Count == 0:
		v.bad("shard.from.count", from.Count, "the number of shards that wrote shard.from.topic")
	default:
		v.mergeTopic(c, "shard.from.topic", from.Topic, "the topic that the shards wrote to before there were others")
	}
}
