package versions

import (
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
)

// NotReady says why consumers do not get a version, or not the last one.
func (v *Versions) NotReady(now time.Time) (list []statuspage.Reason) {
	serving := v.serving.Load()
	if serving != nil && !serving.expires.IsZero() && !now.Before(serving.expires) {
		list = append(
			list,
			statuspage.Reason{
				Cause: part.CauseExpired,
				Text: fmt.Sprintf("expired: consumers refuse version %d since %s (publish.expires_after)",
					serving.version.Version, serving.expires.UTC().Format(time.RFC3339)),
			},
		)
	}
	if trouble := v.trouble.Load(); trouble != nil {
		list = append(list, *trouble)
	} else if lost := v.lost.Load(); lost != nil {
		list = append(list, statuspage.Reason{Cause: part.CauseStore, Text: *lost})
	} else if unread := v.unread.Load(); unread != nil {
		list = append(list, statuspage.Reason{Cause: part.CauseStore, Text: *unread})
	}
	if why := v.fruitless.Load(); why != nil && serving == nil {
		list = append(list, statuspage.Reason{Cause: part.CauseNoVersion, Text: "no version: " + *why})
	}
	return list
}

// troubled notes why a version could not be published. That another instance published first is no trouble.
func (v *Versions) troubled(err error) {
	switch {
	case errors.Is(err, snapshot.ErrConflict):
	case errors.Is(err, snapshot.ErrContents), errors.Is(err, snapshot.ErrGolden), part.StackOf(err) != "":
		v.trouble.Store(
			&statuspage.Reason{
				Cause: part.CauseUnpublishable,
				Text:  fmt.Sprintf("publishing: the last version is none that can be published: %v", err),
			},
		)
	default:
		v.trouble.Store(
			&statuspage.Reason{
				Cause: part.CauseStore,
				Text:  fmt.Sprintf("store: %s did not take the last version: %v", v.settings.Publish.Store, err),
			},
		)
	}
}

// StandsUntil notes that the store took a renewal of the champion, and when consumers refuse it now; the zero time is
// never.
func (v *Versions) StandsUntil(expires time.Time) {
	if serving := v.serving.Load(); serving != nil {
		renewed := *serving
		renewed.expires = expires
		v.serving.Store(&renewed)
	}
	if trouble := v.trouble.Load(); trouble != nil && trouble.Cause == part.CauseStore {
		v.trouble.Store(nil)
	}
}

// WithoutVersion notes why a refit ended without a version for consumers. It counts until there is one.
func (v *Versions) WithoutVersion(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.fruitless.Store(&text)
}

// Overhear notes until when consumers may use the champion, as the process says that renews it.
func (v *Versions) Overhear() {
	store, serving := v.Store(), v.serving.Load()
	if store == nil || serving == nil {
		return
	}
	pointer, err := store.Alias(v.settings.Name, publish.Champion)
	if err != nil || pointer.Version != serving.version.Version || pointer.Renewal.Renewed.IsZero() {
		return
	}
	v.StandsUntil(pointer.Renewal.Expires)
	v.metrics.Renew(v.settings.Name, pointer.Renewal.Renewed, pointer.Renewal.Expires)
}
