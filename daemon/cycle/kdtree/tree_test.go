package kdtree

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTree: children share the rows of their parent, leaves are small unless all their rows are equal, values are those
// of the rows, and no row of a node is nearer to a point than DistanceTo says, but for rounding. A tree that is built
// again forgets the rows before.
func TestTree(t *testing.T) {
	const d = 3
	r := rand.New(rand.NewPCG(3, 1))
	var tree Tree
	for _, n := range []int{1, leafRows, 500, 3000} {
		values := make([]float32, n*d)
		for i := range values {
			if values[i] = float32(r.NormFloat64()); i%d == 1 {
				values[i] = float32(math.Round(float64(values[i]))) // ties
			}
		}
		rows := make([]int32, n)
		for i := range rows {
			rows[i] = int32(n - 1 - i)
		}
		tree.Build(values, rows, d)
		if sorted := slices.Sorted(slices.Values(tree.Rows)); sorted[0] != 0 || sorted[n-1] != int32(n-1) ||
			len(slices.Compact(sorted)) != n {
			t.Fatalf("%d rows: the tree has others", n)
		}
		for i, row := range tree.Rows {
			if !slices.Equal(tree.Values[i*d:i*d+d], values[int(row)*d:int(row+1)*d]) {
				t.Fatalf("%d rows: place %d has not the values of row %d", n, i, row)
			}
		}
		point := []float32{float32(r.NormFloat64()), 0.5, float32(r.NormFloat64())}
		for at, node := range tree.Nodes {
			if node.Second == 0 {
				if node.To-node.From > leafRows {
					t.Errorf("%d rows: a leaf of %d", n, node.To-node.From)
				}
			} else if a, b := tree.Nodes[at+1], tree.Nodes[node.Second]; a.From != node.From || a.To != b.From ||
				b.To != node.To {
				t.Errorf("%d rows: the children of %v are %v and %v", n, node, a, b)
			}
			nearest := math.Inf(1)
			for i := int(node.From); i < int(node.To); i++ {
				sum := 0.0
				for f, v := range tree.Values[i*d : i*d+d] {
					sum += math.Pow(float64(v-point[f]), 2)
				}
				nearest = min(nearest, sum)
			}
			if got := float64(tree.DistanceTo(at, point, float32(math.Inf(1)))); !(got <= nearest*(1+1e-5)) {
				t.Errorf("%d rows: node %d is %g from the point, its nearest row %g", n, at, got, nearest)
			}
			if got := tree.DistanceTo(at, point, 0); nearest > 0 && got > 0 &&
				tree.DistanceTo(at, point, got/2) <= got/2 {
				t.Errorf("%d rows: node %d is within half of its distance", n, at)
			}
		}
		whole := tree.DistanceTo(0, tree.Values[:d], 0)
		if whole != 0 {
			t.Errorf("%d rows: a row is %g from the box of all", n, whole)
		}
	}
}
