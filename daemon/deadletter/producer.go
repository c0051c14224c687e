package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
)

// producer is a client that is made when it is needed, and anew after each failure: an idempotent producer whose last
// request has no known end can neither continue nor give up.
type producer struct {
	*Options
	connect []kgo.Opt
	timeout time.Duration // of one call of send
	client  *kgo.Client
}

// send returns the dead letters that were acknowledged, and the first error of the others.
func (p *producer) send(ctx context.Context,
	letters []sketch.DeadLetter) (acknowledged []sketch.DeadLetter, err error) {
	fresh := p.client == nil
	if fresh {
		if p.client, err = produce.NewClient(p.connect...); err != nil {
			return nil, fmt.Errorf("deadletter: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	client, closed := p.client, make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // ends a record whose answer never comes
		defer close(closed)
		client.Close()
	})
	defer func() {
		if !stop() {
			<-closed
			p.client = nil
		}
	}()
	if fresh {
		if err := p.ensure(ctx); err != nil {
			return nil, err
		}
	}
	records := make([]*kgo.Record, len(letters))
	position := make(map[*kgo.Record]int, len(letters))
	for i := range letters {
		records[i] = Envelope(p.Model, &letters[i])
		position[records[i]] = i
	}
	for _, r := range client.ProduceSync(ctx, records...) {
		if r.Err == nil {
			acknowledged = append(acknowledged, letters[position[r.Record]])
		} else if err == nil {
			err = r.Err
		}
	}
	return acknowledged, p.failed(ctx, err)
}

// ensure makes the topic if it is missing.
func (p *producer) ensure(ctx context.Context) error {
	created, err := produce.Ensure(ctx, p.client, p.Topic, 1, nil)
	if created {
		p.Log.Info("topic created", "topic", p.Topic)
	}
	return p.failed(ctx, err)
}

// failed ends the client if err is not nil and returns err, with why ctx is done.
func (p *producer) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	p.close()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func (p *producer) close() { produce.Close(&p.client) }
