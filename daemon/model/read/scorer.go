package read

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/snapshot/durable"
)

// NewScorer returns what writes scores to a topic, nil without one.
func NewScorer(o *part.Options, dir string) (*scoring.Scorer, error) {
	if o.Settings.Score.Topic == "" {
		return nil, nil
	}
	member, err := memberName(dir, o.Log)
	if err != nil {
		return nil, ingest.StateError(err, dir)
	}
	return scoring.New(
		scoring.Options{
			Kafka:    &o.Config.Kafka,
			Settings: o.Settings,
			Group:    o.Config.ScoreGroup(o.Settings),
			Member:   member,
			Metrics:  o.Metrics.Scores,
			Log:      o.Log,
		},
	)
}

// isMember is the form of names that memberName makes.
var isMember = regexp.MustCompile(`^[a-z2-7]{26}$`)

// memberName returns the name of a state among the members of a group. It is made once, and anew where the file has
// something else.
func memberName(dir string, log *slog.Logger) (string, error) {
	path := filepath.Join(dir, config.MemberFile)
	text, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(text)); err == nil && isMember.MatchString(name) {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("model: %w", err)
	}
	if err == nil {
		log.Warn("name among the members of the group cannot be read", "note", "the state gets another", "path", path)
	}
	name := strings.ToLower(rand.Text())
	if err := durable.WriteFile(path, 0o600, durable.Bytes([]byte(name+"\n"))); err != nil {
		return "", fmt.Errorf("model: name among the members of the group: %w", err)
	}
	return name, nil
}
