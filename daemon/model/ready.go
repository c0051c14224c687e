package model

import (
	"time"

	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// NotReady says why the model does not do its work: it is not fed, or consumers do not get what it learns. It is empty
// if it does. A model that is too young to have a version is ready. The surface, the status page and the metrics have
// it from here.
func (m *Model) NotReady() []statuspage.Reason {
	var list []statuspage.Reason
	if text := m.state.Guard.Reason(); text != "" {
		list = append(list, statuspage.Reason{Cause: part.CauseDisk, Text: text})
	}
	list = append(list, m.reader.NotReady()...)
	if m.scorer != nil {
		if text := m.scorer.Trouble(); text != "" {
			list = append(list, statuspage.Reason{Cause: part.CauseScoring, Text: "scoring: " + text})
		}
	}
	return append(list, m.versions.NotReady(time.Now())...)
}
