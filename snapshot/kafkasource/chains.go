package kafkasource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxHeldBytes bounds the deltas that a Source keeps, of all models together: what was not taken back.
const maxHeldBytes = 1 << 30

// maxStreamBytes is how much of a chain is handed out at a time, unless one delta is larger.
const maxStreamBytes = 16 << 20

// chains are the deltas of a topic, as far as they were not taken back.
type chains struct {
	frames map[chainKey]map[int64]held // by sequence
	keys   map[string]deltaKey         // by the keys of their records
	bytes  int64
}

// held is a delta with the key of its record: a publisher that begins another lineage may send one again.
type held struct {
	key   string
	frame []byte
}

type chainKey struct {
	model   string
	version int64
}

type deltaKey struct {
	chain    chainKey
	sequence int64
}

func newChains() chains {
	return chains{frames: make(map[chainKey]map[int64]held), keys: make(map[string]deltaKey)}
}

// drop forgets what the record with a key held, unless that of another key has replaced it.
func (c *chains) drop(key string) {
	at, ok := c.keys[key]
	if !ok {
		return
	}
	delete(c.keys, key)
	frames := c.frames[at.chain]
	if frames[at.sequence].key != key {
		return
	}
	c.bytes -= int64(len(frames[at.sequence].frame))
	if delete(frames, at.sequence); len(frames) == 0 {
		delete(c.frames, at.chain)
	}
}

// takeDelta keeps a delta, or forgets one that is taken back. The caller holds mu.
func (s *Source) takeDelta(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	key := string(r.Key)
	if r.Value == nil {
		s.chains.drop(key)
		return
	}
	d, err := format.DecodeDeltaHeader(r.Value, s.trust.Keys)
	switch {
	case err != nil:
	case !strings.HasPrefix(key, d.Model+"/") || !strings.HasSuffix(key, "/"+strconv.FormatInt(d.Base, 10)+"/"+
		strconv.FormatInt(d.Sequence, 10)):
		err = fmt.Errorf("%w: its key is %q, it is delta %d of version %d of %s", ErrRecord, key, d.Sequence, d.Base,
			d.Model)
	case s.chains.bytes+int64(len(r.Value)) > maxHeldBytes:
		err = errors.New("the deltas of the topic take more than 1 GiB")
	}
	if err != nil {
		s.ignore("delta skipped", r, err)
		return
	}
	at := deltaKey{chainKey{d.Model, d.Base}, d.Sequence}
	s.chains.drop(key)
	s.chains.drop(s.chains.frames[at.chain][at.sequence].key)
	if s.chains.frames[at.chain] == nil {
		s.chains.frames[at.chain] = make(map[int64]held)
	}
	s.chains.frames[at.chain][at.sequence] = held{key, r.Value}
	s.chains.keys[key], s.chains.bytes = at, s.chains.bytes+int64(len(r.Value))
}

// after returns the deltas of a chain that follow one without a gap, nil if none follows, and whether others follow a
// gap.
func (c *chains) after(of chainKey, sequence int64) (stream io.ReadCloser, gap bool) {
	frames := c.frames[of]
	var list []io.Reader
	for size := 0; size < maxStreamBytes; sequence++ {
		next, ok := frames[sequence+1]
		if !ok {
			break
		}
		list, size = append(list, bytes.NewReader(next.frame)), size+len(next.frame)
	}
	if len(list) > 0 {
		return io.NopCloser(io.MultiReader(list...)), false
	}
	for other := range frames {
		gap = gap || other > sequence
	}
	return nil, gap
}

// Deltas returns the deltas of a version that the topic has, and waits for the next one. Those of a version that is no
// champion any more are taken back. It returns snapshot.ErrChain if the next one is missing and later ones are there.
func (s *Source) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	if s.deltas == "" {
		if source, ok := s.files.(snapshot.DeltaSource); ok {
			return source.Deltas(ctx, model, version, after)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for {
		s.mu.Lock()
		stream, gap := s.chains.after(chainKey{model, version}, after)
		caught, changed := s.caught, s.changed
		s.mu.Unlock()
		switch {
		case stream != nil:
			return stream, nil
		case gap && caught:
			return nil, fmt.Errorf(
				"kafkasource: %w: delta %d of version %d of %s is not in the topic %s, and later ones are",
				snapshot.ErrChain, after+1, version, model, s.deltas)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}
