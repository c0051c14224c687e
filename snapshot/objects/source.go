package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// Reader is what a Source needs of a bucket: see publish.Bucket.
type Reader interface {
	Get(ctx context.Context, key, unless string, limit int64) (content []byte, tag string, err error)
}

// Source follows a bucket: one conditional GET of one object a poll, and no list of keys. It is not trusted, as every
// snapshot.Source. All that wait for news of a model share its polls.
type Source struct {
	Bucket Reader
	// Every is a time with one request in the mean; 0 is 2 s. A pause is drawn from 0.9 to 1.3 of it, so that many readers
	// spread.
	Every time.Duration

	mu    sync.Mutex
	seen  map[string]seen  // aliases, by key
	polls map[string]*poll // by model
}

type seen struct {
	tag     string
	pointer pointer.Pointer
}

const (
	pollEvery     = 2 * time.Second
	maxAliasBytes = 2 * pointer.MaxAliasBytes
	maxFileBytes  = 1 << 30
	maxDelta      = 2 * format.MaxDeltaBytes
)

// Wait asks for an alias, and again with each news until it is another one than last.
func (s *Source) Wait(ctx context.Context, model, alias string, last pointer.Pointer) (pointer.Pointer, error) {
	for {
		before := s.news(model, aliases)
		p, err := s.look(ctx, model, alias)
		if err != nil || !p.Unchanged(&last) {
			return p, err
		}
		if err := s.await(ctx, model, aliases, before); err != nil {
			return pointer.Pointer{}, err
		}
	}
}

func (s *Source) look(ctx context.Context, model, alias string) (pointer.Pointer, error) {
	key := model + "/aliases/" + alias
	s.mu.Lock()
	before := s.seen[key]
	s.mu.Unlock()
	b, tag, err := s.Bucket.Get(ctx, key, before.tag, maxAliasBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pointer.Pointer{}, fmt.Errorf("%w: no alias %s: %w", snapshot.ErrNotFound, alias, err)
	case err != nil:
		return pointer.Pointer{}, err
	case tag == before.tag:
		return before.pointer, nil
	}
	p, err := pointer.DecodeObject(alias, b)
	if err != nil {
		return pointer.Pointer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]seen)
	}
	if before.tag != "" {
		s.pollOf(model).unannounced()
	}
	s.seen[key] = seen{tag, p}
	return p, nil
}

// File downloads a file of a version.
func (s *Source) File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrInvalid)
	}
	b, _, err := s.Bucket.Get(ctx, model+"/"+strconv.FormatInt(version, 10)+"/"+name, "", maxFileBytes)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Deltas asks for the next delta of a version, and again with each news until it is there.
func (s *Source) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	key := fmt.Sprintf("%s/%d/deltas/%012d.seg", model, version, after+1)
	for {
		before := s.news(model, deltas)
		b, _, err := s.Bucket.Get(ctx, key, "", maxDelta)
		if err == nil {
			return io.NopCloser(bytes.NewReader(b)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := s.await(ctx, model, deltas, before); err != nil {
			return nil, err
		}
	}
}
