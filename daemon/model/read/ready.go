package read

import (
	"fmt"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// NotReady says why nothing is read.
func (r *Reader) NotReady() (list []statuspage.Reason) {
	if text := r.Role.Trouble(); text != "" {
		list = append(list, statuspage.Reason{Cause: part.CauseShards, Text: text})
	}
	if r.Role.Merges() {
		return list
	}
	if c := r.CatchUp(); c != nil && r.options.Config.Web.ReadyWhen == config.ReadyCaughtUp {
		list = append(list, statuspage.Reason{Cause: part.CauseBehind, Text: c.String() + " (web.ready_when)"})
	}
	status := r.consumer.Status()
	halted := 0
	for _, p := range status.Partitions {
		if p.Halted != "" {
			halted++
		}
	}
	if halted > 0 && halted == len(status.Partitions) {
		list = append(list, statuspage.Reason{Cause: part.CauseHalted,
			Text: fmt.Sprintf("halted: each of its %d partitions waits for an operator, the first one because %s",
				halted, status.Partitions[0].Halted)})
	}
	if status.Ready {
		return list
	}
	if len(status.Reasons) == 0 {
		return append(list, statuspage.Reason{Cause: part.CauseReading, Text: "connecting"})
	}
	for _, text := range status.Reasons {
		list = append(list, statuspage.Reason{Cause: part.CauseReading, Text: text})
	}
	return list
}
