package posteriortest

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver"
)

// GroupedRatings returns ratings of users with an age and lists of tastes, and items with a year: fields user, age,
// tastes, item, year. ages is how many ages a user is seen with.
func GroupedRatings(r *rand.Rand, n, ages int, logistic bool) (*solver.Problem, []int32) {
	const users, items, perAge, tastes, years = 40, 30, 4, 6, 5
	p := Ratings(r, n, users, items, 2, logistic)
	firstItem := users + perAge + tastes
	d := firstItem + items + years
	x := solver.NewRows(d, n, 6*n)
	field := make([]int32, d)
	for j := range field {
		for _, start := range []int{users, users + perAge, firstItem, firstItem + items} {
			if j >= start {
				field[j]++
			}
		}
	}
	for i := range n {
		index, _ := p.X.Row(i)
		u, item := int(index[0]), int(index[1])-users
		age, taste := users+(u+i%ages)%perAge, users+perAge
		list := []int32{int32(u), int32(age), int32(taste + u%tastes)}
		value := []float64{1, 1, 1}
		if u%tastes < tastes-1 {
			list, value = append(list, int32(taste+u%tastes+1)), []float64{1, 1, math.Sqrt2 / 2, math.Sqrt2 / 2}
		}
		x.Append(append(list, int32(firstItem+item), int32(firstItem+items+item%years)), append(value, 1, 1))
	}
	p.X, p.Field, p.NumFields = x, field, 5
	return p, []int32{0, 0, 0, 3, 3}
}
