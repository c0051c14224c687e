package experiment

import (
	"math"

	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/solver"
)

// ratingQuality is how good a model of ratings is: the error of its predictions clipped to the levels, and the
// normalised discounted cumulative gain, gain 2^level − 1, mean over the users with rated items, ties in the order of
// the rows.
type ratingQuality struct{ rmse, ndcg1, ndcg5 float64 }

// predictions returns the predicted levels of the given rows: the expected level of McRank, else the output itself.
func (s *ratingSet) predictions(m *solver.Model, rows []int) []float64 {
	outputs, work := make([]float64, m.NumOutputs), make([]float64, 2*m.NumBasis)
	out := make([]float64, len(rows))
	for i, row := range rows {
		index, value := s.x.Row(row)
		m.Predict(outputs, work, index, value)
		if out[i] = outputs[0]; m.NumOutputs > 1 {
			out[i] = solver.ExpectedLevel(outputs)
		}
	}
	return out
}

// rmse is the root mean squared error of a model on the given rows, predictions clipped.
func (s *ratingSet) rmse(m *solver.Model, rows []int) float64 {
	total := 0.0
	for i, p := range s.predictions(m, rows) {
		e := min(max(p, 1), numLevels) - s.level[rows[i]]
		total += e * e
	}
	return math.Sqrt(total / float64(len(rows)))
}

func (s *ratingSet) quality(m *solver.Model, rows []int) ratingQuality {
	return s.judge(s.predictions(m, rows), rows)
}

func (s *ratingSet) judge(predictions []float64, rows []int) ratingQuality {
	errors, ranking := quality.NewNumberAccumulator(1, numLevels), quality.NewRanking()
	for i, row := range rows {
		errors.AddNumber(0, predictions[i], s.level[row])
		ranking.Add(s.user[row], predictions[i], s.level[row])
	}
	return ratingQuality{rmse: float64(*errors.Metrics().RMSE), ndcg1: ranking.NDCG(1), ndcg5: ranking.NDCG(5)}
}
