package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ModelFile is the name of the file in a state directory that holds the model's settings: rows are stored without the
// names of their fields.
const ModelFile = "model.json"

// PosteriorFile is the file, in a state directory, with what the last promoted refit needs in addition to its snapshot.
const PosteriorFile = "posterior"

// NumbersFile is the file, in a state directory, with the newest version and the last move of aliases that there were.
const NumbersFile = "numbers.json"

// CurvesFile is the file, in a state directory, with how the model has done over time, for people.
const CurvesFile = "curves.json"

// NoticesFile is the file, in a state directory, with the notices that were not delivered yet.
const NoticesFile = "notices.json"

// CopiesFile is the file, in a state directory, with which events came last, so that copies of them are known as such.
const CopiesFile = "copies.json"

// MemberFile is the file, in a state directory, with the random name under which this state is known to the group and
// the transactions that score.topic is written with. A copy of the state makes another one.
const MemberFile = "score-member"

// AcceptedFile lists, in a state directory, what operators accepted since the last start, so that it can be undone.
const AcceptedFile = "accepted.jsonl"

// Suffixes that the name of a model's state directory gets for files and directories next to it. No other model may
// be called so.
const (
	RestoreSuffix   = ".restore"   // directory of a state that is made from a backup
	RebuildSuffix   = ".rebuild"   // directory of one that is read from the log
	OldSuffix       = ".old-"      // directory of one that was replaced; a time follows
	LockSuffix      = ".lock"      // file that is locked while one of them is made or removed
	ForgottenSuffix = ".forgotten" // file with the subjects that the state has forgotten
)

// ErrNoModelFile is returned where a state directory has no ModelFile.
var ErrNoModelFile = errors.New(
	"config: the state does not say what its fields are called: start the daemon on it once with this build")

// ErrModelFileDamaged is returned for a ModelFile that cannot be read as one. It is a note, which the next start of the
// daemon writes anew.
var ErrModelFileDamaged = errors.New("config: the settings that the state was made with cannot be read: " +
	"start the daemon on it once, which writes them anew")

// Stored returns the resolved model as it is kept in state directories and with versions. It holds no secret.
func (m *Model) Stored() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("config: model is not representable as JSON: " + err.Error()) // as in hashOf
	}
	return append(b, '\n')
}

// DecodeStored is the inverse of Stored.
func DecodeStored(b []byte) (*Model, error) {
	m := new(Model)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("config: stored model: %w", err)
	}
	if m.Schema.Task == "" { // JSON, but not of a model
		return nil, errors.New("config: stored model: it has no schema.task")
	}
	return m, nil
}

// ReadStored reads the ModelFile of a state directory, or returns ErrNoModelFile or ErrModelFileDamaged.
func ReadStored(dir string) (*Model, error) {
	path := filepath.Join(dir, ModelFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoModelFile
	}
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	m, err := DecodeStored(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModelFileDamaged, path, err)
	}
	return m, nil
}
