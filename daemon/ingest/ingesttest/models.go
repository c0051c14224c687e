package ingesttest

import (
	"time"

	"github.com/refitd/refitd/daemon/config"
)

// Ratings returns a model of ratings from 1 to 5 in topic t, whose sample has so many rows.
func Ratings(size int) *config.Model {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "ratings", []string{"t"}
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	m.Train.MaxBasis = 8
	seed := uint64(1)
	m.Sample.Seed, m.Sample.Size = &seed, size
	m.Resolve()
	return &m
}

// Clicks returns a model of impressions in topic seen whose clicks come in topic clicked, within ten seconds; its
// sample has so many rows.
func Clicks(size int) *config.Model {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "clicks", []string{"seen"}
	m.Input.Outcomes = config.Outcomes{Topics: []string{"clicked"}, Reward: config.RewardFirst,
		Key: config.OutcomeKey{Impression: "id", Outcome: "of"}, Time: "ts", Window: config.Duration(10 * time.Second)}
	m.Schema = config.Schema{Task: "binary", Label: "click", Time: "ts", TimeUnit: "ms",
		Categorical: []string{"user", "item"}, Identity: "id", LabelLater: true}
	seed := uint64(1)
	m.Sample.Seed, m.Sample.Size, m.Sample.Holdout.Fraction = &seed, size, 0.2
	m.Resolve()
	return &m
}
