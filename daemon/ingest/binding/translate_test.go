package binding

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch"
)

// TestTranslateSettings: whatever setting a state refuses is named by its key, and every key belongs to an option of
// the store.
func TestTranslateSettings(t *testing.T) {
	capped := func(o *sketch.Options) { o.CapBy, o.CapShare = "user", 0.5 }
	for option, change := range map[string][2]func(*sketch.Options){
		"Seed":            {nil, func(o *sketch.Options) { o.Seed++ }},
		"HalfLife":        {nil, func(o *sketch.Options) { o.HalfLife *= 2 }},
		"HoldoutFraction": {nil, func(o *sketch.Options) { o.HoldoutFraction /= 2 }},
		"HoldoutHalfLife": {nil, func(o *sketch.Options) { o.HoldoutHalfLife = o.HalfLife / 2 }},
		"HoldoutBy":       {nil, func(o *sketch.Options) { o.HoldoutBy = "user" }},
		"Quotas":          {nil, func(o *sketch.Options) { o.Quotas = []sketch.Quota{{Class: "1", Share: 0.5}} }},
		"CapBy":           {nil, capped},
		"CapShare":        {capped, func(o *sketch.Options) { o.CapShare /= 2 }},
		"Size":            {capped, func(o *sketch.Options) { o.Size *= 2 }},
		"HoldoutSize":     {capped, func(o *sketch.Options) { o.HoldoutSize *= 2 }},
		"Identity":        {nil, func(o *sketch.Options) { o.Identity = "id" }},
		"Weighted":        {nil, func(o *sketch.Options) { o.Weighted = true }},
	} {
		o := sketch.Options{Dir: t.TempDir(), Size: 10, HoldoutSize: 4, HoldoutFraction: 0.2, HalfLife: time.Hour}
		if change[0] != nil {
			change[0](&o)
		}
		store, err := sketch.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		change[1](&o)
		_, refused := sketch.Open(t.Context(), o)
		key, err := Translate(refused)
		if want := boundKeys[option]; want == "" || key != want || !errors.Is(err, sketch.ErrConfig) ||
			!strings.Contains(err.Error(), want+" is ") || !strings.Contains(err.Error(), "run refitd state rebuild") {
			t.Errorf("%s changed: %v with key %q from %v", option, err, key, refused)
		}
	}
	for option := range boundKeys {
		if _, ok := reflect.TypeFor[sketch.Options]().FieldByName(option); !ok {
			t.Errorf("the store has no option %s", option)
		}
	}
}

// TestTranslateCauses: each cause that an operator can do something about is followed by what.
func TestTranslateCauses(t *testing.T) {
	for cause, want := range map[error][2]string{
		sketch.ErrSpace:   {"storage.min_free_bytes", "make free space, or lower the key storage.min_free_bytes"},
		sketch.ErrInodes:  {"storage.min_free_bytes", "remove files"},
		sketch.ErrNetwork: {"storage.allow_network", "storage.allow_network to true"},
		sketch.ErrLocked:  {"", "stop the daemon first; a second one needs another storage.path"},
		syscall.EROFS:     {"", "mount it for writing"},
		sketch.ErrCorrupt: {"", "state is damaged"},
	} {
		key, err := Translate(fmt.Errorf("sketch: open: %w", cause))
		if key != want[0] || !errors.Is(err, cause) || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%v: %v with key %q, want %q", cause, err, key, want)
		}
	}
}
