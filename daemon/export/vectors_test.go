package export

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// TestVectors: JSON Lines and Parquet have the same names and numbers, those of the library, and say of which version.
func TestVectors(t *testing.T) {
	c := &format.Contents{
		Schema: format.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user", "item"}},
		Kernel: format.ANOVA, Link: format.Identity, NumFeatures: 3, NumOutputs: 1, NumBasis: 2, Basis: []float64{1, 2, 3, 4,
			5, 6}, Weights: []float64{0.5, -2}, Linear: []float64{7, 8, 9}, Bias: []float64{3},
		Vocabulary: [][]string{{"u"}, {"a\"", "b"}},
		Golden:     []format.Golden{{Input: format.Input{Categorical: []string{"u", "b"}}}}}
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []VectorsRow{{"a\"", new(int64(1)), []float64{8, 3, 4}}, {"b", new(int64(2)), []float64{9, 5, 6}}}
	var lines, file bytes.Buffer
	head, rows, err := Vectors(&lines, m, "item", "", false)
	if err != nil || rows != 2 || head.Dim != 3 || head.Over != "item" {
		t.Errorf("%+v of %d rows: %v", head, rows, err)
	}
	read := json.NewDecoder(&lines)
	var said VectorsHead
	if err := read.Decode(&said); err != nil || said != head {
		t.Errorf("first line %+v, want %+v: %v", said, head, err)
	}
	for i := range want {
		var row VectorsRow
		if err := read.Decode(&row); err != nil || !reflect.DeepEqual(row, want[i]) {
			t.Errorf("line %d is %+v: %v", i+2, row, err)
		}
	}
	if _, _, err := Vectors(&file, m, "item", "", true); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[VectorsRow](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parquet has %+v, want %+v: %v", got, want, err)
	}
	opened, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if dim, _ := opened.Lookup("refitd_dim"); dim != "3" {
		t.Errorf("the metadata says %q numbers", dim)
	}
	v, err := m.Vectors("item", "")
	if err != nil {
		t.Fatal(err)
	}
	query, offset, err := v.Query(nil, &snapshot.Input{Categorical: []string{"u", "b"}}, new(snapshot.Scratch))
	if err != nil || !reflect.DeepEqual(query, []float64{1, 0.5, -4}) || offset != 10 {
		t.Errorf("query %v, %g: %v", query, offset, err)
	}
}
