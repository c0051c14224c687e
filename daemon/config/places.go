package config

import (
	"errors"
	"fmt"
	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// places checks that no two things are written to the same place: names, directories and topics.
func (v *validator) places(c *Config) {
	v.stateNames(c.Models)
	v.directories(c)
	v.topics(c.Models)
}

// stateNames checks that no model's state directory is what restore, rebuild or forget make next to another one's.
func (v *validator) stateNames(models []Model) {
	for i := range models {
		for j := range models {
			added, ok := strings.CutPrefix(models[i].Name, models[j].Name)
			if ok &&
				(slices.Contains([]string{RestoreSuffix, RebuildSuffix, LockSuffix, ForgottenSuffix}, added) || strings.HasPrefix(
					added, OldSuffix)) {
				v.bad(
					fmt.Sprintf("models[%d].name", i),
					models[i].Name,
					fmt.Sprintf(
						"a name that does not end in %s: restore, rebuild or forget of models[%d] may write there",
						added, j),
				)
			}
		}
	}
}

// directories checks that state and versions have separate directories, whatever their paths look like.
func (v *validator) directories(c *Config) {
	real := map[string]string{}
	at := func(key, path string) string {
		if _, ok := real[path]; !ok {
			real[path] = files.Real(path)
		}
		if path != "" && real[path] == "" {
			v.bad(key, path[:min(len(path), 100)],
				fmt.Sprintf("the path of a directory, of at most %d bytes", files.MaxPathBytes))
		}
		return real[path]
	}
	state := at("storage.path", c.Storage.Path)
	stores := make([]string, len(c.Models))
	for i := range c.Models {
		key, path := fmt.Sprintf("models[%d].publish.store", i), c.Models[i].Publish.Store
		stores[i] = at(key, path)
		if how := files.Overlap(stores[i], state); how != "" {
			v.bad(key, path, fmt.Sprintf("a directory apart from storage.path: it %s %s", how, c.Storage.Path))
		}
		for j := range i {
			if how := files.Overlap(stores[i], stores[j]); how != "" && stores[i] != stores[j] {
				v.bad(
					key,
					path,
					fmt.Sprintf("the directory of models[%d].publish.store, or one apart from it: it %s %s", j, how,
						c.Models[j].Publish.Store),
				)
			}
		}
	}
	if socket, ok := strings.CutPrefix(c.Web.HealthAddress, unixPrefix); ok && socket != "" &&
		files.Overlap(at("web.health_address", socket), state) != "" {
		v.bad("web.health_address", c.Web.HealthAddress, "unix: and a path outside of storage.path")
	}
}

// topicUse is a key of the configuration that names a topic.
type topicUse struct{ key, topic string }

// topicsOf returns the topics that model i writes and reads.
func topicsOf(i int, m *Model) (written, read []topicUse) {
	at := func(key string) string { return fmt.Sprintf("models[%d].%s", i, key) }
	written = slices.DeleteFunc([]topicUse{
		{at("input.dead_letter.topic"), m.Input.DeadLetter.Topic},
		{at("publish.topic"), m.Publish.Topic},
		{at("publish.deltas.topic"), m.Publish.Deltas.Topic},
		{at("score.topic"), m.Score.Topic},
		{"shard.topic", m.Shard.Topic},
		{"shard.live_topic", m.Shard.LiveTopic},
	}, func(u topicUse) bool { return u.topic == "" })
	add := func(key string, topics []string) {
		for _, t := range topics {
			read = append(read, topicUse{at(key), t})
		}
	}
	add("input.topics", m.Input.Topics)
	for k := range m.Tables {
		add(fmt.Sprintf("tables[%d].topics", k), m.Tables[k].Topics)
	}
	add("input.outcomes.topics", m.Input.Outcomes.Topics)
	add("score.input", m.Score.Input)
	return written, read
}

// topics checks that nothing is written to a topic that holds something else.
func (v *validator) topics(models []Model) {
	var written, read []topicUse
	for i := range models {
		w, r := topicsOf(i, &models[i])
		written, read = append(written, w...), append(read, r...)
	}
	kind := func(key string) string { return key[strings.IndexByte(key, '.')+1:] }
	for _, w := range written {
		for _, r := range read {
			if w.topic == r.topic {
				v.bad(w.key, w.topic, "a topic that no model reads: it is one of "+r.key)
			}
		}
		for _, other := range written { // models share one of each kind
			if w.topic == other.topic && w.key > other.key && kind(w.key) != kind(other.key) {
				v.bad(w.key, w.topic, "another topic: it is "+other.key)
			}
		}
	}
}

// SetStorage replaces storage.path, as --storage.path does. The error says with what the directory collides.
func (c *Config) SetStorage(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	c.Storage.Path = dir
	v := &validator{Decoder: strictyaml.NewDecoder(reflect.TypeFor[Config](), nil)}
	v.directories(c)
	for _, p := range v.Problems {
		err = errors.Join(err, fmt.Errorf("config: %s %s", p.Key, p.Message))
	}
	return err
}

// ErrInside is returned by Outside.
var ErrInside = errors.New("config: that is where states or versions are kept")

// Outside returns an error wrapping ErrInside if a file would stand inside storage.path or a publish.store.
func (c *Config) Outside(path string) error {
	path = files.Real(path)
	for _, dir := range append(c.stores(), c.Storage.Path) {
		if dir = files.Real(dir); path == dir || files.Within(path, dir) {
			return fmt.Errorf("%w: %s is inside %s: name a file outside of it", ErrInside, path, dir)
		}
	}
	return nil
}

func (c *Config) stores() (dirs []string) {
	for i := range c.Models {
		dirs = append(dirs, c.Models[i].Publish.Store)
	}
	return dirs
}
