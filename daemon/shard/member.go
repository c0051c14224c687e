package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	leaveTimeout = 3 * time.Second        // bounds the wait for the brokers when a member leaves its group
	leaveAlone   = 500 * time.Millisecond // of that, for the client that is the member
)

// A member is a trainer's place in the group that decides which of several trains: the one that the merge topic's
// partition is assigned to. Nothing is read and no offset is committed by it. It is no static member: one that ends
// leaves the group, and another has the partition at once; one that is started again is there in time anyhow.
type member struct {
	group, topic string
	session      time.Duration
	connect      []kgo.Opt
	log          *slog.Logger
	changed      func() // called when the partition was given or taken

	mu     sync.Mutex // guards what follows
	holds  bool
	number int64 // raised each time that another member may have had the partition
	// when the last request was sent that the group answered; of the monotonic clock, which advances while a process is
	// stopped
	confirmed time.Time
	joined    bool
	failing   outage
}

// An outage is why a group cannot be joined.
type outage struct {
	text  string // empty where it can
	since time.Time
}

// note takes down an error, which the log has once.
func (o *outage) note(log *slog.Logger, group string, err error) {
	if o.text == "" {
		o.since = time.Now()
		log.Warn("group cannot be joined: tried again until it can", "group", group, "error", err)
	}
	o.text = fmt.Sprintf("shard: group %s: %v", group, err)
}

// lasting returns the text if it is so for a session, else "": a place that was given up while the process was paused
// is there again at once.
func (o *outage) lasting(session time.Duration) string {
	if time.Since(o.since) < session {
		return ""
	}
	return o.text
}

// groupOf is the group of the trainers of a merge topic.
func groupOf(topic string) string { return topic + "-trainer" }

// lease is how long an answer of the group counts. The brokers give the partition to another member after a session
// without a request, and they have had one no earlier than it was sent; the rest is for ending what is under way.
func (m *member) lease() time.Duration { return m.session * 9 / 10 }

// run is a member of the group until ctx is done.
func (m *member) run(ctx context.Context) error {
	given := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		m.assigned(len(partitions[m.topic]) > 0)
	}
	taken := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		m.revoked(len(partitions[m.topic]) > 0)
	}
	clientCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	client, err := kgo.NewClient(
		append(
			[]kgo.Opt{
				kgo.WithContext(clientCtx),
				kgo.ConsumerGroup(m.group),
				kgo.ConsumeTopics(m.topic),
				kgo.DisableAutoCommit(),
				kgo.Balancers(kgo.CooperativeStickyBalancer()),
				kgo.SessionTimeout(m.session),
				kgo.RebalanceTimeout(m.session),
				kgo.HeartbeatInterval(m.session / 6),
				kgo.MetadataMinAge(250 * time.Millisecond),
				kgo.OnPartitionsAssigned(given),
				kgo.OnPartitionsRevoked(taken),
				kgo.OnPartitionsLost(taken),
				kgo.WithHooks((*answers)(m)),
			},
			m.connect...)...)
	if err != nil {
		return fmt.Errorf("shard: group %s: %w", m.group, err)
	}
	client.PauseFetchTopics(m.topic)
	<-ctx.Done()
	if err := leaveGroup(ctx, client, cut, m.group, "", m.connect); err != nil {
		m.log.Warn("group of the trainers not left",
			"note", "the others wait for shard.standby", "group", m.group, "error", err)
	}
	m.revoked(true)
	return nil
}

// leaveGroup has a client leave its group and closes it. While a rebalance waits for other members, of which one may
// have died, a client waits for its end before it leaves, and the members that stay may wait for this one: it is cut
// off then, by ending the context that it was made with, and another client says that the member leaves. A static
// member (instance) stays a member.
func leaveGroup(ctx context.Context, client *kgo.Client, cut context.CancelFunc, group, instance string,
	connect []kgo.Opt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	alone, stop := context.WithTimeout(ctx, leaveAlone)
	err := client.LeaveGroupContext(alone)
	stop()
	cut()
	client.Close()
	id, _ := client.GroupMetadata()
	if err == nil || instance != "" || id == "" {
		return err
	}
	other, err := kgo.NewClient(connect...)
	if err != nil {
		return err
	}
	defer other.Close()
	_, err = removeMember(ctx, other, group, id) // its own request may have been answered after all
	return err
}

// removeMember takes a member out of a group, by a client that need not be a member, and reports whether it was one.
// It must not be a static member.
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

func (m *member) assigned(partition bool) {
	m.mu.Lock()
	m.joined, m.failing = true, outage{}
	if partition {
		m.holds, m.number = true, m.number+1
	}
	m.mu.Unlock()
	m.changed()
}

func (m *member) revoked(partition bool) {
	if !partition {
		return
	}
	m.mu.Lock()
	m.holds = false
	m.mu.Unlock()
	m.changed()
}

// held returns whether the partition is this member's for sure, and the number of the time for which it has been.
func (m *member) held() (number int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.number, m.holds && time.Since(m.confirmed) < m.lease()
}

// settled reports whether the group has said whose the partition is.
func (m *member) settled() (joined, holds bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joined, m.holds
}

// trouble says why the group has not been joined for a session, or "".
func (m *member) trouble() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing.lasting(m.session)
}

// confirm notes an answer of the group to what was sent at a time. Where the one before has not counted any more, the
// partition may have been another's.
func (m *member) confirm(sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.confirmed) >= m.lease() {
		m.number++
	}
	if sent.After(m.confirmed) {
		m.confirmed = sent
	}
}

// answers is the member as the hook that sees the answers of brokers.
type answers member

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (a *answers) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if e2e.WriteErr != nil || e2e.ReadErr != nil {
		return
	}
	switch kmsg.Key(key) {
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat:
		(*member)(a).confirm(time.Now().Add(-e2e.DurationE2E()))
	}
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (a *answers) OnGroupManageError(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing.note(a.log, a.group, err)
}
