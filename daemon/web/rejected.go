package web

import (
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"net/http"
)

// rejectedList is the last records of a model that were no events.
type rejectedList struct {
	Model   string                      `json:"model"`   // its name
	Records []statuspage.RejectedRecord `json:"records"` // newest first
}

// listRejected answers with the last records that were no events since the start, without their values: at most 200, of
// each batch the first ones. Those that schema.event_weights leaves out are not among them.
func (s *Server) listRejected(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	list := rejectedList{cache.Name, []statuspage.RejectedRecord{}}
	if cache.Rejected != nil {
		list.Records = append(list.Records, cache.Rejected()...)
	}
	return request.Answer(w, http.StatusOK, list)
}
