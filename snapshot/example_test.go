package snapshot_test

import (
	"fmt"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

func ExampleOpen() {
	m, err := snapshot.Open("testdata/v1", "ratings", snapshot.Selector{Alias: pointer.Champion})
	if err != nil {
		fmt.Println(err) // keep the model you have
		return
	}
	in, err := m.Schema().InputFromMap(map[string]any{"user": "u1", "item": "i9"})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := m.Predict(&in)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("version %d: level %.3f, unseen %v\n", m.Manifest().Version, p.Value, p.Unseen)
	// Output: version 1: level 1.728, unseen [item=i9]
}

func ExampleModel_Score() {
	m, err := snapshot.Open("testdata/v1", "ratings", snapshot.Selector{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var (
		scratch snapshot.Scratch // one for each goroutine
		outputs = make([]float64, m.NumOutputs())
		event   = snapshot.Input{Categorical: []string{"u1", ""}}
	)
	for _, item := range []string{"i1", "i2"} {
		event.Categorical[1] = item
		m.Score(outputs, &event, &scratch)
		fmt.Println(item, outputs)
	}
	// Output:
	// i1 [0.09375 0.40625]
	// i2 [0.296875 -1]
}

func ExampleModel_Explain() {
	m, err := snapshot.Open("testdata/v1", "ratings", snapshot.Selector{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := m.Explain(&snapshot.Input{Categorical: []string{"u1", "i2"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("outputs", e.Outputs)
	for _, term := range e.Terms[:3] { // the largest ones; all of them add up to the outputs
		fmt.Println(term.Features, term.Contribution)
	}
	// Output:
	// outputs [0.296875 -1]
	// [item=i2] [1 -1]
	// [] [-0.5 0.75]
	// [item=i2 (constant)] [-0.375 -0.71875]
}
