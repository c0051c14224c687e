package config

import (
	"fmt"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"reflect"
	"regexp"
	"strings"
)

// reloadable matches the keys that a running daemon takes up. All others are part of its state, its connections or its
// memory.
var reloadable = regexp.MustCompile(`^(models\[\d+\]\.(train\.(every|every_events|first_events|time_budget|lambda)|` +
	`publish\.(update_every|deltas\.(every|max_rows|max_bytes)|renew_every|keep|keep_for|expires_after|gate\.\w+)|serve\.\w+))$`)

// RestartError names the keys that changed and that only a restart takes up.
type RestartError struct{ Keys []string }

// Error names the keys and what to do.
func (e *RestartError) Error() string {
	return fmt.Sprintf("config: %s changed, which a running daemon does not take up: restart refitd, or change back",
		strings.Join(e.Keys, ", "))
}

// Reloadable returns a *RestartError unless a running daemon can go from the configuration old to next.
func Reloadable(old, next *Config) error {
	var keys []string
	changed(reflect.ValueOf(*old), reflect.ValueOf(*next), "", func(key string) {
		if !reloadable.MatchString(key) {
			keys = append(keys, key)
		}
	})
	if len(keys) > 0 {
		return &RestartError{keys}
	}
	return nil
}

// changed calls note with the key of every value in which two configurations differ.
func changed(a, b reflect.Value, key string, note func(key string)) {
	switch {
	case a.Kind() == reflect.Struct && a.Type() != reflect.TypeFor[Secret]():
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() && f.Tag.Get("yaml") != "-" {
				changed(a.Field(i), b.Field(i), strictyaml.Join(key, strictyaml.KeyOf(f)), note)
			}
		}
	case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Struct && a.Len() == b.Len():
		for i := range a.Len() {
			changed(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", key, i), note)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		note(key)
	}
}
