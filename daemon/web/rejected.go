package web

import (
	"net/http"
	"time"
)

// RejectedRecord is a record that is no event, without what it says.
type RejectedRecord struct {
	Topic     string    `json:"topic"`     // of the record
	Partition int32     `json:"partition"` // of the record
	Offset    int64     `json:"offset"`    // of the record
	Time      time.Time `json:"time"`      // of the record
	Bytes     int       `json:"bytes"`     // of its value; -1 if it had none
	Reason    string    `json:"reason"`    // one of the reasons of rejections
	// of the schema that the reason is about; absent where it is about the record as a whole
	Field    string `json:"field,omitempty"`
	Expected string `json:"expected,omitempty"` // what may be there; absent where the reason says all
	Got      string `json:"got,omitempty"`      // the kind of what was there
	// the value with a kind in place of each value and of each name that neither the schema nor the mapping has
	Outline string `json:"outline"`
}

// rejectedList is the last records of a model that were no events.
type rejectedList struct {
	Model   string           `json:"model"`   // its name
	Records []RejectedRecord `json:"records"` // newest first
}

// listRejected answers with the last records that were no events since the start, without their values: at most 200, of
// each batch the first ones. Those that schema.event_weights leaves out are not among them.
func (s *Server) listRejected(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	list := rejectedList{cache.Name, []RejectedRecord{}}
	if cache.Rejected != nil {
		list.Records = append(list.Records, cache.Rejected()...)
	}
	return answer(w, http.StatusOK, list)
}
