package objects

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// A kind of news that is waited for.
type kind int

const (
	aliases kind = iota
	deltas
	kinds
)

// round is how many polls there are for one that asks for an alias and for a delta in place of the head. A writer that
// is killed before it changes the head does so when it starts again; one that knows no head is found so.
const round = 15

const maxHeadBytes = 1024

// poll has what is known of the head of a model. Of those that wait, one asks for all.
type poll struct {
	tag    string
	absent bool          // no head can be read: each poll looks at all, and once a round for the head as well
	audit  bool          // an alias that changes now does so without the head
	number int64         // polls so far
	due    time.Time     // of the next one
	news   [kinds]int64  // counts what there may be news of
	turn   chan struct{} // closed once the one that asks has done so, nil while nobody does
}

func (s *Source) pollOf(model string) *poll {
	if s.polls == nil {
		s.polls = make(map[string]*poll)
	}
	if s.polls[model] == nil {
		s.polls[model] = &poll{}
	}
	return s.polls[model]
}

// news returns a number that is another one once a look at a kind may find what one now does not.
func (s *Source) news(model string, of kind) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pollOf(model).news[of]
}

// await waits until news are not those before any more.
func (s *Source) await(ctx context.Context, model string, of kind, before int64) error {
	for {
		s.mu.Lock()
		p := s.pollOf(model)
		if p.news[of] != before {
			s.mu.Unlock()
			return nil
		}
		turn, asks := p.turn, p.turn == nil
		if asks {
			p.turn = make(chan struct{})
			if now := time.Now(); !p.due.After(now) {
				p.due = now.Add(s.pause())
			}
		}
		due := time.Until(p.due)
		s.mu.Unlock()
		if !asks {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-turn:
			}
			continue
		}
		err := s.ask(ctx, model, p, due)
		s.mu.Lock()
		close(p.turn)
		p.turn = nil
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// pause returns the time to the next poll. There is a request more in a round than polls: so the mean is longer.
func (s *Source) pause() time.Duration {
	every := s.Every
	if every <= 0 {
		every = pollEvery
	}
	return every - every/10 + rand.N(2*every/5+1)
}

// ask waits until a poll is due and carries it out. Only one does at a time.
func (s *Source) ask(ctx context.Context, model string, p *poll, due time.Duration) error {
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.number++
	p.audit = p.number%round == 0 && !p.absent
	switch {
	case p.audit:
		p.all()
		return nil
	case p.absent:
		defer p.all()
		if p.number%round != 0 {
			return nil
		}
	}
	before := p.tag
	s.mu.Unlock()
	_, tag, err := s.Bucket.Get(ctx, model+"/"+disk.HeadFile, before, maxHeadBytes)
	s.mu.Lock()
	switch {
	case ctx.Err() != nil: // says nothing of the head
	case err != nil: // what keeps all from being read is said of the alias
		p.absent, p.tag = true, ""
		p.all()
	case tag != before:
		p.absent, p.tag = false, tag
		p.all()
	}
	return ctx.Err()
}

// unannounced notes that an alias has changed, if the head did not say so. The next poll asks for the head again.
func (p *poll) unannounced() {
	if p.audit {
		p.audit, p.absent, p.number = false, true, -1
	}
}

// all says that there may be news of everything.
func (p *poll) all() {
	for k := range p.news {
		p.news[k]++
	}
}
