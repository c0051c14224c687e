package config

import (
	"cmp"
	"fmt"
	"slices"
)

// Score says where the events of some topics are scored with the version that consumers have, and how.
type Score struct {
	// where a record for each offset of Input goes; empty for none, and then nothing is scored
	Topic string   `json:"topic"`
	Input []string `json:"input"` // topics; empty is those of the model's Input
	// consumer group that keeps which offsets are answered; empty is by ScoreGroup
	Group string `json:"group"`
	Start string `json:"start"` // earliest or latest, where the group has no offset yet
	// auto, required or off: whether answer and offset are written in one transaction
	Transactions string `json:"transactions"`
	Propensity   string `json:"propensity"` // field with the probability with which an event was chosen; empty for none
}

// The values of Score.Transactions other than Auto.
const (
	Required = "required"
	Off      = "off"
)

// ScoreInput returns the topics whose events are scored.
func (m *Model) ScoreInput() []string {
	if len(m.Score.Input) > 0 {
		return m.Score.Input
	}
	return m.Input.Topics
}

// ScoreGroup returns the consumer group of the scores of a model.
func (c *Config) ScoreGroup(m *Model) string {
	return cmp.Or(m.Score.Group, c.Kafka.GroupID+"-score-"+m.Name)
}

// mapsInputs reports whether input.mapping finds something that predictions depend on elsewhere than under its name.
func (m *Model) mapsInputs() bool {
	inputs := slices.Concat(m.Schema.Categorical, m.Schema.Numeric, m.Schema.Multi)
	return m.Input.Mapping.Envelope != "" || slices.ContainsFunc(m.Input.Mapping.Fields, func(f MappedField) bool {
		return f.Path != f.Name && slices.Contains(inputs, f.Name)
	})
}

func (v *validator) score(m *Model, path string) {
	s := &m.Score
	const topic = "1 to 249 letters, digits, '.', '_' or '-'"
	if s.Topic != "" && !isTopic(s.Topic) {
		v.bad(path+".topic", s.Topic, topic+", or leave it out")
	}
	if s.Topic == "" && (len(s.Input) > 0 || s.Group != "" || s.Propensity != "") {
		v.bad(path+".topic", "", "the topic that the scores go to, or leave the other keys of score out")
	}
	if s.Topic != "" && (m.mapsInputs() || m.Input.IsFramed()) && slices.ContainsFunc(m.ScoreInput(),
		func(t string) bool { return slices.Contains(m.Input.Topics, t) }) {
		v.bad(path+".input", s.Input, "topics whose records are flat JSON, as the schema has the fields: those of "+
			"input.topics need input.mapping or input.format, which scores do not know")
	}
	for i, t := range s.Input {
		if !isTopic(t) {
			v.bad(fmt.Sprintf("%s.input[%d]", path, i), t, topic)
		} else if slices.Index(s.Input, t) < i {
			v.bad(fmt.Sprintf("%s.input[%d]", path, i), t, "each topic once")
		}
	}
	v.oneOf(path+".start", s.Start, "earliest", "latest")
	v.oneOf(path+".transactions", s.Transactions, Auto, Required, Off)
}

// scoreGroup checks that the group of model i's scores is no other's: its offsets are what is answered, not a display.
func (v *validator) scoreGroup(c *Config, i int, taken map[string]string) {
	m := &c.Models[i]
	if m.Score.Topic == "" {
		return
	}
	group, key := c.ScoreGroup(m), fmt.Sprintf("models[%d].score.group", i)
	if by, ok := taken[group]; ok {
		v.bad(key, group, "another group: it is "+by)
	}
	taken[group] = key
}
