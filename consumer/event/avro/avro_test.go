package avro

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

var ratings = event.Schema{
	Task:        event.Regression,
	Label:       "rating",
	Time:        "ts",
	TimeUnit:    "ms",
	Categorical: []string{"user", "item"},
	Numeric:     []string{"price"},
	Multi:       []string{"tags"},
	Optional:    []string{"price", "tags"},
}

// place says where the fields are that are not members of the value.
func place(t testing.TB, fields ...string) *event.Mapping {
	t.Helper()
	m := new(event.Mapping)
	for _, text := range fields {
		name, path, _ := strings.Cut(text, "=")
		from, err := event.ParseSource(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Fields = append(m.Fields, event.MappedField{Name: name, From: from})
	}
	return m
}

// known are the schemas of a registry.
type known map[framing.ID]*event.Writer

func (k known) Writer(id framing.ID) *event.Writer { return k[id] }

// decoderOf returns a decoder of values in Avro.
func decoderOf(m *event.Mapping, writers event.Writers, fixed *event.Writer) *event.Mapped {
	d := event.NewMapped(ratings, event.DefaultLimits(), m, nil)
	d.Read(event.Reading{Format: event.FormatAvro, Writers: writers, Fixed: fixed,
		Compilers: map[string]event.Compiler{event.FormatAvro: Compile}})
	return d
}

func written(text string) *event.Writer { return &event.Writer{Format: event.FormatAvro, Text: text} }

// confluent puts a value into the frame of schema 7.
func confluent(value []byte) []byte { return append([]byte{0, 0, 0, 0, 7}, value...) }

var seven = framing.ID{Kind: framing.NumberID, Number: 7}
