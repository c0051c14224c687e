package guess

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/daemon/dataset"
)

// chanceOfFunction is how likely a field that does not depend on another may look like a function of it. Chosen by
// hand: with some hundreds of pairs of columns, one in thousands of files has a wrong guess.
const chanceOfFunction = 1e-6

// findFunctions says of fields that are functions of a categorical one, such as the genre of an item, whose they are.
// Of several it is the one with the fewest names, and never one that is itself a function of another.
func (g *guess) findFunctions(columns []*dataset.Column) {
	byName := make(map[string]*dataset.Column)
	for _, c := range columns {
		byName[c.Name] = c
	}
	isFunction := func(name, of string) bool {
		return name != of && byName[of].Distinct() > byName[name].Distinct() && dependsOn(byName[name], byName[of])
	}
	s := &g.schema
	roots := make([]string, 0, len(s.Categorical))
	for _, name := range s.Categorical {
		root := true
		for _, of := range s.Categorical {
			root = root && !isFunction(name, of)
		}
		if root {
			roots = append(roots, name)
		}
	}
	for i := range g.fields {
		f := &g.fields[i]
		if f.Use != "categorical" && f.Use != "numeric" && f.Use != "multi" {
			continue
		}
		best := ""
		for _, root := range roots {
			if isFunction(f.Name, root) && (best == "" || byName[root].Distinct() < byName[best].Distinct()) {
				best = root
			}
		}
		if best == "" {
			continue
		}
		if s.Of == nil {
			s.Of = make(map[string]string)
		}
		s.Of[f.Name] = best
		f.Why += fmt.Sprintf(", always the same of one %s", best)
	}
}

// dependsOn reports whether the first rows show that a column is a function of another: rows with the same value there
// have the same here, and so many that this is no chance.
func dependsOn(c, of *dataset.Column) bool {
	values, keys := c.Head(), of.Head()
	first, counts := make(map[int32]int32), make(map[int32]float64)
	repeats, rows := 0.0, 0.0
	for row := range min(len(values), len(keys)) {
		counts[values[row]]++
		rows++
		if keys[row] < 0 {
			continue
		}
		if was, known := first[keys[row]]; !known {
			first[keys[row]] = values[row]
		} else if was != values[row] {
			return false
		} else {
			repeats++
		}
	}
	if len(counts) < 2 {
		return false
	}
	agree := 0.0 // the probability that two rows have the same value
	for _, n := range counts {
		agree += n / rows * n / rows
	}
	return repeats*math.Log(agree) < math.Log(chanceOfFunction)
}
