package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	beatsPerSession = 6                // heartbeats of this process in a row after which another one is silent that had none between them
	beatRetention   = time.Hour        // of heartbeats in the topic of the group; a process needs those of one session
	beatSegment     = 10 * time.Minute // segments of that topic are no longer, else nothing is deleted for a week
)

// A detector finds out which processes of a group have died, sooner than brokers do, whose least session is 6 s unless they are told otherwise: each process
// writes heartbeats into the group's topic and reads those of the others. Of six of its own in a row that come back, each sent when the one before was
// acknowledged, another process has one in between, or it is silent: so nobody is taken for dead while the brokers or this process are slow. A silent one is
// taken out of the group, and the brokers divide its shards at once. One that lives in spite of that joins again; nothing depends on its being dead.
type detector struct {
	group   string // and its topic
	session time.Duration
	connect []kgo.Opt
	id      func() string // of this process in the group; empty while it has none
	log     *slog.Logger

	others map[string]*heard // by their ids
}

// heard is what a process has told.
type heard struct {
	beat
	missed int // of this process's beats since
}

// A beat is a heartbeat: the value of a record whose key is the id of a process in the group.
type beat struct {
	Host    string  `json:"host"`
	Session float64 `json:"session_seconds"`
}

// every is how long after a heartbeat the next one is due.
func (d *detector) every() time.Duration { return d.session / beatsPerSession }

// run watches the group until ctx is done.
func (d *detector) run(ctx context.Context) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{d.group: {0: kgo.NewOffset().AtEnd()}}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(max(time.Second, d.session)),
		kgo.MetadataMinAge(250 * time.Millisecond)}, d.connect...)...)
	if err != nil {
		d.log.Warn("heartbeats are not told: brokers alone find out who has died", "group", d.group, "error", err)
		return
	}
	defer client.Close()
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.tell(ctx, client)
	}()
	for failing := false; ctx.Err() == nil; {
		fetches := client.PollFetches(ctx)
		err := fetches.Err()
		if err != nil && !failing && ctx.Err() == nil {
			d.log.Warn("heartbeats are not read: brokers alone find out who has died", "group", d.group, "error", err)
		}
		if failing = err != nil; failing { // where it is not allowed the client asks again without a pause
			_ = backoff.Sleep(ctx, d.every())
		}
		fetches.EachRecord(func(rec *kgo.Record) { d.hear(ctx, client, rec) })
	}
	<-told
}

// tell writes heartbeats until ctx is done.
func (d *detector) tell(ctx context.Context, client *kgo.Client) {
	value, _ := json.Marshal(beat{Host: hostName(), Session: d.session.Seconds()}) // of a string and a finite number
	tick := time.NewTicker(d.every())
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := d.id()
		if id == "" {
			continue
		}
		err := client.ProduceSync(ctx, &kgo.Record{Topic: d.group, Key: []byte(id), Value: value}).FirstErr()
		if err != nil && !failing && ctx.Err() == nil {
			d.log.Warn("heartbeats are not told: brokers alone find out who has died", "group", d.group, "error", err)
		}
		failing = err != nil
	}
}

// hear takes up a heartbeat, and takes processes out of the group that have been silent up to it.
func (d *detector) hear(ctx context.Context, client *kgo.Client, rec *kgo.Record) {
	id, b := string(rec.Key), beat{}
	switch err := json.Unmarshal(rec.Value, &b); {
	case id == d.id():
		for other, h := range d.others {
			if h.missed++; float64(h.missed) >= beatsPerSession*max(1, h.Session/d.session.Seconds()) {
				delete(d.others, other)
				d.remove(ctx, client, other, h)
			}
		}
	case err == nil:
		d.others[id] = &heard{beat: b}
	}
}

func (d *detector) remove(ctx context.Context, client *kgo.Client, id string, h *heard) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	was, err := removeMember(ctx, client, d.group, id)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled), err == nil && !was: // this process ends; that one has left, or another has seen it first
	case err != nil:
		d.log.Warn("a silent process cannot be taken out of the group: its shards wait for the brokers", "group", d.group, "host", h.Host, "error", err)
	default:
		d.log.Warn("a process of the group is silent: others have its shards", "group", d.group, "host", h.Host, "member", id,
			"seconds", float64(h.missed)*d.every().Seconds())
	}
}

// removeMember takes a member out of a group, by a client that need not be a member, and reports whether it was one. It must have no name of its own.
func removeMember(ctx context.Context, client *kgo.Client, group, id string) (bool, error) {
	leaver := kmsg.NewLeaveGroupRequestMember()
	leaver.MemberID = id
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID, req.Members = group, id, []kmsg.LeaveGroupRequestMember{leaver}
	answer, err := req.RequestWith(ctx, client)
	if err != nil {
		return false, err
	}
	codes := []int16{answer.ErrorCode}
	for _, m := range answer.Members {
		codes = append(codes, m.ErrorCode)
	}
	for _, code := range codes {
		switch err := kerr.ErrorForCode(code); {
		case errors.Is(err, kerr.UnknownMemberID):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("group %s: %w", group, err)
		}
	}
	return true, nil
}
