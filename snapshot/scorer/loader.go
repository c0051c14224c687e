package scorer

import (
	"fmt"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Loader makes a model of the files of a version. The caller has verified them: a Loader asks only whether they make
// a model that scores as published. Form comes first; Parameters and Names may run at the same time; then
// CoChoices, Tables, Trees, FoldIn and Golden. After an error the model is not to be used.
type Loader struct{ m *Model }

// NewLoader begins a version, given its manifest, the key that signed it and when it expires.
func NewLoader(manifest *format.Manifest, signedBy string, expires time.Time) *Loader {
	return &Loader{&Model{manifest: *manifest, signedBy: signedBy, expires: expires, contents: format.Contents{
		Schema:      manifest.Schema,
		Kernel:      manifest.Kernel,
		Degree:      manifest.Degree,
		Link:        manifest.Link,
		NumFeatures: manifest.NumFeatures,
		NumOutputs:  manifest.NumOutputs,
		NumBasis:    manifest.NumBasis,
		FoldIn:      manifest.FoldIn,
		NoFoldIn:    manifest.NoFoldIn,
		Meta:        manifest.Meta,
	}}}
}

// Model returns the model.
func (l *Loader) Model() *Model { return l.m }

// Form returns ErrFormat unless the manifest is of a kernel and a shape that this build has.
func (l *Loader) Form() error {
	if l.m.manifest.Degree == 0 { // which Contents takes for 2
		return fmt.Errorf("manifest.json: %w: a kernel without a degree", disk.ErrFormat)
	}
	if err := l.m.contents.CheckShape(); err != nil {
		return fmt.Errorf("manifest.json: %w: %w", disk.ErrFormat, err)
	}
	return nil
}

// Parameters reads model.safetensors, which it may keep.
func (l *Loader) Parameters(b []byte) error {
	if err := format.DecodeTensors(&l.m.contents, b); err != nil {
		return err
	}
	if err := l.m.contents.CheckParameters(); err != nil {
		return fmt.Errorf("model.safetensors: %w: %w", disk.ErrFormat, err)
	}
	return nil
}

// Names reads the vocabulary.
func (l *Loader) Names(b []byte) error {
	if err := format.DecodeVocabulary(&l.m.contents, b); err != nil {
		return err
	}
	err := l.m.contents.CheckVocabulary()
	if err == nil {
		err = l.m.indexNames()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", disk.ErrFormat, err)
	}
	return nil
}

// CoChoices reads the file of that name; nil is none.
func (l *Loader) CoChoices(b []byte) error {
	if b == nil {
		return nil
	}
	x, err := format.DecodeCoChoices(b)
	if err != nil {
		return err
	}
	if err := x.Validate(&l.m.contents); err != nil {
		return fmt.Errorf("%s: %w: %w", format.CoChoicesFile, disk.ErrFormat, err)
	}
	l.m.contents.CoChoices = x
	return nil
}

// Tables reads the file of that name; nil is none.
func (l *Loader) Tables(b []byte) error {
	if b == nil {
		return nil
	}
	tables, err := format.DecodeTables(b)
	if err != nil {
		return err
	}
	if err := format.ValidateTables(tables, &l.m.contents.Schema); err != nil {
		return fmt.Errorf("%s: %w: %w", format.TablesFile, disk.ErrFormat, err)
	}
	l.m.contents.Tables = tables
	l.m.indexTables()
	return nil
}

// Trees reads the file of that name; nil is none. The model then has to say something.
func (l *Loader) Trees(b []byte) error {
	c := &l.m.contents
	if b != nil {
		x, err := format.DecodeTrees(b, &c.Schema)
		if err != nil {
			return err
		}
		if err := x.Validate(c); err != nil {
			return fmt.Errorf("%w: %w", disk.ErrFormat, err)
		}
		c.Trees = x
		l.m.indexTrees()
	}
	if err := c.CheckSaid(); err != nil {
		return fmt.Errorf("model.safetensors: %w: %w", disk.ErrFormat, err)
	}
	return nil
}

// FoldIn checks what the manifest says of the fold-in.
func (l *Loader) FoldIn() error {
	if err := l.m.manifest.FoldIn.Validate(&l.m.contents); err != nil {
		return fmt.Errorf("manifest.json: %w: %w", disk.ErrFormat, err)
	}
	return nil
}

// Golden scores the events of golden.jsonl and keeps them in the contents. It returns ErrGolden unless they score as
// published.
func (l *Loader) Golden(b []byte) error { return checkGolden(l.m, b) }

// Cut says where the events behind the version end, if that has no room in the manifest.
func (l *Loader) Cut(cut []format.Cut) { l.m.manifest.Cut, l.m.contents.Meta.Cut = cut, cut }
