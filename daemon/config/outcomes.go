package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// Outcomes are what came of events, written to other topics later: clicks of impressions, purchases of visits. An event
// has its label from the outcomes that name it and come within the window.
type Outcomes struct {
	Topics []string       `json:"topics"`           // of outcomes, other than those of events
	Values []OutcomeValue `json:"values,omitempty"` // what outcomes of a topic are worth; 1 of others
	Key    OutcomeKey     `json:"key"`              // by which events and outcomes are joined
	Label  string         `json:"label,omitempty"`  // field of outcomes with their value; empty: that of the topic
	Time   string         `json:"time,omitempty"`   // field of outcomes with their time; empty is schema.time
	// how several outcomes of one event make its label: first, last, sum, max or min
	Reward string `json:"reward,omitempty"`
	// after its event, within which an outcome counts, in event time
	Window  Duration `json:"window"`
	Default float64  `json:"default"` // label of an event without an outcome
}

// OutcomeValue says what an outcome of a topic is worth.
type OutcomeValue struct {
	Topic string  `json:"topic"` // one of the topics of outcomes
	Value float64 `json:"value"` // that an outcome of it has
}

// OutcomeKey names the fields by which events and outcomes are joined.
type OutcomeKey struct {
	Impression string `json:"impression"` // field of events; it is their schema.identity
	Outcome    string `json:"outcome"`    // where outcomes have it: a member, key:id or record:key
}

// The ways to make a label of several outcomes.
const (
	RewardFirst = "first"
	RewardLast  = "last"
	RewardSum   = "sum"
	RewardMax   = "max"
	RewardMin   = "min"
)

var rewards = []string{RewardFirst, RewardLast, RewardSum, RewardMax, RewardMin}

const (
	minWindow = time.Second
	maxWindow = 366 * 24 * time.Hour
	// outcomeKeyField names the key of outcomes where it is no member of their values.
	outcomeKeyField = "outcome_key"
)

// IsSet reports whether labels come in outcomes.
func (o *Outcomes) IsSet() bool { return len(o.Topics) > 0 || o.Key != (OutcomeKey{}) }

// IsZero leaves them out of stored models and of digests where labels come with events.
func (o Outcomes) IsZero() bool {
	return !o.IsSet() && len(o.Values) == 0 && o.Label == "" && o.Time == "" && o.Reward == "" && o.Window == 0 &&
		o.Default == 0
}

// Has reports whether a topic is one of outcomes.
func (o *Outcomes) Has(topic string) bool { return slices.Contains(o.Topics, topic) }

// ValueOf returns what an outcome of a topic is worth that says nothing itself: 1 unless Values names the topic.
func (o *Outcomes) ValueOf(topic string) float64 {
	for _, v := range o.Values {
		if v.Topic == topic {
			return v.Value
		}
	}
	return 1
}

// takeOutcomes has events identified by the key that outcomes name, and come without a label.
func (m *Model) takeOutcomes() {
	o := &m.Input.Outcomes
	if !o.IsSet() {
		return
	}
	if m.Schema.LabelLater = true; m.Schema.Identity == "" {
		m.Schema.Identity = o.Key.Impression
	}
	if o.Reward == "" {
		o.Reward = RewardFirst
	}
	if o.Time == "" {
		o.Time = m.Schema.Time
	}
}

// OutcomeModel returns a model whose events are the outcomes of m, for a decoder: choices without a label, whose first
// categorical field is the key and whose first number, if there is one, is the value.
func (m *Model) OutcomeModel() *Model {
	o := &m.Input.Outcomes
	out := &Model{Name: m.Name, Input: m.Input}
	out.Input.Topics, out.Input.Outcomes, out.Input.Mapping = o.Topics, Outcomes{}, Mapping{}
	out.Schema = Schema{Task: Implicit, Time: o.Time, TimeUnit: m.Schema.TimeUnit, Categorical: []string{o.Key.Outcome}}
	if strings.ContainsAny(o.Key.Outcome, ".:\"") {
		out.Schema.Categorical = []string{outcomeKeyField}
		out.Input.Mapping.Fields = []MappedField{{Name: outcomeKeyField, Path: o.Key.Outcome}}
	}
	if o.Label != "" {
		out.Schema.Numeric = []string{o.Label}
	}
	return out
}

// outcomes checks the keys of outcomes, and refuses what labels that come later cannot be combined with.
func (v *validator) outcomes(m *Model, path string) {
	o, at := &m.Input.Outcomes, strictyaml.Join(path, "input.outcomes")
	if o.IsZero() {
		return
	}
	v.outcomeTopics(m, at)
	for _, k := range []struct{ key, value, where string }{
		{".key.impression", o.Key.Impression, "the field of events that outcomes name, such as id"},
		{".key.outcome", o.Key.Outcome, "where outcomes have the key of their event, such as impression_id or record:key"},
	} {
		if k.value == "" {
			v.bad(at+k.key, "", k.where)
		}
	}
	if _, err := event.ParseSource(o.Key.Outcome); err != nil && o.Key.Outcome != "" {
		v.bad(at+".key.outcome", o.Key.Outcome, "a member of outcomes, key:id or record:key")
	}
	if o.Label != "" && (o.Label == o.Key.Outcome || o.Label == o.Time) {
		v.bad(at+".label", o.Label, "another field than those of the key and the time")
	}
	if o.Reward != "" && !slices.Contains(rewards, o.Reward) {
		v.bad(at+".reward", o.Reward, "first, last, sum, max or min; empty is first")
	}
	if v.duration(at+".window", o.Window, 0, maxWindow); o.Window.Std() < minWindow {
		v.bad(at+".window", o.Window, "how long after its event an outcome counts, 1s or more, such as 24h")
	}
	v.rewardValues(m, at)
	v.joinedWith(m, path)
}

// outcomeTopics checks the topics of outcomes and what they are worth.
func (v *validator) outcomeTopics(m *Model, at string) {
	o := &m.Input.Outcomes
	if len(o.Topics) == 0 && !v.allow.Offline {
		v.bad(at+".topics", nil, "a list with at least one topic")
	}
	for i, topic := range o.Topics {
		switch key := fmt.Sprintf("%s.topics[%d]", at, i); {
		case !isTopic(topic):
			v.bad(key, topic, "1 to 249 letters, digits, '.', '_' or '-'")
		case slices.Contains(o.Topics[:i], topic) || slices.Contains(m.Input.Topics, topic):
			v.bad(key, topic, "a topic that is in neither list before: events and outcomes have separate topics")
		}
	}
	for i, value := range o.Values {
		if key := fmt.Sprintf("%s.values[%d].topic", at, i); !o.Has(value.Topic) {
			v.oneOf(key, value.Topic, o.Topics...)
		}
	}
	if len(o.Values) > 0 && o.Label != "" {
		v.bad(at+".values", len(o.Values), "either what topics are worth or the field label, not both")
	}
}

// rewardValues checks that what rewards can be are labels of the task.
func (v *validator) rewardValues(m *Model, at string) {
	o, s := &m.Input.Outcomes, m.Schema.Event()
	switch s.Task {
	case event.Regression, event.Binary:
	case event.Ordinal:
		if o.Reward == RewardSum {
			v.bad(at+".reward", o.Reward, "first, last, max or min: levels are not added up")
		}
	default:
		v.refuse(at, "needs task: regression, binary or ordinal: what came of an event is a number")
		return
	}
	if m.Schema.Task == Implicit {
		v.refuse(at, "cannot be combined with task: implicit, whose events are outcomes themselves: use task: binary")
		return
	}
	if !s.AcceptsLabel(o.Default) {
		v.bad(at+".default", o.Default, "a label of the task: what an event is without an outcome")
	}
	for i, value := range o.Values {
		if !m.AcceptsReward(value.Value) {
			v.bad(fmt.Sprintf("%s.values[%d].value", at, i), value.Value, "a finite number that is a label of the task")
		}
	}
	if len(o.Values) < len(o.Topics) && o.Label == "" && !m.AcceptsReward(1) {
		v.bad(at+".label", "", "the field of outcomes with their value: 1 is no label of the task")
	}
}

// AcceptsReward reports whether an outcome may have a value. Rewards of a binary label are 1 where they are above 0,
// and those of a regression are cut to its labels.
func (m *Model) AcceptsReward(value float64) bool {
	s := m.Schema.Event()
	if s.Task == event.Ordinal {
		return s.AcceptsLabel(value)
	}
	return value >= -event.MaxLabel && value <= event.MaxLabel
}

// joinedWith refuses what is decided before the label is there, or by what outcomes do not say.
func (v *validator) joinedWith(m *Model, path string) {
	o, at := &m.Input.Outcomes, func(key string) string { return strictyaml.Join(path, key) }
	const joined = "cannot be combined with input.outcomes: "
	if m.Schema.Identity != o.Key.Impression {
		v.bad(at("schema.identity"), m.Schema.Identity, fmt.Sprintf("%q, the key of input.outcomes, or leave it out",
			o.Key.Impression))
	}
	if len(m.Sample.Quotas) > 0 {
		v.refuse(at("sample.quotas"), joined+"the class of an event is not known when it is sampled, and may turn; "+
			"a larger sample.size keeps more events of a rare class")
	}
	if m.Sample.Cap.By != "" {
		v.refuse(at("sample.cap.by"), joined+"an outcome does not say which entity its event is of")
	}
	if m.Sample.Holdout.By != "" {
		v.refuse(at("sample.holdout.by"), joined+"an outcome does not say whether the entity of its event is held out")
	}
	for i := range m.Schema.Derived {
		if d := &m.Schema.Derived[i]; d.Kind == string(event.PreviousLabel) {
			v.refuse(fmt.Sprintf("%s[%d].kind", at("schema.derived"), i), joined+"the label before is not known yet")
		}
	}
	if m.Input.SchemaFile != "" {
		v.refuse(at("input.schema_file"), joined+"outcomes are written by another schema: use a registry")
	}
	if m.Input.KeyFormat != "" && m.Input.KeyFormat != event.FormatJSON {
		v.refuse(at("input.key_format"), joined+"a record without a value takes outcomes back by the text of its key")
	}
	if m.Shard.LiveTopic != "" {
		v.refuse("shard.live_topic", joined+"what comes of an event is read by another shard; leave it out, and what "+
			"the trainer has learned comes with its refits")
	}
}
