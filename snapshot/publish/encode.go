package publish

import (
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
)

// encodeVersion returns the files of a version but the manifest, and the manifest without its version.
func encodeVersion(model string, c *format.Contents) (format.Manifest, []disk.StagedFile, error) {
	if !disk.ValidName.MatchString(model) {
		return format.Manifest{}, nil, fmt.Errorf("%w: model %q is not of the form %s", disk.ErrName, model, disk.ValidName)
	}
	m, err := scorer.BuildModel(c)
	if err != nil {
		return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
	}
	if c.Meta.Created.IsZero() {
		return format.Manifest{}, nil, fmt.Errorf("%w: Meta.Created is not set", disk.ErrContents)
	}
	files := []disk.StagedFile{{Name: disk.TensorsFile}, {Name: disk.VocabularyFile}, {Name: disk.GoldenFile}}
	for i, encode := range []func() ([]byte, error){
		func() ([]byte, error) { return format.EncodeTensors(c) },
		func() ([]byte, error) { return format.EncodeVocabulary(c) },
		func() ([]byte, error) { return scorer.EncodeGolden(m) },
	} {
		if files[i].Content, err = encode(); err != nil {
			return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
		}
	}
	manifest := format.NewManifest(c)
	manifest.Model = model
	for _, f := range files {
		manifest.Files = append(manifest.Files, format.File{Name: f.Name, Bytes: int64(len(f.Content)), SHA256: disk.HexSum(
			f.Content)})
	}
	if x := c.CoChoices; x != nil {
		b, err := x.Encode()
		if err != nil {
			return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
		}
		manifest.CoChoices = &format.File{Name: format.CoChoicesFile, Bytes: int64(len(b)), SHA256: disk.HexSum(b)}
		files = append(files, disk.StagedFile{Name: format.CoChoicesFile, Content: b})
	}
	if x := c.Trees; x != nil {
		b, err := x.Encode(&c.Schema)
		if err != nil {
			return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
		}
		manifest.AddTrees(b)
		files = append(files, disk.StagedFile{Name: format.TreesFile, Content: b})
	}
	if c.Tables != nil {
		b, err := format.EncodeTables(c.Tables)
		if err != nil {
			return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
		}
		manifest.AddTables(b)
		files = append(files, disk.StagedFile{Name: format.TablesFile, Content: b})
	}
	large, err := manifest.MoveCut()
	if err != nil {
		return format.Manifest{}, nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
	}
	if large != nil {
		files = append(files, *large)
	}
	manifest.PayloadDigest, err = manifest.DigestPayload(manifest.Files[0].SHA256, manifest.Files[1].SHA256)
	return manifest, files, err
}
