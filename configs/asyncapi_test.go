package configs_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/deadletter"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/kafkasource"
)

// written is a topic that refitd writes and others read.
type written struct {
	id, setting string // of the channel, and the key of the configuration that names the topic
	title       string
	about       string
	settings    object // of the topic where refitd creates it
	messages    []topicMessage
}

// topicMessage is a kind of records of a topic.
type topicMessage struct {
	name, summary string
	key           string // what it is
	media         string // of the value; "" for a record without one
	value         any    // a Go type in JSON, nil for bytes
	about         string // of a value that is bytes
	record        *kgo.Record
	others        string // what the names of further headers begin with
}

var compactedTopic = object{{"cleanup.policy", []string{"compact"}}}

// writtenTopics are all of them.
func writtenTopics(t *testing.T) []written {
	announced, err := (&kafkasource.Announcement{}).Record("t")
	if err != nil {
		t.Fatal(err)
	}
	letter := deadletter.Envelope("m", &sketch.DeadLetter{})
	return []written{
		{"deadLetters", "models.input.dead_letter.topic", "Dead letters", "Records of the topics of a model that are no " +
			"events of it, at least once each.", nil, []topicMessage{{"deadLetter", "A record that was rejected, with why.",
			"topic/partition/offset of the rejected record, by which copies are recognised", "application/octet-stream", nil,
			"the beginning of the rejected value; no value where that had none", letter, deadletter.HeaderPrefix}}},
		{"announcements", "models.publish.topic", "Announcements", "What the alias champion of each model names; the " +
			"newest record of a model counts.", compactedTopic, []topicMessage{{"announcement",
			"The alias champion names a version.",
			"name of the model", "application/json", kafkasource.Announcement{}, "", announced, ""}}},
		{"deltas", "models.publish.deltas.topic", "Deltas", "The deltas of the champion of each model since its version. " +
			"Another champion takes them back, record by record.", compactedTopic, []topicMessage{
			{"delta", "A change of the champion.", "model/lineage/version/sequence", "application/octet-stream", nil,
				"one frame, as in the files of a version: package snapshot of Go and refitd_snapshot of Python read it", nil, ""},
			{"deltaTakenBack", "The chain of the delta of that key has ended.", "model/lineage/version/sequence", "", nil, "",
				nil, ""}}},
		{"scores", "models.score.topic", "Scores", "One answer for each offset of the topics of score.input, in the " +
			"partition of the same number.", nil, []topicMessage{{"answer",
			"What a version says of an event, or why it is none.", "the key of the event", "application/json", scoring.Answer{},
			"", nil, ""}}},
	}
}

// between are the topics that refitd writes for its processes alone: what is in them changes with the program.
var between = []string{"shard.topic", "shard.live_topic"}

// readTopics are keys of topics that are read.
var readTopics = []string{"models.input.outcomes.values.topic", "shard.from.topic"}

// headerTexts say what the headers of records have.
var headerTexts = map[string]string{
	deadletter.HeaderModel:       "Name of the model that rejected it.",
	deadletter.HeaderTopic:       "Of the rejected record.",
	deadletter.HeaderPartition:   "Of the rejected record, a number as text.",
	deadletter.HeaderOffset:      "Of the rejected record, a number as text.",
	deadletter.HeaderIncarnation: "How often the topic was accepted after it had been made anew, from 0.",
	deadletter.HeaderReason:      "One of the reasons of json.md, such as missing_field.",
	deadletter.HeaderField:       "Field of the schema that the reason is about; empty where that is the whole value.",
	deadletter.HeaderExpected:    "What may be there.",
	deadletter.HeaderGot:         "The kind of what was there, never the value itself.",
	deadletter.HeaderTimestamp:   "Of the rejected record, milliseconds since 1970 as text.",
	deadletter.HeaderSize:        "Bytes of the rejected value, -1 without one; what the dead letter lacks was cut off.",
	deadletter.HeaderKey:         "Key of the rejected record, as it was; no value where it had none.",
	deadletter.HeaderKeySize:     "Bytes of that key, -1 without one; what is not there was cut off.",
	deadletter.HeaderCount:       "How many headers the rejected record had; those with room are headers of this one.",
	kafkasource.FormatHeader:     "Version of this form of records: pass over a later one.",
	kafkasource.VersionHeader:    "Number of the version that is announced.",
}

const aboutTopics = "The topics that refitd run writes for other programs. Their names are those of the " +
	"configuration. Members of values in JSON are added over time and never renamed. Topics between processes of refitd " +
	"(shard.topic, shard.live_topic) are not described: what is in them changes with the program."

// topicsDocument makes the AsyncAPI document.
func topicsDocument(t *testing.T) (object, *schemas) {
	s := &schemas{t: t, prefix: "#/components/schemas/", components: map[string]object{},
		types: map[string]reflect.Type{}, used: map[string]bool{}}
	var channels, operations, messages object
	described := make(map[string]bool)
	for _, w := range writtenTopics(t) {
		var of object
		var refs []object
		for _, m := range w.messages {
			of.set(m.name, object{{"$ref", "#/components/messages/" + m.name}})
			refs = append(refs, object{{"$ref", "#/channels/" + w.id + "/messages/" + m.name}})
			messages.set(m.name, m.object(s, described))
		}
		kafka := object{{"bindingVersion", "0.5.0"}}
		if w.settings != nil {
			kafka.set("topicConfiguration", w.settings)
		}
		setting := strings.TrimPrefix(w.setting, "models.")
		channels.set(w.id, object{{"address", "{topic}"}, {"title", w.title}, {"description", w.about}, {"messages", of},
			{"parameters", object{{"topic", object{{"description", setting + " of the configuration."}}}}},
			{"bindings", object{{"kafka", kafka}}}})
		operations.set("send"+capital(w.id), object{{"action", "send"},
			{"channel", object{{"$ref", "#/channels/" + w.id}}}, {"summary", w.about}, {"messages", refs}})
	}
	for name := range headerTexts {
		if !described[name] {
			t.Errorf("no record has the header %s", name)
		}
	}
	var components object
	for _, name := range sorted(s.components) {
		components.set(name, s.components[name])
	}
	return object{{"asyncapi", "3.0.0"},
		{"info", object{{"title", "refitd"}, {"version", "1"}, {"description", aboutTopics},
			{"license", object{{"name", "MIT"}}}}},
		{"defaultContentType", "application/json"},
		{"servers", object{{"kafka", object{{"host", "127.0.0.1:9092"}, {"protocol", "kafka"},
			{"description", "kafka.bootstrap_servers of the configuration."}}}}},
		{"channels", channels}, {"operations", operations},
		{"components", object{{"messages", messages}, {"schemas", components}}}}, s
}

// object describes a message.
func (m *topicMessage) object(s *schemas, described map[string]bool) object {
	key := object{{"type", "string"}, {"description", sentence(capital(m.key))}}
	out := object{{"name", m.name}, {"title", capital(m.name)}, {"summary", m.summary}}
	if m.record != nil {
		var members object
		var names []string
		for _, h := range m.record.Headers {
			if headerTexts[h.Key] == "" {
				s.t.Errorf("the header %s is not described", h.Key)
			}
			described[h.Key] = true
			members.set(h.Key, object{{"type", "string"}, {"description", headerTexts[h.Key]}})
			names = append(names, h.Key)
		}
		headers := object{{"type", "object"}, {"properties", members}, {"required", names}}
		if m.others != "" {
			headers.set("patternProperties", object{{"^" + regexp.QuoteMeta(m.others), object{
				{"description", "A header of the rejected record, as it was, by its name behind " + m.others}}}})
		}
		out.set("headers", headers)
	}
	switch {
	case m.value != nil:
		out.set("contentType", m.media)
		out.set("payload", s.of(reflect.TypeOf(m.value), false))
	case m.media != "":
		out.set("contentType", m.media)
		out.set("payload", object{{"type", "string"}, {"format", "binary"}, {"description", sentence(capital(m.about))}})
	default:
		out.set("payload", object{{"type", "null"}, {"description", "A record without a value."}})
	}
	out.set("bindings", object{{"kafka", object{{"key", key}, {"bindingVersion", "0.5.0"}}}})
	return out
}

// TestAsyncAPI: configs/asyncapi.json describes the topics that refitd writes, all of them and no other. Each reference
// in it leads somewhere.
func TestAsyncAPI(t *testing.T) {
	doc, _ := topicsDocument(t)
	content := indented(t, doc)
	same(t, "asyncapi.json", content)
	var whole any
	if err := json.Unmarshal(content, &whole); err != nil {
		t.Fatal(err)
	}
	refs := 0
	eachRef(whole, func(ref string) {
		refs++
		at := whole
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			next, _ := at.(map[string]any)
			at = next[name]
		}
		if at == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	})
	if refs == 0 {
		t.Error("no references")
	}
	keys := slices.Concat(between, readTopics)
	for _, w := range writtenTopics(t) {
		keys = append(keys, w.setting)
	}
	var schema any
	if err := json.Unmarshal([]byte(configs.ConfigSchema), &schema); err != nil {
		t.Fatal(err)
	}
	found := topicKeys(schema, "")
	slices.Sort(keys)
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(keys, found) {
		t.Errorf("the configuration names topics by %q, described are %q", found, keys)
	}
}

// eachRef calls visit with each reference.
func eachRef(at any, visit func(ref string)) {
	switch at := at.(type) {
	case map[string]any:
		if ref, ok := at["$ref"].(string); ok {
			visit(ref)
		}
		for _, one := range at {
			eachRef(one, visit)
		}
	case []any:
		for _, one := range at {
			eachRef(one, visit)
		}
	}
}

// topicKeys returns the keys of a schema of the configuration that name one topic each.
func topicKeys(at any, path string) (keys []string) {
	switch at := at.(type) {
	case map[string]any:
		members, _ := at["properties"].(map[string]any)
		for name, one := range members {
			key := strings.TrimPrefix(path+"."+name, ".")
			if name == "topic" || strings.HasSuffix(name, "_topic") {
				keys = append(keys, key)
			}
			keys = append(keys, topicKeys(one, key)...)
		}
		for _, inner := range []string{"items", "anyOf", "oneOf", "allOf"} {
			keys = append(keys, topicKeys(at[inner], path)...)
		}
	case []any:
		for _, one := range at {
			keys = append(keys, topicKeys(one, path)...)
		}
	}
	return keys
}

// TestAnswersAreAsDescribed: an answer and a failure have no member that the document lacks, and all that are always
// there, where one that scores or refuses has them.
func TestAnswersAreAsDescribed(t *testing.T) {
	_, s := topicsDocument(t)
	members := s.components["Answer"].get("properties").(object)
	required := s.components["Answer"].get("required").([]string)
	propensity := report.Number(0.5)
	for _, a := range []scoring.Answer{
		{Timestamp: new(time.Unix(7, 0)), Score: &scoring.Score{Propensity: &propensity, Prediction: web.Prediction{}}},
		{Error: &scoring.Failure{Reason: "not_json"}},
	} {
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for name := range got {
			if members.get(name) == nil {
				t.Errorf("the member %s is not described", name)
			}
		}
		for _, name := range required {
			if got[name] == nil {
				t.Errorf("%s lacks %s, which is said to be always there", text, name)
			}
		}
	}
}
