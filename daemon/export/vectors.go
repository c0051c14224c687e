package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/refitd/refitd/snapshot"
)

// VectorsHead says of which model and which field vectors are. It is the first line of JSON Lines, and the key-value
// metadata of Parquet files, where its names begin with "refitd_".
type VectorsHead struct {
	Model         string `json:"model"`
	Version       int64  `json:"version"`
	Sequence      int64  `json:"sequence"` // of the newest delta that is in them; 0 for none
	PayloadDigest string `json:"payload_digest"`
	Over          string `json:"over"` // field of the names
	Class         string `json:"class,omitempty"`
	Dim           int    `json:"dim"` // numbers of a vector, k + 1
}

// VectorsRow is a name with its vector: a row of Parquet, a line of JSON Lines.
type VectorsRow struct {
	Name string `json:"name"   parquet:"name"`
	// among names of equal value; null, behind them: known by tables alone
	Place  *int64    `json:"place"  parquet:"place,optional"`
	Vector []float64 `json:"vector" parquet:"vector,list"`
}

// vectorsHead describes the vectors of a model.
func vectorsHead(m *snapshot.Model, v *snapshot.Vectors, over, class string) VectorsHead {
	at := m.Position()
	return VectorsHead{m.Manifest().Model, at.Version, at.Sequence, at.PayloadDigest, over, class, v.Dim()}
}

// Vectors writes the vectors of the names of a field, as JSON Lines or as Parquet, and returns what they are and how
// many. It returns snapshot.ErrInput for a model that is no inner product.
func Vectors(w io.Writer, m *snapshot.Model, over, class string, asParquet bool) (head VectorsHead, rows int,
	err error) {
	v, err := m.Vectors(over, class)
	if err != nil {
		return head, 0, fmt.Errorf("export: %w", err)
	}
	head = vectorsHead(m, v, over, class)
	form := jsonVectors
	if asParquet {
		form = parquetVectors
	}
	write, end := form(w, &head)
	err = v.Each(func(name string, place int, vector []float64) error {
		rows++
		row := VectorsRow{Name: name, Vector: vector}
		if place >= 0 {
			row.Place = new(int64(place))
		}
		return write(row)
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		return head, rows, fmt.Errorf("export: vectors: %w", err)
	}
	return head, rows, nil
}

func jsonVectors(w io.Writer, head *VectorsHead) (write func(VectorsRow) error, end func() error) {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	err := lines.Encode(head)
	return func(r VectorsRow) error { return lines.Encode(r) }, func() error { return err }
}

func parquetVectors(w io.Writer, head *VectorsHead) (write func(VectorsRow) error, end func() error) {
	file := parquet.NewGenericWriter[VectorsRow](w, parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata("refitd_model", head.Model),
		parquet.KeyValueMetadata("refitd_version", strconv.FormatInt(head.Version, 10)),
		parquet.KeyValueMetadata("refitd_sequence", strconv.FormatInt(head.Sequence, 10)),
		parquet.KeyValueMetadata("refitd_payload_digest", head.PayloadDigest),
		parquet.KeyValueMetadata("refitd_over", head.Over), parquet.KeyValueMetadata("refitd_class", head.Class),
		parquet.KeyValueMetadata("refitd_dim", strconv.Itoa(head.Dim)))
	return func(r VectorsRow) error { _, err := file.Write([]VectorsRow{r}); return err }, file.Close
}
