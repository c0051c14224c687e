package formats

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/consumer/registry"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
)

// maxSchemas bounds the schemas of writers that one model knows, and maxSchemasBytes what they have as the state stores
// them.
const (
	maxSchemas      = 1000
	maxSchemasBytes = 1 << 20
)

// Schemas are those by which the records of a model were written: those of its state, and what a registry adds to
// them. They are safe for concurrent use.
type Schemas struct {
	mu       sync.Mutex
	known    map[framing.ID]*knownSchema
	bytes    int          // of known, as the state stores them
	fresh    []framing.ID // known and not in a part yet, in the order in which they were needed
	registry *registry.Client
	silent   time.Time             // until when a registry that cannot be reached is not waited for
	looked   time.Time             // when compareOne looked last
	lost     map[string]framing.ID // fields of the model that a schema loses, with the last such schema
	lose     func(id framing.ID, field string)
	waits    string                                // for which schema a partition waits, and why; "" if none does
	changes  atomic.Pointer[map[framing.ID]string] // of Changed; nil before the first one
}

// NewSchemas returns the schemas that a state has.
func NewSchemas(store *sketch.Store) (*Schemas, error) {
	s := &Schemas{known: make(map[framing.ID]*knownSchema)}
	return s, s.Load(store)
}

// Load adds the schemas that a state has got since, as one that has taken the place of another.
func (s *Schemas) Load(store *sketch.Store) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Schemas(func(one sketch.Schema) error {
		id := idOf(one.Key)
		if s.known[id] != nil {
			return nil
		}
		var w event.Writer
		if err := json.Unmarshal(one.Value, &w); err != nil {
			return fmt.Errorf("ingest: schema at key %x of the state: %w", one.Key, err)
		}
		s.known[id] = &knownSchema{writer: &w}
		s.bytes += len(one.Value)
		return nil
	})
}

// Writer implements event.Writers.
func (s *Schemas) Writer(id framing.ID) *event.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[id]; k != nil {
		if k.used = true; k.asked.IsZero() && !s.confirm(id, k, compareEvery) {
			return nil
		}
		if k.changed != "" { // found out just now
			s.waits = k.changed
			return nil
		}
		return k.writer
	}
	switch {
	case s.registry == nil:
		s.waits = id.String() + " is not in the state, and no registry is asked"
		return nil
	case len(s.known) >= maxSchemas:
		s.waits = fmt.Sprintf("%s is one more than the %d that a model may have", id, maxSchemas)
		return nil
	}
	w, trouble := s.registry.Ask(id)
	if w == nil {
		if trouble == "" {
			trouble = noAnswer
		}
		s.waits = id.String() + " of " + s.registry.URL() + ": " + trouble
		return nil
	}
	b, _ := json.Marshal(w)
	switch {
	case len(b) > sketch.MaxSchemaBytes:
		s.waits = fmt.Sprintf("%s has more than %d bytes with what it refers to", id, sketch.MaxSchemaBytes)
		return nil
	case s.bytes+len(b) > maxSchemasBytes:
		s.waits = fmt.Sprintf("%s has %d bytes, and the %d that the model knows have %d, of at most %d: begin with a new "+
			"state, which learns only the schemas that its log has, or read some of the topics by another model", id, len(b),
			len(s.known), s.bytes, maxSchemasBytes)
		return nil
	}
	s.bytes += len(b)
	s.known[id], s.waits = &knownSchema{writer: w, used: true, asked: time.Now()}, ""
	s.fresh = append(s.fresh, id)
	return w
}

// noAnswer is the trouble of a schema that was just asked for.
const noAnswer = "no answer yet"

// TakeFresh returns those that are not in the state yet, for the next part.
func (s *Schemas) TakeFresh() (list []sketch.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.fresh {
		value, err := json.Marshal(s.known[id].writer)
		if err != nil {
			panic(err) // text and names
		}
		list = append(list, sketch.Schema{Key: keyOf(id), Value: value})
	}
	s.fresh = s.fresh[:0]
	return list
}

// Trouble says for which schema a partition waits, and why; "" if none does.
func (s *Schemas) Trouble() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits
}

// Known returns how many schemas are known, and how many requests were sent and failed.
func (s *Schemas) Known() (n int, requests, failures int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registry != nil {
		requests, failures = s.registry.Counts()
	}
	return len(s.known), requests, failures
}

// OnLost has log called, once for each, with the schemas that have nothing, or another type, for a field of the model.
func (s *Schemas) OnLost(log func(id framing.ID, field string)) {
	if s != nil {
		s.lose = log
	}
}

// loses notes that a schema has nothing, or another type, for a field.
func (s *Schemas) loses(id framing.ID, field string) {
	s.mu.Lock()
	old, known := s.lost[field]
	if s.lost == nil {
		s.lost = make(map[string]framing.ID)
	}
	s.lost[field] = id
	s.mu.Unlock()
	if s.lose != nil && (!known || old != id) {
		s.lose(id, field)
	}
}

// Lost returns the fields of the model for which a schema has nothing, or another type, with the last such schema.
func (s *Schemas) Lost() map[string]framing.ID {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lost)
}

// Arrived notes that no record waits any more.
func (s *Schemas) Arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compareOne()
	s.waits = ""
}

// keyOf returns an ID as a key of the state, and idOf the ID of a key.
func keyOf(id framing.ID) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(id.Kind)}, id.Number), id.GUID[:]...)
}

func idOf(key []byte) (id framing.ID) {
	if len(key) == 1+8+len(id.GUID) {
		id = framing.ID{Kind: framing.IDKind(key[0]), Number: binary.BigEndian.Uint64(key[1:]), GUID: [16]byte(key[9:])}
	}
	return id
}

// CopySchemas stores the schemas of one state in another, into which its records are read again.
func CopySchemas(to, from *sketch.Store) error {
	var list []sketch.Schema
	err := from.Schemas(func(s sketch.Schema) error {
		list = append(list, sketch.Schema{Key: slices.Clone(s.Key), Value: slices.Clone(s.Value)})
		return nil
	})
	if err != nil || len(list) == 0 {
		return err
	}
	return to.AddSchemas(list)
}

// OpenSchemas returns the schemas of a model's records, with the registry of the configuration behind those that the
// state has; nil where records are JSON. They end with Close. store may be nil.
func OpenSchemas(k *config.Kafka, m *config.Model, store *sketch.Store) (*Schemas, error) {
	if !m.IsFramed() {
		return nil, nil
	}
	s := &Schemas{known: make(map[framing.ID]*knownSchema)}
	if store != nil {
		var err error
		if s, err = NewSchemas(store); err != nil {
			return nil, err
		}
	}
	if !m.Input.FromRegistry && !slices.ContainsFunc(m.Tables, func(t config.Table) bool { return t.FromRegistry }) {
		return s, nil
	}
	var err error
	s.registry, err = NewRegistry(k)
	return s, err
}

// Close ends what is asked.
func (s *Schemas) Close() {
	if s != nil && s.registry != nil {
		s.registry.Close()
	}
}

// Fetch waits for a schema until ctx is done, or until the registry has failed once.
func (s *Schemas) Fetch(ctx context.Context, id framing.ID) error {
	const every = 10 * time.Millisecond
	for {
		if s.Writer(id) != nil {
			return nil
		}
		if why := s.Trouble(); !strings.HasSuffix(why, noAnswer) {
			return fmt.Errorf("%w: %s", ErrWaits, why)
		}
		if err := backoff.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// NewRegistry returns a client of the registry of a configuration, which ends with Close. The error has exit code 2.
func NewRegistry(k *config.Kafka) (*registry.Client, error) {
	r := &k.SchemaRegistry
	o := registry.Options{URL: r.URL, Timeout: r.Timeout.Std(), MaxBytes: sketch.MaxSchemaBytes}
	o.BasicAuth, o.Token = r.Secrets()
	var err error
	if o.TLS, err = r.Client(); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "kafka.schema_registry.tls"}
	}
	return registry.New(o), nil
}

// ErrWaits is why a record cannot be read where nobody can be asked.
var ErrWaits = errors.New("its schema is not known")
