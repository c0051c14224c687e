package cycletest

import (
	"fmt"
	"math/rand/v2"

	"github.com/refitd/refitd/daemon/config"
)

// AmountsModel is a small regression of two names and two numbers.
func AmountsModel(change func(*config.Model)) *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Schema = config.Schema{
			Task:        "regression",
			Label:       "amount",
			Weight:      "w",
			TimeUnit:    "ms",
			Categorical: []string{"user", "item"},
			Numeric:     []string{"a", "b"},
		}
		if change != nil {
			change(m)
		}
	})
}

// Amounts draws events of AmountsModel as JSON, with n times the given text in place of the named field.
func Amounts(seed uint64, n int, field, text string, times int) []string {
	r := rand.New(rand.NewPCG(seed, 3))
	lines := make([]string, n)
	for i := range lines {
		a, b := r.NormFloat64(), r.NormFloat64()
		user, item := r.IntN(30), r.IntN(20)
		fields := map[string]string{
			"a":      fmt.Sprint(a),
			"b":      fmt.Sprint(b),
			"w":      "1",
			"amount": fmt.Sprint(float64(user%5) + 0.3*a - a*b + 0.3*r.NormFloat64()),
		}
		if (i+1)%(n/times) == 0 {
			fields[field] = text
		}
		lines[i] = fmt.Sprintf(`{"user":"u%d","item":"i%d","a":%s,"b":%s,"w":%s,"amount":%s}`, user, item, fields["a"],
			fields["b"], fields["w"], fields["amount"])
	}
	return lines
}

func RegressionModel() *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.LabelMin, m.Schema.LabelMax = "regression", 0, 1, 5
		m.Train.Loss, m.Train.FoldIn.By = "squared", []string{"user"}
	})
}
