package format

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Position is the state of a model in its chain: a version, or a delta of the chain that begins with it.
type Position struct {
	Version  int64
	Sequence int64  // of the last delta; 0 is the version itself
	Digest   string // of the last delta, or of the version's manifest
	// of Contents, where the publisher has said it: of the version, and of deltas that are Checked; else empty
	PayloadDigest string
	Created       time.Time
	Watermark     time.Time // newest event time
	Events        *Counts   // of the records before the cut; nil is not known. Shared: read it only
	Cut           []Cut     // over all partitions. Shared: read it only
}

// FormatVersion is the newest version of the format. This build reads all up to it, and writes the oldest that says
// what a model needs.
const FormatVersion = formatTables

// Number is written as null when it is not finite; null reads back as NaN.
type Number float64

// MarshalJSON writes the shortest decimal that reads back the same, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !IsFinite(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads a number; null is NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Numbers converts a list; nil stays nil.
func Numbers(list []float64) []Number {
	if list == nil {
		return nil
	}
	out := make([]Number, len(list))
	for i, v := range list {
		out[i] = Number(v)
	}
	return out
}

// Metrics are the scores of a model on n events; those that do not apply to the task are nil.
type Metrics struct {
	N        int64   `json:"n"`
	Loss     *Number `json:"loss,omitempty"`
	RMSE     *Number `json:"rmse,omitempty"`
	MAE      *Number `json:"mae,omitempty"`
	Accuracy *Number `json:"accuracy,omitempty"`
	NDCG1    *Number `json:"ndcg_1,omitempty"`
	NDCG5    *Number `json:"ndcg_5,omitempty"`
}

// Cut is where the events behind a version end in one partition: Next is the first offset that was not read.
type Cut struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

// CutShort is where the time budget ended a refit, so that another one can end there without a clock.
type CutShort struct {
	Solves int `json:"solves"` // that the time budget did not end
	// Steps are of the solve that was cut short, one for each λ that it ran: -1 was not cut short, -2 had not begun.
	Steps  []int `json:"steps,omitempty"`
	Sweeps *int  `json:"sweeps,omitempty"` // whole variational sweeps, if the clock ended those
}

// Counts are what became of the records of the partitions of a cut, over all of them.
type Counts struct {
	Applied  int64 `json:"applied"`
	Rejected int64 `json:"rejected"`
	Control  int64 `json:"control"`
	Aborted  int64 `json:"aborted"`
	Holes    int64 `json:"holes"`
	Gap      int64 `json:"gap"`
}

// Part is one of the predictors that the daemon's live prediction is mixed from.
type Part struct {
	Name       string  `json:"name"`
	Weight     Number  `json:"weight"`      // of the mean, by recent loss
	Loss       *Number `json:"loss"`        // recent; null before there is one
	InVersions bool    `json:"in_versions"` // whether versions hold it; the others are for the daemon alone
}

// Meta is what the trainer says of a version. It is not part of the payload digest. OutputLimit alone has influence on
// scores: on those beyond it. It is one type: a field for each member of the manifest.
type Meta struct {
	Writer  string    `json:"writer"` // name and version of the program
	Kind    string    `json:"kind"`   // refit or update
	Parent  *int64    `json:"parent"` // version that this one started from
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // readers refuse it from then on; zero is never
	// of the instance that wrote it: larger for one that started later
	Epoch     int64  `json:"epoch,omitempty"`
	Status    string `json:"status"` // converged, basis_limit, time_budget, interrupted or stalled
	Loss      string `json:"loss"`   // that was trained on
	Lambda    Number `json:"lambda"`
	Objective Number `json:"objective"`
	Form      string `json:"form,omitempty"` // convex, variational or update
	// to the optimum over all basis vectors; null but for convex models
	Gap         *Number `json:"gap"`
	GapRelative *Number `json:"gap_relative"`       // over the objective
	GapKind     string  `json:"gap_kind,omitempty"` // certified or estimated
	// what keeps a certified gap above the tolerance: weights, vectors or bound
	GapLimit string `json:"gap_limit,omitempty"`
	// to the optimum with the model's own basis vectors; null but for convex models
	BasisGap         *Number `json:"basis_gap"`
	BasisGapRelative *Number `json:"basis_gap_relative"` // over the objective
	// Σ of the sizes of the eigenvalues; of convex_fm alone, and not of updates
	NuclearNorm      *Number `json:"nuclear_norm,omitempty"`
	Solver           string  `json:"solver"` // the stages
	StochasticEpochs int     `json:"stochastic_epochs"`
	FISTAIterations  int     `json:"fista_iterations"`
	Sweeps           int     `json:"sweeps"`
	// over all rows after the gate: select and gate are from before
	HeldOutSweeps int `json:"held_out_sweeps,omitempty"`
	// largest magnitude of log odds that the rows support; readers clip outputs to it
	OutputLimit *Number `json:"output_limit,omitempty"`
	// how those of its variational stage began: anew, or from the last refit's
	Precisions   string             `json:"precisions,omitempty"`
	Evidence     *Number            `json:"evidence"`
	Warm         bool               `json:"warm"`
	Rows         int64              `json:"rows"` // trained on
	TrainSeconds Number             `json:"train_seconds"`
	Select       *Metrics           `json:"select"`
	Gate         *Metrics           `json:"gate"`
	ChampionGate *Metrics           `json:"champion_gate"`
	GateSlices   []GateSlice        `json:"gate_slices,omitempty"`
	Baselines    map[string]Metrics `json:"baselines,omitempty"`
	Decision     string             `json:"decision"` // promoted or kept
	Reason       string             `json:"reason"`
	// of the version consumers had, over the window before the cut
	Progressive *Metrics `json:"progressive,omitempty"`
	// of the daemon's live prediction over the same window: a mixture of parts
	Live     *Metrics  `json:"live,omitempty"`
	Parts    []Part    `json:"parts,omitempty"` // of that mixture
	Cut      []Cut     `json:"cut"`
	CutShort *CutShort `json:"cut_short,omitempty"` // nil if the time budget did not end the refit
	// half-life of training rows in events, 0 if they did not fade
	HorizonEvents int64 `json:"horizon_events,omitempty"`
	// fields with linear weights alone, for no interaction of theirs was clear
	MainEffects []string `json:"main_effects,omitempty"`
	// digest of the file with the sample and the start of the refit
	KeptSample string `json:"kept_sample,omitempty"`
	// of versions of earlier builds: digest of a file that shards read
	Posterior    string    `json:"posterior,omitempty"`
	Events       *Counts   `json:"events,omitempty"`              // of the records before the cut
	Watermark    time.Time `json:"event_time_watermark,omitzero"` // newest event time
	Lineage      string    `json:"lineage,omitempty"`
	SampleDigest string    `json:"sample_digest,omitempty"`
	ConfigHash   string    `json:"config_hash,omitempty"`
	Seed         *uint64   `json:"seed,omitempty"`
}

// GateSlice is the loss of a version on the gate rows whose entity of a field is known to its training rows, or new to
// them, and of a plain baseline.
type GateSlice struct {
	Field    string  `json:"field"`
	Known    bool    `json:"known"`
	N        int64   `json:"n"`
	Loss     *Number `json:"loss"`
	Baseline *Number `json:"baseline"`
}

// File is one file of a version, as the manifest vouches for it.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// Manifest is manifest.json: what a version is, where it comes from, and the digests of its files.
type Manifest struct {
	Format  int    `json:"format"` // at most FormatVersion
	Model   string `json:"model"`
	Version int64  `json:"version"` // 1, 2, … within a model
	Meta
	Kernel      string  `json:"kernel"`
	Degree      int     `json:"degree"` // of the kernel: 2 or 3
	Link        string  `json:"link"`
	NumFeatures int     `json:"features"`
	NumOutputs  int     `json:"outputs"`
	NumBasis    int     `json:"k"`
	Schema      Schema  `json:"schema"`
	FoldIn      *FoldIn `json:"fold_in,omitempty"`    // how rows of entities are made from their events: see Model.Fold
	NoFoldIn    string  `json:"no_fold_in,omitempty"` // why fold_in is missing, where the writer knew of it
	Files       []File  `json:"files"`
	// has the cut, and cut is empty, where the cut is large; scoring does not need it
	CutFile *File `json:"cut_file,omitempty"`
	// has what lists know of names that are chosen together; scoring does not need it
	CoChoices *File `json:"co_choices,omitempty"`
	// has rules of if and else that scores depend on
	Trees *File `json:"trees,omitempty"`
	// has what is known of entities, which scores depend on
	Tables        *File  `json:"tables,omitempty"`
	PayloadDigest string `json:"payload_digest"`                     // PayloadDigest of the contents
	Previous      string `json:"previous_manifest_digest,omitempty"` // Digest of the version that was the latest before
	// of the key that manifest.sig is made with; empty is unsigned
	KeyID  string `json:"key_id,omitempty"`
	Digest string `json:"-"` // of the manifest itself: its last line

	unknown error // names a member of the schema that only newer builds know; nil if there is no such member
}

// NewManifest describes contents; model, version and digests are filled in by Publish.
func NewManifest(c *Contents) Manifest {
	m := Manifest{
		Format:      formatOf(&c.Schema, c.degree(), c.Trees != nil, c.Tables != nil),
		Meta:        c.Meta,
		Kernel:      c.Kernel,
		Degree:      c.degree(),
		Link:        c.Link,
		NumFeatures: c.NumFeatures,
		NumOutputs:  c.NumOutputs,
		NumBasis:    c.NumBasis,
		Schema:      c.Schema,
	}
	var why string
	if m.FoldIn, why = fitFoldIn(c.FoldIn); m.FoldIn == nil {
		m.NoFoldIn = cmp.Or(why, c.NoFoldIn)
	}
	for _, t := range []*time.Time{&m.Created, &m.Expires, &m.Watermark} {
		*t = t.UTC().Truncate(time.Millisecond)
	}
	if m.Cut == nil {
		m.Cut = []Cut{}
	}
	return m
}

// manifestTail is the last line of every manifest of every format version: the SHA-256 of all the bytes before that
// line.
const (
	manifestTail = "  \"manifest_digest\": \"sha256:"
	manifestEnd  = "\"\n}\n"
	tailBytes    = len(manifestTail) + 2*sha256.Size + len(manifestEnd)
)

// Size returns how many bytes the files that the manifest lists have together.
func (m *Manifest) Size() (bytes int64) {
	for _, f := range m.ReadFiles() {
		bytes += f.Bytes
	}
	return bytes
}

// Encode returns the bytes of the manifest, which depend on its fields alone, and sets Digest: a field of the top level
// on each line, in the order of the struct, values without spaces.
func (m *Manifest) Encode() ([]byte, error) {
	var object bytes.Buffer
	enc := json.NewEncoder(&object)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	b, dec := []byte("{\n"), json.NewDecoder(&object)
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		b = fmt.Appendf(b, "  %q: %s,\n", key, value)
	}
	sum := disk.HexSum(b)
	m.Digest = "sha256:" + sum
	b = append(b, manifestTail+sum+manifestEnd...)
	if len(b) > MaxManifestBytes && m.FoldIn != nil {
		m.FoldIn, m.NoFoldIn = nil, noRoom
		return m.Encode()
	}
	if len(b) > MaxManifestBytes {
		return nil, fmt.Errorf("manifest of %d bytes, the limit is %d: fewer classes or partitions", len(b),
			MaxManifestBytes)
	}
	return b, nil
}

// DecodeManifest checks the digest of a manifest before it reads it. Unknown fields are ignored: the format may grow.
// Of what builds before Meta.Form wrote, the gap of a model that was not published is left out.
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	cut := len(b) - tailBytes
	if cut < 0 || len(b) > MaxManifestBytes {
		return m, fmt.Errorf("manifest.json of %d bytes: %w: publish the version again", len(b), disk.ErrDigest)
	}
	sum := disk.HexSum(b[:cut])
	if string(b[cut:]) != manifestTail+sum+manifestEnd {
		return m, fmt.Errorf("manifest.json does not end in the digest of the bytes before it, sha256:%s: %w: "+
			"take another version or publish again", sum, disk.ErrDigest)
	}
	var head struct {
		Format int             `json:"format"`
		Schema json.RawMessage `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return m, fmt.Errorf("manifest.json: %w: %v", disk.ErrFormat, err)
	}
	if head.Format > FormatVersion {
		return m, fmt.Errorf(
			"manifest.json: %w: format %d is newer than this build, which reads 1 to %d: use a newer build of refitd",
			disk.ErrFormat, head.Format, FormatVersion)
	}
	if head.Format < 1 {
		return m, fmt.Errorf("manifest.json: %w: format %d, this build reads 1 to %d: publish the version again",
			disk.ErrFormat, head.Format, FormatVersion)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("manifest.json: %w: %v", disk.ErrFormat, err)
	}
	if needs := formatOf(&m.Schema, m.Degree, m.Trees != nil, m.Tables != nil); m.Format < needs {
		return m, fmt.Errorf(
			"manifest.json: %w: what the version has is of format %d, not %d: publish it again",
			disk.ErrFormat, needs, m.Format)
	}
	m.Digest = "sha256:" + sum
	m.unknown = unknownMember(head.Schema)
	m.settleForm()
	return m, nil
}

// unknownMember returns an error that names a member of a schema, already read, that this build does not know.
func unknownMember(schema json.RawMessage) error {
	if len(schema) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.DisallowUnknownFields()
	return dec.Decode(new(Schema))
}

// CheckPayload returns ErrDigest unless the payload digest is that of the manifest's fields and files, and ErrFormat
// where it differs because the schema has members of a newer format.
func (m *Manifest) CheckPayload() error {
	digest, err := m.DigestPayload(m.Files[0].SHA256, m.Files[1].SHA256)
	switch {
	case err != nil:
		return fmt.Errorf("manifest.json: %w: %w", disk.ErrFormat, err)
	case digest == m.PayloadDigest:
		return nil
	case m.unknown != nil:
		return fmt.Errorf(
			"manifest.json: %w: scores depend on a part of the schema that this build does not know (%w): "+
				"the version is of a newer format: use a newer build of refitd",
			disk.ErrFormat,
			m.unknown,
		)
	}
	return fmt.Errorf("manifest.json: %w: payload_digest is %s, the files have %s", disk.ErrDigest, m.PayloadDigest,
		digest)
}

// PayloadDigest returns the digest over everything that scores depend on: schema, kernel, link, shape, vocabulary,
// parameters and trees. OutputLimit is not in it: the digest of the manifest covers that. It depends on neither times,
// versions nor metrics, so two runs that learned the same have the same digest. It returns ErrContents.
func PayloadDigest(c *Contents) (string, error) {
	c = c.Rounded()
	if err := c.Validate(); err != nil {
		return "", fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
	}
	tensors, err := EncodeTensors(c)
	if err != nil {
		return "", fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
	}
	names, err := EncodeVocabulary(c)
	if err != nil {
		return "", fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
	}
	m := NewManifest(c)
	if c.Trees != nil {
		b, err := c.Trees.Encode(&c.Schema)
		if err != nil {
			return "", fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
		}
		m.AddTrees(b)
	}
	if c.Tables != nil {
		b, err := EncodeTables(c.Tables)
		if err != nil {
			return "", fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
		}
		m.AddTables(b)
	}
	return m.DigestPayload(disk.HexSum(tensors), disk.HexSum(names))
}

// AddTrees notes the file of the trees.
func (m *Manifest) AddTrees(b []byte) {
	m.Trees = &File{Name: TreesFile, Bytes: int64(len(b)), SHA256: disk.HexSum(b)}
}

// AddTables notes the file of the tables.
func (m *Manifest) AddTables(b []byte) {
	m.Tables = &File{Name: TablesFile, Bytes: int64(len(b)), SHA256: disk.HexSum(b)}
}

// DigestPayload is the SHA-256 of three lines: the scoring fields of the manifest as JSON, and the hex digests of the
// two files; and of further lines where there are such files: that of the trees, and "tables" with that of the tables.
func (m *Manifest) DigestPayload(tensors, names string) (string, error) {
	head, err := json.Marshal(struct {
		Kernel      string `json:"kernel"`
		Degree      int    `json:"degree"`
		Link        string `json:"link"`
		NumFeatures int    `json:"features"`
		NumOutputs  int    `json:"outputs"`
		NumBasis    int    `json:"k"`
		Schema      Schema `json:"schema"`
	}{m.Kernel, m.Degree, m.Link, m.NumFeatures, m.NumOutputs, m.NumBasis, m.Schema.Digested()})
	if err != nil {
		return "", err
	}
	text := fmt.Appendf(nil, "%s\n%s\n%s\n", head, tensors, names)
	if m.Trees != nil {
		text = fmt.Appendf(text, "%s\n", m.Trees.SHA256)
	}
	if m.Tables != nil {
		text = fmt.Appendf(text, "tables %s\n", m.Tables.SHA256)
	}
	return "sha256:" + disk.HexSum(text), nil
}
