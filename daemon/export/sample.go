package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// Row is an event of a sample with what it counts.
type Row struct {
	Event     event.Event
	Role      sketch.Role
	Weight    float64 // in training, of mean 1; 1 for held-out rows
	Inclusion float64 // probability that the event is in the sample; 0 where it is not known
	Topic     string
	Partition int32
	Offset    int64
}

// Rows calls f for every row of a sample, training rows first. The row is valid during the call.
func Rows(s *sketch.Sample, f func(*Row) error) error {
	weights := s.TrainWeights()
	names := make(map[string]string)
	var row Row
	for role, rowList := range [sketch.NumRoles][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range rowList {
			r := &rowList[i]
			if err := rows.DecodeEvent(&row.Event, r.Payload, names); err != nil {
				return err
			}
			row.Role, row.Weight, row.Inclusion = sketch.Role(role), 1, 0
			row.Topic, row.Partition, row.Offset = r.Topic, r.Partition, r.Offset
			if sketch.Role(role) == sketch.Train && weights != nil {
				row.Weight = weights[i]
			}
			if p, ok := s.Inclusion(r); ok {
				row.Inclusion = p
			}
			if err := f(&row); err != nil {
				return err
			}
		}
	}
	return nil
}

// AppendJSON appends a row as one JSON object without a line end: the event as the daemon would accept it again, and
// _role, _weight, _inclusion_probability, _topic, _partition and _offset, which it ignores.
func AppendJSON(dst []byte, m *config.Schema, r *Row) ([]byte, error) {
	o := object{dst: append(dst, '{')}
	ev, weight := &r.Event, r.Event.Weight
	switch event.Task(m.Task) {
	case config.Implicit:
		var kind string
		if kind, weight = m.KindOf(weight); kind != "" {
			o.add(m.Label, kind)
		}
	case event.Multiclass:
		o.add(m.Label, ev.Classes[0])
	case event.Multilabel:
		o.add(m.Label, append([]string{}, ev.Classes...)) // null would be no label
	default:
		if m.Positive != "" {
			o.add(m.Label, m.LabelName(ev.Label))
			break
		}
		o.add(m.Label, ev.Label)
	}
	if m.Weight != "" {
		o.add(m.Weight, weight)
	}
	if m.Time != "" {
		o.add(m.Time, timeIn(m.TimeUnit, ev.Time))
	}
	for f, name := range m.Categorical {
		if ev.Categorical[f] != "" { // absent
			o.add(name, ev.Categorical[f])
		}
	}
	for f, name := range m.Numeric {
		if !math.IsNaN(ev.Numeric[f]) { // absent
			o.add(name, ev.Numeric[f])
		}
	}
	for f, name := range m.Multi {
		o.add(name, append([]string{}, ev.Multi[f]...)) // null would be no field
	}
	if m.Identity != "" && !slices.Contains(slices.Concat(m.Categorical, []string{m.Label, m.Time}), m.Identity) {
		o.add(m.Identity, fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)) // a sample does not keep identities
	}
	o.add("_role", r.Role.String())
	o.add("_weight", r.Weight)
	if r.Inclusion > 0 {
		o.add("_inclusion_probability", r.Inclusion)
	}
	o.add("_topic", r.Topic)
	o.add("_partition", r.Partition)
	o.add("_offset", r.Offset)
	return append(o.dst, '}'), o.err
}

// object appends the fields of a JSON object.
type object struct {
	dst []byte
	err error
}

func (o *object) add(name string, value any) {
	if last := o.dst[len(o.dst)-1]; last != '{' {
		o.dst = append(o.dst, ',')
	}
	for i, part := range []any{name, value} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(part); err != nil && o.err == nil {
			o.err = fmt.Errorf("export: field %s: %w", name, err)
		}
		o.dst = append(o.dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		if i == 0 {
			o.dst = append(o.dst, ':')
		}
	}
}

// timeIn turns milliseconds into a unit of the schema.
func timeIn(unit string, ms int64) any {
	switch unit {
	case "s":
		return float64(ms) / 1000
	case "us":
		return ms * 1000
	case "ns":
		const most = math.MaxInt64 / 1_000_000 // the year 2262
		return min(ms, most) * 1_000_000
	}
	return ms
}
