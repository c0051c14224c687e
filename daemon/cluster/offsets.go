package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer"
)

// An offset is an answer about a partition.
type offset = kmsg.ListOffsetsResponseTopicPartition

// settle returns the answer to a question for offsets of logs. It is the whole one as it came if a witness says the
// same of every partition. Else it has of three answers those that are to be believed (consumer.Settled). An error
// ends the connection, and franz-go asks again on a new one.
func (g *guard) settle(req *kmsg.ListOffsetsRequest, whole []byte) ([]byte, error) {
	if req.Version == 0 { // it has lists of offsets; no broker that can be read wants it
		return nil, fmt.Errorf("the broker is said to know no ListOffsets but version 0: %w", errRefused)
	}
	parsed, err := parse(req, whole[correlation:])
	if err != nil {
		return whole, nil //nolint:nilerr // franz-go says better what is wrong with it
	}
	first := parsed.(*kmsg.ListOffsetsResponse)
	open := make(map[place]int64) // that no witness has confirmed
	for _, t := range first.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				open[place{topic: t.Topic, partition: p.Partition}] = p.Offset
			}
		}
	}
	second, err := g.offsets(0, req, open)
	if err != nil {
		return nil, errUnconfirmed(err)
	}
	maps.DeleteFunc(open, func(at place, first int64) bool { return second[at].Offset == first })
	if len(open) == 0 {
		return whole, nil
	}
	third, err := g.offsets(1, req, open)
	if err != nil {
		return nil, errUnconfirmed(err)
	}
	for i := range first.Topics {
		t := &first.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			at := place{topic: t.Topic, partition: p.Partition}
			if _, differs := open[at]; !differs {
				continue
			}
			three := [3]offset{*p, second[at], third[at]}
			offsets := [3]int64{three[0].Offset, three[1].Offset, three[2].Offset}
			which, falls := consumer.Settled(offsets)
			if *p = three[which]; falls && g.refused != nil {
				text := fmt.Sprintf("three answers about the start or the end of the log are %d", offsets)
				g.refused(t.Topic, p.Partition, text)
			}
		}
	}
	out := whole[:correlation:correlation]
	if first.IsFlexible() {
		out = append(out, 0) // no tags
	}
	return sized(first.AppendTo(out)), nil
}

// sized puts the size of an answer in front of it.
func sized(answer []byte) []byte {
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return answer
}

// offsets asks by a witness about some partitions of a question. One that is not answered, or with an error, is an
// error: it confirms nothing.
func (g *guard) offsets(by int, req *kmsg.ListOffsetsRequest, about map[place]int64) (map[place]offset, error) {
	again, out := *req, make(map[place]offset)
	again.Topics = nil
	for _, t := range req.Topics {
		partitions := t.Partitions
		t.Partitions = nil
		for _, p := range partitions {
			if _, ok := about[place{topic: t.Topic, partition: p.Partition}]; ok {
				t.Partitions = append(t.Partitions, p)
			}
		}
		if len(t.Partitions) > 0 {
			again.Topics = append(again.Topics, t)
		}
	}
	if len(again.Topics) == 0 {
		return out, nil
	}
	res, err := g.ask(by, &again)
	if err != nil {
		return nil, err
	}
	for _, t := range res.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			out[place{topic: t.Topic, partition: p.Partition}] = p
		}
	}
	for at := range about {
		if _, ok := out[at]; !ok {
			return nil, fmt.Errorf("no answer about the offsets of %s/%d", at.topic, at.partition)
		}
	}
	return out, nil
}
