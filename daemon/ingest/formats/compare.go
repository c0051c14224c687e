package formats

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/consumer/event/protobuf"
)

// A schema of the state is compared with the registry's text of the same ID: before the first record after a start that
// needs it, then once an hour, and when bytes do not fit it. A registry that is made anew gives its IDs out again, and
// bytes of another schema may look like values. One that does not answer changes nothing.
const (
	compareEvery = time.Hour
	doubtEvery   = time.Minute // least time between two comparisons because bytes do not fit
	unheard      = time.Minute // for which a registry that cannot be reached is not waited for again
)

// knownSchema is a schema of the state, or one on its way there.
type knownSchema struct {
	writer  *event.Writer
	used    bool      // by a record since the start
	asked   time.Time // when it was compared last, or was to be; zero for not since the start
	changed string    // what is different at the registry; "" for nothing
}

// confirm reports whether nothing is to be waited for before a schema is used: the registry has the same text, or does
// not say. The caller holds mu.
func (s *Schemas) confirm(id framing.ID, k *knownSchema, every time.Duration) bool {
	now := time.Now()
	if s.registry == nil || k.changed != "" || !k.asked.IsZero() && now.Sub(k.asked) < every || now.Before(s.silent) {
		return true
	}
	w, trouble := s.registry.Ask(id)
	switch {
	case w != nil:
		k.asked = now
		if what := difference(k.writer, w); what != "" {
			k.changed = fmt.Sprintf("%s of %s is not the schema that the state has by this ID, and by which earlier records "+
				"were read: %s. Either the registry was made anew, or kafka.schema_registry.url names another one: restore the "+
				"schemas of the old one and restart, or begin with a new state", id, s.registry.URL(), what)
			s.publishChanges()
		}
	case trouble != "":
		k.asked = now
		s.registry.Forget(id)
		if s.registry.IsAway() {
			s.silent = now.Add(unheard)
		}
	default:
		s.waits = id.String() + " is being compared with that of " + s.registry.URL()
		return false
	}
	return true
}

// Doubt reports whether a record whose bytes do not fit its schema has to wait: the registry is asked whether it still
// has the same text.
func (s *Schemas) Doubt(id framing.ID) (wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[id]
	return k != nil && !s.confirm(id, k, doubtEvery)
}

// Changed says why records of a schema are not to be read any more, "" if they are.
func (s *Schemas) Changed(id framing.ID) string {
	if all := s.changes.Load(); all != nil {
		return (*all)[id]
	}
	return ""
}

// publishChanges has Changed know. The caller holds mu.
func (s *Schemas) publishChanges() {
	all := make(map[framing.ID]string)
	for id, k := range s.known {
		if k.changed != "" {
			all[id] = k.changed
		}
	}
	s.changes.Store(&all)
}

// compareOne asks for one schema whose turn it is, without anything that waits for it. The caller holds mu.
func (s *Schemas) compareOne() {
	if s.registry == nil || time.Since(s.looked) < time.Second {
		return
	}
	s.looked = time.Now()
	var oldest framing.ID
	var of *knownSchema
	for id, k := range s.known {
		if k.used && k.changed == "" && (of == nil || k.asked.Before(of.asked)) {
			oldest, of = id, k
		}
	}
	if of != nil {
		s.confirm(oldest, of, compareEvery)
	}
}

// difference says in which way two schemas differ, "" if they mean the same: spaces, the order of members in JSON, and
// how a .proto is written out do not count.
func difference(a, b *event.Writer) string {
	switch {
	case a.Format != b.Format:
		return a.Format + " became " + b.Format
	case a.Text == b.Text && slices.Equal(a.References, b.References):
		return ""
	case a.Format == event.FormatProtobuf && sameFiles(a, b):
		return ""
	case a.Format != event.FormatProtobuf && sameJSON(a.Text, b.Text) &&
		slices.EqualFunc(a.References, b.References, func(x, y event.Reference) bool {
			return x.Name == y.Name && sameJSON(x.Text, y.Text)
		}):
		return ""
	}
	return fmt.Sprintf("the SHA-256 of the text was %s and is %s", digestOf(a), digestOf(b))
}

// digestOf returns the beginning of the digest of a schema with what it refers to.
func digestOf(w *event.Writer) string {
	h := sha256.New()
	h.Write([]byte(w.Text))
	for _, r := range w.References {
		fmt.Fprintf(h, "\x00%s\x00%s", r.Name, r.Text)
	}
	return fmt.Sprintf("%.12x", h.Sum(nil))
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// sameFiles reports whether two schemas in Protobuf describe the same files.
func sameFiles(a, b *event.Writer) bool {
	x, err := protobuf.Describe(a)
	if err != nil {
		return false
	}
	y, err := protobuf.Describe(b)
	return err == nil && sameFile(x, y, 0)
}

func sameFile(x, y protoreflect.FileDescriptor, depth int) bool {
	if depth > maxImports || x.Imports().Len() != y.Imports().Len() {
		return false
	}
	p, q := protodesc.ToFileDescriptorProto(x), protodesc.ToFileDescriptorProto(y)
	p.SourceCodeInfo, q.SourceCodeInfo = nil, nil
	if !proto.Equal(p, q) {
		return false
	}
	for i := range x.Imports().Len() {
		if !sameFile(x.Imports().Get(i).FileDescriptor, y.Imports().Get(i).FileDescriptor, depth+1) {
			return false
		}
	}
	return true
}

// maxImports bounds how deep files are compared. Files cannot import themselves.
const maxImports = 32
