package web

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestThousandEvents: for every task, kernel and type of tensors HTTP answers 1,000 random events as the library does,
// to the last bit, in both of its forms; and with F32 tensors within 1e-5(1+|o|) of what F64 ones give.
func TestThousandEvents(t *testing.T) {
	tier.NotUnderRace(t)
	const events = 1000
	b := newBench(t)
	worst := 0.0
	for name, task := range tasks {
		for _, kernel := range []string{format.ANOVA, format.Homogeneous, format.ANOVA + "3", format.Homogeneous +
			"3", "none"} {
			var double [][]float64
			for _, tensors := range []string{format.F64, format.F32} {
				c := contents(task, 7)
				c.Kernel, c.Tensors = kernel, tensors
				switch cubic, isCubic := strings.CutSuffix(kernel, "3"); {
				case isCubic:
					c.Kernel, c.Degree = cubic, 3
				case kernel == "none": // as the models of a margin loss are
					c.Kernel, c.NumBasis, c.Basis, c.Weights = format.ANOVA, 0, nil, nil
				}
				version := b.publish(t, name, c)
				m := open(t, b.dir, name, version)
				rng := rand.New(rand.NewPCG(8, 9))
				var list []any
				var inputs []*snapshot.Input
				user, item, age, first := make([]string, events), make([]string,
					events), make([]float64, events), make([]string, events)
				for i := range events {
					user[i], item[i], age[i], first[i] = "u"+strconv.Itoa(rng.IntN(5)), "i"+strconv.Itoa(
						rng.IntN(6)), 40+15*rng.NormFloat64(), []string{"a", "b",
						"c", "zz"}[rng.IntN(4)]
					list, inputs = append(list, ratingEvent(user[i], item[i], age[i], first[i])), append(inputs,
						input(user[i], item[i], age[i], first[i]))
				}
				var got scoreReply
				b.want(http.StatusOK, &got, "POST",
					"/v1/models/"+name+"/versions/"+strconv.FormatInt(version, 10)+"/score",
					map[string]any{"events": list})
				var inferred inferAnswer
				b.want(
					http.StatusOK,
					&inferred,
					"POST",
					"/v2/models/"+name+"/versions/"+strconv.FormatInt(version, 10)+"/infer",
					map[string]any{"inputs": []any{
						map[string]any{"name": "user", "shape": []int{events}, "datatype": "BYTES", "data": user},
						map[string]any{"name": "item", "shape": []int{events}, "datatype": "BYTES", "data": item},
						map[string]any{"name": "age", "shape": []int{events}, "datatype": "FP64", "data": age},
						map[string]any{"name": "tags", "shape": []int{events, 1}, "datatype": "BYTES", "data": first},
					}},
				)
				var tensor []any
				for _, o := range inferred.Outputs {
					if o.Name == "outputs" {
						tensor = o.Data
					}
				}
				if len(got.Predictions) != events || len(tensor) != events*c.NumOutputs {
					t.Fatalf("%s: %d predictions, a tensor of %d numbers", name, len(got.Predictions), len(tensor))
				}
				for i, in := range inputs {
					want, err := m.Predict(in)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.Predictions[i].Ranked, want.Ranked()) ||
						(want.Ranked() != nil) != (task == format.Multiclass) {
						t.Fatalf("%s %s, event %d: ranked %q over HTTP, %q in the library", name, kernel, i,
							got.Predictions[i].Ranked, want.Ranked())
					}
					for o, w := range want.Outputs {
						if g := got.Predictions[i].Outputs[o]; g != w || tensor[i*c.NumOutputs+o] != w {
							t.Fatalf("%s %s %s, event %d: %v and %v over HTTP, %v in the library", name, kernel,
								tensors, i, g, tensor[i*c.NumOutputs+o], w)
						}
						if tensors == format.F32 {
							worst = max(worst, math.Abs(w-double[i][o])/(1+math.Abs(double[i][o])))
						}
					}
					if tensors == format.F64 {
						double = append(double, append([]float64(nil), want.Outputs...))
					}
				}
			}
		}
	}
	if worst > 1e-5 {
		t.Errorf("F32 tensors give outputs that differ by %g(1+|o|)", worst)
	}
	t.Logf("F32 tensors differ from F64 by %.1e(1+|o|) at most (bar 1e-5); HTTP from the library by nothing", worst)
}

// TestThousandEventsRankedAndExplained: of models of degree 3 and of a margin loss HTTP gives for 1,000 random events
// the items and the terms of the library, to the last bit, in both types of tensors.
func TestThousandEventsRankedAndExplained(t *testing.T) {
	tier.NotUnderRace(t)
	b := newBench(t)
	for kernel, name := range map[string]string{format.ANOVA: "prices", format.Homogeneous: "ratings",
		"none": "colours"} {
		for _, tensors := range []string{format.F64, format.F32} {
			c := contents(tasks[name], 7)
			c.Kernel, c.Degree, c.Tensors = kernel, 3, tensors
			if kernel == "none" {
				c.Kernel, c.Degree, c.NumBasis, c.Basis, c.Weights = format.ANOVA, 2, 0, nil, nil
			}
			m := open(t, b.dir, name, b.publish(t, name, c))
			rng := rand.New(rand.NewPCG(8, 9))
			for i := range 1000 {
				user, item, age, tag := "u"+strconv.Itoa(rng.IntN(5)), "i"+strconv.Itoa(
					rng.IntN(6)), 40+15*rng.NormFloat64(), []string{"a", "b", "zz"}[rng.IntN(3)]
				event, in := ratingEvent(user, item, age, tag), input(user, item, age, tag)
				class := ""
				if len(c.Schema.Classes) > 0 {
					class = c.Schema.Classes[i%len(c.Schema.Classes)]
				}
				var top topAnswer
				b.want(http.StatusOK, &top, "POST", "/v1/models/"+name+"/topk",
					map[string]any{"event": event, "over": "item", "k": 3, "class": class})
				want, err := m.TopK(nil, &snapshot.Query{Input: *in, Over: "item", K: 3, Class: class},
					new(snapshot.Scratch))
				if err != nil ||
					!slices.EqualFunc(top.Items, want,
						func(a topItem, b snapshot.Item) bool { return a == topItem{b.Name, report.Number(b.Value)} }) {
					t.Fatalf("%s %s, event %d: %v over HTTP, %v in the library, %v", name, tensors, i, top.Items, want,
						err)
				}
				var explained struct {
					Outputs []float64
					Terms   []snapshot.Term
				}
				b.want(http.StatusOK, &explained, "POST", "/v1/models/"+name+"/explain", map[string]any{"event": event})
				e, err := m.Explain(in)
				if err != nil || !slices.Equal(explained.Outputs, e.Outputs) ||
					!slices.EqualFunc(explained.Terms, e.Terms, func(a, b snapshot.Term) bool {
						return slices.Equal(a.Features, b.Features) && slices.Equal(a.Contribution, b.Contribution)
					}) {
					t.Fatalf("%s %s, event %d: %+v over HTTP, %+v in the library, %v", name, tensors, i, explained, e,
						err)
				}
			}
		}
	}
}
