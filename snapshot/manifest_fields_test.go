package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestNewerFormatIsSaid: a version whose schema has a member that this build does not know is refused as one of a newer
// format where scores depend on it, and read where they do not.
func TestNewerFormatIsSaid(t *testing.T) {
	t.Parallel()
	for scored, want := range map[bool]error{true: disk.ErrFormat, false: nil} {
		_, dir := storeOf(t, 1)
		withNewMember(t, filepath.Join(dir, "m"), scored)
		_, err := Open(dir, "m", verify.Selector{Version: 1})
		if !errors.Is(err, want) ||
			want != nil &&
				(!strings.Contains(err.Error(), "newer format") || !strings.Contains(err.Error(), `"ranking"`)) {
			t.Errorf("a new member that scores depend on (%t): %v", scored, err)
		}
	}
}

// withNewMember gives the schema of version 1 below a model's directory a member of a newer format, as the build that
// writes it would, and moves the alias latest to it.
func withNewMember(t *testing.T, model string, scored bool) {
	t.Helper()
	path := filepath.Join(model, "1", disk.ManifestFile)
	b, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	m, err := format.DecodeManifest(b)
	snapshottest.Must(t, err)
	const old, grown = `"schema":{"task"`, `"schema":{"ranking":[{"by":1}],"task"`
	body := bytes.Replace(unsealed(b), []byte(strings.Replace(old, ":", ": ", 1)),
		[]byte(strings.Replace(grown, ":", ": ", 1)), 1)
	if scored {
		head, err := json.Marshal(struct {
			Kernel      string        `json:"kernel"`
			Degree      int           `json:"degree"`
			Link        string        `json:"link"`
			NumFeatures int           `json:"features"`
			NumOutputs  int           `json:"outputs"`
			NumBasis    int           `json:"k"`
			Schema      format.Schema `json:"schema"`
		}{m.Kernel, m.Degree, m.Link, m.NumFeatures, m.NumOutputs, m.NumBasis, m.Schema.Digested()})
		snapshottest.Must(t, err)
		head = bytes.Replace(head, []byte(old), []byte(grown), 1)
		digest := "sha256:" + disk.HexSum([]byte(string(head)+"\n"+m.Files[0].SHA256+"\n"+m.Files[1].SHA256+"\n"))
		body = bytes.Replace(body, []byte(m.PayloadDigest), []byte(digest), 1)
	}
	if len(body) == len(unsealed(b)) {
		t.Fatalf("no member was added:\n%s", b)
	}
	sum := disk.HexSum(body)
	snapshottest.Must(t, os.WriteFile(path, sealed(body), 0o644))
	p := pointer.Pointer{Version: 1, ManifestDigest: "sha256:" + sum, Sequence: 1, Moved: snapshottest.Created,
		Event: publish.EventAlias}
	p.Seal("m", pointer.Latest, nil)
	b, err = p.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(filepath.Join(model, disk.AliasDir, pointer.Latest), b, 0o644))
}
