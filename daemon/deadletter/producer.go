package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/sketch"
)

// producer is a client that is made when it is needed, and anew after each failure: an idempotent producer whose last request has no known
// end can neither go on nor give up.
type producer struct {
	options []kgo.Opt
	timeout time.Duration // of one call of send
	client  *kgo.Client
}

// send returns the dead letters that were acknowledged, and the first error of the others.
func (p *producer) send(ctx context.Context, model string, letters []sketch.DeadLetter) (acknowledged []sketch.DeadLetter, err error) {
	if p.client == nil {
		if p.client, err = kgo.NewClient(p.options...); err != nil {
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
	records := make([]*kgo.Record, len(letters))
	position := make(map[*kgo.Record]int, len(letters))
	for i := range letters {
		records[i] = Envelope(model, &letters[i])
		position[records[i]] = i
	}
	for _, r := range client.ProduceSync(ctx, records...) {
		if r.Err == nil {
			acknowledged = append(acknowledged, letters[position[r.Record]])
		} else if err == nil {
			err = r.Err
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		p.close()
	}
	return acknowledged, err
}

func (p *producer) close() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}
