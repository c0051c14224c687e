package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot"
)

// A FeatureMap is auto, fourier:N or bins:N, a kind of snapshot.FeatureMap with its Count, or empty for none.
type FeatureMap string

// autoFourier is what auto tries. A refit solves systems of all columns, so that there are at most maxMapColumns.
const (
	autoFourier   = 200
	maxMapColumns = 4000
)

var errFeatureMap = errors.New("is not a feature map: write auto, none, fourier:200 (2 to 4000 columns) or bins:16 (2 or more of each field)")

// UnmarshalText takes auto, none, fourier:N or bins:N.
func (f *FeatureMap) UnmarshalText(text []byte) error {
	switch *f = FeatureMap(text); *f {
	case Auto:
		return nil
	case "none":
		*f = ""
		return nil
	}
	if kind, count := f.Tried(); count < 2 || count > maxMapColumns || kind != snapshot.Fourier && kind != snapshot.Bins {
		return errFeatureMap
	}
	return nil
}

// MarshalText writes what UnmarshalText takes.
func (f FeatureMap) MarshalText() ([]byte, error) { return []byte(cmp.Or(f, "none")), nil }

// IsAuto reports whether a refit takes the map only where it predicts the select rows better.
func (f FeatureMap) IsAuto() bool { return f == Auto }

// Tried returns the kind and Count of the map that a refit makes: auto tries one of fourier. They are zero without a map.
func (f FeatureMap) Tried() (kind string, count int) {
	if f == Auto {
		return snapshot.Fourier, autoFourier
	}
	kind, number, _ := strings.Cut(string(f), ":")
	count, err := strconv.Atoi(number)
	if err != nil {
		return "", 0
	}
	return kind, count
}

// NumColumns returns how many columns the map makes of a number of numeric fields.
func (f FeatureMap) NumColumns(fields int) int {
	kind, count := f.Tried()
	if kind == snapshot.Bins {
		return fields * count
	}
	return count
}

// featureMap checks a map that the configuration asks for.
func (v *validator) featureMap(m *Model, path string) {
	f, fields := m.Train.FeatureMap, len(m.Schema.Numeric)
	if f == "" || f.IsAuto() {
		return
	}
	kind, count := f.Tried()
	most := min(m.Train.MaxFeatures, maxMapColumns)
	switch columns := f.NumColumns(fields); {
	case fields == 0:
		v.bad(path, f, "none: the schema has no numeric fields to make columns of")
	case m.Train.Refit == "variational":
		v.bad(path, f, "auto or none, or train.refit: output: variational refits have no such columns")
	case columns > maxMapColumns:
		v.bad(path, f, fmt.Sprintf("at most %s:%d: it makes %d columns of %d numeric fields, and a map has at most %d",
			kind, max(2, most*count/columns), columns, fields, maxMapColumns))
	case columns > m.Train.MaxFeatures:
		v.bad(path, f, fmt.Sprintf("at most %s:%d, or train.max_features: %d: it makes %d columns of %d numeric fields, and train.max_features allows %d",
			kind, max(2, most*count/columns), columns, columns, fields, m.Train.MaxFeatures))
	}
}
