package model

import (
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/snapshot"
)

// The causes for which a model is not ready: the values of the label reason of refitd_model_not_ready.
const (
	causeReading       = "reading"       // the brokers do not answer, or partitions are not being read yet
	causeHalted        = "halted"        // every partition waits for an operator
	causeDisk          = "disk"          // reading and publishing pause until there is space
	causeExpired       = "expired"       // consumers refuse the version that they have
	causeStore         = "store"         // the store of versions is lost, or did not take the last one
	causeUnpublishable = "unpublishable" // the last version is none that could be published
	causeNoVersion     = "no_version"    // refits end, and none of them with a version for consumers
	causeScoring       = "scoring"       // events are not answered in the topic of scores
	CauseShards        = "shards"        // rows do not reach the trainer
)

var causes = []string{
	causeReading,
	causeHalted,
	causeDisk,
	causeExpired,
	causeStore,
	causeUnpublishable,
	causeNoVersion,
	causeScoring,
	CauseShards,
}

// NotReady says why the model does not do its work: it is not fed, or consumers do not get what it learns. It is empty
// if it does. A model that is too young to have a version is ready. The surface, the status page and the metrics have
// it from here.
func (m *Model) NotReady() []web.Reason {
	var list []web.Reason
	if text := m.state.guard.Reason(); text != "" {
		list = append(list, web.Reason{Cause: causeDisk, Text: text})
	}
	list = append(list, m.reader.notReady()...)
	if m.scorer != nil {
		if text := m.scorer.Trouble(); text != "" {
			list = append(list, web.Reason{Cause: causeScoring, Text: "scoring: " + text})
		}
	}
	return append(list, m.trainer.versions.notReady(time.Now())...)
}

// notReady says why nothing is read.
func (r *reader) notReady() (list []web.Reason) {
	if text := r.role.Trouble(); text != "" {
		list = append(list, web.Reason{Cause: CauseShards, Text: text})
	}
	if r.role.Merges() {
		return list
	}
	status := r.consumer.Status()
	halted := 0
	for _, p := range status.Partitions {
		if p.Halted != "" {
			halted++
		}
	}
	if halted > 0 && halted == len(status.Partitions) {
		list = append(list, web.Reason{Cause: causeHalted,
			Text: fmt.Sprintf(
				"halted: each of its %d partitions waits for an operator, the first one because %s",
				halted,
				status.Partitions[0].Halted,
			)})
	}
	if status.Ready {
		return list
	}
	if len(status.Reasons) == 0 {
		return append(list, web.Reason{Cause: causeReading, Text: "connecting"})
	}
	for _, text := range status.Reasons {
		list = append(list, web.Reason{Cause: causeReading, Text: text})
	}
	return list
}

// notReady says why consumers do not get a version, or not the last one.
func (v *Versions) notReady(now time.Time) (list []web.Reason) {
	serving := v.serving.Load()
	if serving != nil && !serving.expires.IsZero() && !now.Before(serving.expires) {
		list = append(
			list,
			web.Reason{
				Cause: causeExpired,
				Text: fmt.Sprintf("expired: consumers refuse version %d since %s (publish.expires_after)",
					serving.version.Version, serving.expires.UTC().Format(time.RFC3339)),
			},
		)
	}
	if trouble := v.trouble.Load(); trouble != nil {
		list = append(list, *trouble)
	} else if lost := v.lost.Load(); lost != nil {
		list = append(list, web.Reason{Cause: causeStore, Text: *lost})
	} else if unread := v.unread.Load(); unread != nil {
		list = append(list, web.Reason{Cause: causeStore, Text: *unread})
	}
	if why := v.fruitless.Load(); why != nil && serving == nil {
		list = append(list, web.Reason{Cause: causeNoVersion, Text: "no version: " + *why})
	}
	return list
}

// troubled notes why a version could not be published. That another instance published first is no trouble.
func (v *Versions) troubled(err error) {
	switch {
	case errors.Is(err, snapshot.ErrConflict):
	case errors.Is(err, snapshot.ErrContents), errors.Is(err, snapshot.ErrGolden), stackOf(err) != "":
		v.trouble.Store(
			&web.Reason{
				Cause: causeUnpublishable,
				Text:  fmt.Sprintf("publishing: the last version is none that can be published: %v", err),
			},
		)
	default:
		v.trouble.Store(
			&web.Reason{
				Cause: causeStore,
				Text:  fmt.Sprintf("store: %s did not take the last version: %v", v.settings.Publish.Store, err),
			},
		)
	}
}

// standsUntil notes that the store took a renewal of the champion, and when consumers refuse it now; the zero time is
// never.
func (v *Versions) standsUntil(expires time.Time) {
	if serving := v.serving.Load(); serving != nil {
		renewed := *serving
		renewed.expires = expires
		v.serving.Store(&renewed)
	}
	if trouble := v.trouble.Load(); trouble != nil && trouble.Cause == causeStore {
		v.trouble.Store(nil)
	}
}

// withoutVersion notes why a refit ended without a version for consumers. It counts until there is one.
func (v *Versions) withoutVersion(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.fruitless.Store(&text)
}
