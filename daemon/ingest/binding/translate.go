package binding

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/sketch"
)

// Advice is what an operator can do about what stops a consumer. Part of it is in configs/docs/kafka.md word for word.
var Advice = map[consumer.Cause]string{
	consumer.CauseGap:      "set on_gap: record to continue without them",
	consumer.CauseOtherLog: `see "recreated topics" in configs/docs/kafka.md`,
	consumer.CauseGroupID:  "change or remove kafka.group_id",
}

// boundKeys are the configuration keys, below models[], of the options that a state is bound to.
var boundKeys = map[string]string{
	"Size": "sample.size", "Seed": "sample.seed", "HalfLife": "sample.half_life", "Quotas": "sample.quotas",
	"CapBy":    "sample.cap.by",
	"CapShare": "sample.cap.share", "HoldoutSize": "sample.holdout.size", "HoldoutFraction": "sample.holdout.fraction",
	"HoldoutHalfLife": "sample.holdout.half_life", "HoldoutBy": "sample.holdout.by", "Identity": "schema.identity",
	"Weighted": "schema.weight", "Outcomes": "input.outcomes.reward",
}

// A ConfigError names the key in which configuration and stored state differ. It wraps sketch.ErrConfig.
type ConfigError struct {
	Key        string // below models[], such as sample.size
	Stored     string
	Configured string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf(
		"state: %s is %s, but the state was made with %s: set it back, run refitd state rebuild, or give the model "+
			"another storage.path",
		e.Key,
		e.Configured,
		e.Stored,
	)
}

func (e *ConfigError) Unwrap() error { return sketch.ErrConfig }

// Translate adds to an error of a state what can be done about it, in the words of the configuration and of the
// command, and returns it with the key that it is about; "" if it is about no key.
func Translate(err error) (key string, _ error) {
	if e, ok := errors.AsType[*sketch.ConfigError](err); ok {
		err = &ConfigError{Key: boundKeys[e.Option], Stored: e.Stored, Configured: e.Configured}
	}
	if e, ok := errors.AsType[*ConfigError](err); ok {
		return e.Key, err
	}
	for _, r := range remedies {
		if errors.Is(err, r.cause) {
			return r.key, fmt.Errorf("%w: %s", err, r.text)
		}
	}
	return "", err
}

// remedies are what can be done about an error of a state, and the key it is about. The first that fits counts.
var remedies = []struct {
	cause     error
	key, text string
}{
	{
		sketch.ErrInodes,
		"storage.min_free_bytes",
		"remove files that are not needed, or set storage.path to another file system",
	},
	{sketch.ErrSpace, "storage.min_free_bytes", "make free space, or lower the key storage.min_free_bytes"},
	{
		sketch.ErrNetwork,
		"storage.allow_network",
		"set storage.path to a local disk, or storage.allow_network to true and take the risk",
	},
	{sketch.ErrGone, "", "put it back, restore a backup, or run refitd state rebuild"},
	{sketch.ErrLocked, "", "stop the daemon first; a second one needs another storage.path"},
	{syscall.EROFS, "", "mount it for writing, or set storage.path"},
}
