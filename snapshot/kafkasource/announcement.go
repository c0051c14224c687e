package kafkasource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Format is the version of the record's value. A reader passes over records of a later one.
const Format = 1

// The headers of a record, so that it can be chosen without reading the value: the format, and the version announced.
const (
	FormatHeader  = "refitd-format"
	VersionHeader = "refitd-version"
)

// maxValueBytes bounds a record that is read: the files of the largest inline_max, 64 MiB, in base64, and the other
// members.
const maxValueBytes = 90 << 20

// ErrRecord means that a record of the topic is not an announcement.
var ErrRecord = errors.New("no announcement")

// Announcement is the value of a record. It contains what an alias says as the alias file does, signature included.
type Announcement struct {
	Model  string `json:"model"`
	Alias  string `json:"alias"`  // champion
	Digest string `json:"digest"` // payload digest of the version
	snapshot.Pointer
	Summary Summary       `json:"summary"`
	Files   []format.File `json:"files"` // with size and digest
	// every file of the version by name, manifest and signature included, but not cut.json; or none
	Inline map[string][]byte `json:"inline,omitempty"`
}

// Summary is what a consumer wants to know of a version before it loads it; the manifest has the whole.
type Summary struct {
	Kind        string          `json:"kind"` // refit or update
	Created     time.Time       `json:"created"`
	Expires     time.Time       `json:"expires,omitzero"`
	Watermark   time.Time       `json:"event_time_watermark,omitzero"`
	Decision    string          `json:"decision"`
	Reason      string          `json:"reason"`
	NumFeatures int             `json:"features"`
	NumOutputs  int             `json:"outputs"`
	NumBasis    int             `json:"k"`
	GapRelative *format.Number  `json:"gap_relative"`
	GapKind     string          `json:"gap_kind,omitempty"`
	Gate        *format.Metrics `json:"gate"`
}

// Announce returns the announcement of a version that an alias names.
func Announce(alias string, p snapshot.Pointer, m *snapshot.Manifest) *Announcement {
	return &Announcement{
		Model:   m.Model,
		Alias:   alias,
		Digest:  m.PayloadDigest,
		Pointer: p,
		Files:   m.ReadFiles(),
		Summary: Summary{Kind: m.Kind,
			Created: m.Created, Expires: m.Expires, Watermark: m.Watermark, Decision: m.Decision, Reason: m.Reason,
			NumFeatures: m.NumFeatures,
			NumOutputs:  m.NumOutputs, NumBasis: m.NumBasis, GapRelative: m.GapRelative, GapKind: m.GapKind, Gate: m.Gate},
	}
}

// Record returns the record for a topic.
func (a *Announcement) Record(topic string) (*kgo.Record, error) {
	value, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("kafkasource: %w", err)
	}
	return &kgo.Record{Topic: topic, Key: []byte(a.Model), Value: value, Headers: []kgo.RecordHeader{
		{
			Key:   FormatHeader,
			Value: strconv.AppendInt(nil, Format, 10),
		}, {Key: VersionHeader, Value: strconv.AppendInt(nil, a.Version, 10)}}}, nil
}

// Read returns the announcement of a record, or ErrRecord. The digest over what the alias says is checked, its
// signature is not: that is for snapshot.Watch, which knows the keys.
func Read(r *kgo.Record) (*Announcement, error) {
	format := ""
	for _, h := range r.Headers {
		if h.Key == FormatHeader {
			format = string(h.Value)
		}
	}
	if format != strconv.Itoa(Format) {
		return nil, fmt.Errorf("kafkasource: %w: format %q, this build reads %d", ErrRecord, format, Format)
	}
	if len(r.Value) > maxValueBytes {
		return nil, fmt.Errorf("kafkasource: %w: %d bytes, at most %d are read", ErrRecord, len(r.Value), maxValueBytes)
	}
	var a Announcement
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return nil, fmt.Errorf("kafkasource: %w: %w", ErrRecord, err)
	}
	if a.Model != string(r.Key) {
		return nil, fmt.Errorf("kafkasource: %w: the key is %q, the model %q", ErrRecord, r.Key, a.Model)
	}
	if err := a.Verify(a.Model, a.Alias, nil); err != nil {
		return nil, fmt.Errorf("kafkasource: %w: %w", ErrRecord, err)
	}
	return &a, nil
}
