package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ModelFile is the name of the file in a state directory that holds the model's settings: rows are stored without the names of their fields.
const ModelFile = "model.json"

// PosteriorFile is the file, in a state directory, with what the last promoted refit needs beside its snapshot.
const PosteriorFile = "posterior"

// NumbersFile is the file, in a state directory, with the newest version and the last move of aliases that there were.
const NumbersFile = "numbers.json"

// CurvesFile is the file, in a state directory, with how the model has done over time, for people.
const CurvesFile = "curves.json"

// NoticesFile is the file, in a state directory, with the notices that were not delivered yet.
const NoticesFile = "notices.json"

// MemberFile is the file, in a state directory, with the random name under which this state is known to the group and the transactions that
// score.topic is written with. A copy of the state makes one of its own.
const MemberFile = "score-member"

// AcceptedFile lists, in a state directory, what operators accepted since the last start, so that it can be undone.
const AcceptedFile = "accepted.jsonl"

// What stands beside the state directory of a model, by what is added to its name. No other model may be called so.
const (
	RestoreSuffix   = ".restore"   // directory of a state that is made from a backup
	RebuildSuffix   = ".rebuild"   // directory of one that is read from the log
	OldSuffix       = ".old-"      // directory of one that was replaced; a time follows
	LockSuffix      = ".lock"      // file that is locked while one of them is made or removed
	ForgottenSuffix = ".forgotten" // file with the subjects that the state has forgotten
)

// ErrNoModelFile is returned where a state directory has no ModelFile.
var ErrNoModelFile = errors.New("config: the state does not say what its fields are called: start the daemon on it once with this build")

// Stored returns the resolved model as it is kept in state directories and beside versions. It holds no secret.
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
	return m, nil
}

// ReadStored reads the ModelFile of a state directory, or returns ErrNoModelFile.
func ReadStored(dir string) (*Model, error) {
	b, err := os.ReadFile(filepath.Join(dir, ModelFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoModelFile
	}
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return DecodeStored(b)
}
