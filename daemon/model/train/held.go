package train

import (
	"github.com/refitd/refitd/daemon/cycle/admission"
)

// logHeld says once, for each reason, that events are not learned in full.
func (t *Trainer) logHeld() {
	by := &t.settings.Train.Cap
	for _, why := range admission.HeldReasons {
		if t.logged.held[why] || t.cycle.Held(why) == 0 {
			continue
		}
		t.logged.held[why] = true
		switch why {
		case admission.HeldEntity:
			t.log.Warn(
				"one entity sends more than its share of the events", "note", "what is beyond it changes that entity alone",
				"field", by.By, "share", by.Share, "keys", "train.cap.by, train.cap.share")
		case admission.HeldName:
			t.log.Info("one entity sends most of the recent events of a name", "note", "that name learns a few of them",
				"field", by.By, "keys", "train.cap.by, train.cap.share")
		case admission.HeldIdentity:
			t.log.Info("events came again under an identity that was learned", "note", "the live model leaves them out",
				"field", t.settings.Schema.Identity, "key", "schema.identity")
		case admission.HeldCopy:
			t.log.Warn("a flood of copies of events that were learned", "note", "live and in refits they are left out",
				"key", "train.cap.share")
		}
	}
}
