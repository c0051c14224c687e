package daemon

import (
	"context"
	"sync"

	"github.com/refitd/refitd/daemon/announce"
	"github.com/refitd/refitd/daemon/cluster"
)

// newAnnouncers returns an announcer for each model with a topic for its champions.
func (d *Daemon) newAnnouncers(m *metrics) ([]*announce.Announcer, error) {
	var list []*announce.Announcer
	for _, u := range d.units {
		p := &u.config.Publish
		if p.Topic == "" {
			continue
		}
		kafka, err := cluster.ClientOptions(&d.config.Kafka)
		if err != nil {
			return nil, err
		}
		success, failure := m.announced.WithLabelValues(u.config.Name, "success"), m.announced.WithLabelValues(u.config.Name, "failure")
		list = append(list, announce.New(announce.Options{Kafka: kafka, Topic: p.Topic, Model: u.config.Name, Dir: p.Store, Store: u.versions.Store(),
			Inline: int64(p.InlineMax), Log: u.log, OnResult: func(err error) {
				if err != nil {
					failure.Inc()
				} else {
					success.Inc()
				}
			}}))
	}
	return list, nil
}

// announce runs the announcers until ctx is done. They outlive the models, so that the last version is announced, too.
func (d *Daemon) announce(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	for _, a := range d.announcers {
		wg.Go(func() { a.Run(ctx) })
	}
	return wg.Wait
}
