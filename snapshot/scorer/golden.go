package scorer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// goldenTolerance allows for sums rounded differently on another processor (fused multiply-add), relative to 1 +
// |want|.
const goldenTolerance = 1e-9

// trainerTolerance is that of a published model to the trainer's own outputs, which know nothing of parameters rounded
// to F32.
func trainerTolerance(c *format.Contents) float64 {
	if c.Tensors == format.F32 {
		return 1e-5
	}
	return goldenTolerance
}

// goldenLine is a line of golden.jsonl. Prediction is Prediction.Label.
type goldenLine struct {
	Event      map[string]any `json:"event"`
	Outputs    []float64      `json:"outputs"`
	Prediction any            `json:"prediction"`
}

// EncodeGolden scores the golden events of m and returns golden.jsonl, or an error if the trainer's outputs were
// others.
func EncodeGolden(m *Model) ([]byte, error) {
	if len(m.contents.Golden) == 0 {
		return nil, fmt.Errorf("no golden events: pass at least one, readers test themselves on them")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i := range m.contents.Golden {
		g := &m.contents.Golden[i]
		p, err := m.predict(&g.Input)
		if err != nil {
			return nil, fmt.Errorf("golden event %d: %w", i, err)
		}
		if g.Outputs != nil && !rowmath.CloseTo(p.Outputs, g.Outputs, trainerTolerance(&m.contents)) {
			return nil, fmt.Errorf("golden event %d scores %v, the trainer says %v: %w", i, p.Outputs, g.Outputs,
				disk.ErrGolden)
		}
		if err := enc.Encode(goldenLine{m.contents.Schema.ToMap(&g.Input), p.Outputs, p.Label()}); err != nil {
			return nil, fmt.Errorf("golden event %d: %w", i, err)
		}
	}
	if buf.Len() > format.MaxGoldenBytes {
		return nil, fmt.Errorf("golden events of %d bytes, the limit is %d: pass fewer", buf.Len(), format.MaxGoldenBytes)
	}
	return buf.Bytes(), nil
}

// checkGolden scores the events of golden.jsonl and keeps them in the contents.
func checkGolden(m *Model, b []byte) error {
	for number := 1; len(b) > 0; number++ {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		var g goldenLine
		if err := json.Unmarshal(line, &g); err != nil {
			return fmt.Errorf("golden.jsonl, line %d: %w: %v", number, disk.ErrFormat, err)
		}
		in, err := m.contents.Schema.InputOf(g.Event)
		if err != nil {
			return fmt.Errorf("golden.jsonl, line %d: %w: %w", number, disk.ErrFormat, err)
		}
		p, err := m.predict(&in)
		if err != nil {
			return fmt.Errorf("golden.jsonl, line %d: %w: %w", number, disk.ErrGolden, err)
		}
		if !rowmath.CloseTo(p.Outputs, g.Outputs, goldenTolerance) {
			return fmt.Errorf(
				"golden.jsonl, line %d: %w: outputs %v, published with %v: use the build of refitd that wrote the version",
				number,
				disk.ErrGolden,
				p.Outputs,
				g.Outputs,
			)
		}
		// Names are not compared: outputs that are equal but for rounding may lie on either side of a tie.
		if want, ok := g.Prediction.(float64); ok && m.contents.Schema.Task != format.Binary &&
			!rowmath.CloseTo([]float64{p.Value}, []float64{want}, goldenTolerance) {
			return fmt.Errorf(
				"golden.jsonl, line %d: %w: prediction %g, published with %g: use the build of refitd that wrote the version",
				number,
				disk.ErrGolden,
				p.Value,
				want,
			)
		}
		m.contents.Golden = append(m.contents.Golden, format.Golden{Input: in, Outputs: g.Outputs})
	}
	if len(m.contents.Golden) == 0 {
		return fmt.Errorf("golden.jsonl: %w: no golden events", disk.ErrFormat)
	}
	return nil
}
