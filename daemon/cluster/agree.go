package cluster

import (
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A said is what an answer says of one thing that was asked about: all of it that decides where reading continues.
type said struct {
	code   int16
	offset int64
	epoch  int32
}

// A subject is what is asked about: a partition, in a group; partition -1 is the whole topic or group.
type subject struct {
	group string
	place
}

// agree returns the answer to a question for the offsets of a group, or for the end of an epoch, of which there is one
// true answer at a time. It is the one as it came if a witness, or a second one, says the same. If both witnesses say
// something else it is theirs. An error ends the connection, and franz-go asks again on a new one.
func (g *guard) agree(req kmsg.Request, whole []byte) ([]byte, error) {
	parsed, err := parse(req, whole[correlation:])
	if err != nil {
		return whole, nil //nolint:nilerr // franz-go says better what is wrong with it
	}
	first := sayings(parsed)
	var others [2]kmsg.Response
	for by := range others {
		if others[by], err = g.ask(by, copyOf(req)); err != nil {
			return nil, errUnconfirmed(err)
		}
		if maps.Equal(first, sayings(others[by])) {
			return whole, nil
		}
	}
	second := sayings(others[0])
	g.differ(first, second)
	if !maps.Equal(second, sayings(others[1])) || others[0].GetVersion() != req.GetVersion() {
		return nil, errRefused
	}
	out := whole[:correlation:correlation]
	if others[0].IsFlexible() {
		out = append(out, 0) // no tags
	}
	return sized(others[0].AppendTo(out)), nil
}

// differ tells what of an answer is refused.
func (g *guard) differ(first, second map[subject]said) {
	if g.refused == nil {
		return
	}
	for about, a := range first {
		if b, ok := second[about]; b != a || !ok {
			g.refused(about.topic, about.partition, fmt.Sprintf("offset %d is %d in other answers (group %q)", a.offset,
				b.offset, about.group))
		}
	}
}

// copyOf returns a request that another client may change.
func copyOf(req kmsg.Request) kmsg.Request {
	switch req := req.(type) {
	case *kmsg.OffsetFetchRequest:
		again := *req
		return &again
	case *kmsg.OffsetForLeaderEpochRequest:
		again := *req
		return &again
	}
	panic("cluster: no such question is asked again")
}

// sayings lists what an answer says.
func sayings(res kmsg.Response) map[subject]said {
	out := make(map[subject]said)
	add := func(group, topic string, id [16]byte, partition int32, s said) {
		out[subject{group, place{topic, id, partition}}] = s
	}
	switch res := res.(type) {
	case *kmsg.OffsetFetchResponse:
		add("", "", [16]byte{}, -1, said{code: res.ErrorCode})
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				add("", t.Topic, [16]byte{}, p.Partition, said{p.ErrorCode, p.Offset, p.LeaderEpoch})
			}
		}
		for _, of := range res.Groups {
			add(of.Group, "", [16]byte{}, -1, said{code: of.ErrorCode})
			for _, t := range of.Topics {
				for _, p := range t.Partitions {
					add(of.Group, t.Topic, t.TopicID, p.Partition, said{p.ErrorCode, p.Offset, p.LeaderEpoch})
				}
			}
		}
	case *kmsg.OffsetForLeaderEpochResponse:
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				add("", t.Topic, [16]byte{}, p.Partition, said{p.ErrorCode, p.EndOffset, p.LeaderEpoch})
			}
		}
	}
	return out
}
