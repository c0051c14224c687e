package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot/format"
)

// A FeatureMap is auto, fourier:N, bins:N or products:2, a kind of format.FeatureMap with its Count, or empty for
// none.
type FeatureMap string

// autoMaps are what auto tries. A refit solves systems of all columns, so that there are at most maxMapColumns.
var autoMaps = []FeatureMap{"products:2", "fourier:200"}

const (
	autoProducts  = 300
	maxMapColumns = 4000
)

var errFeatureMap = errors.New(
	"is not a feature map: write auto, none, fourier:200 (2 to 4000 columns), bins:16 (2 or more of each field) or " +
		"products:2",
)

// UnmarshalText takes auto, none, fourier:N, bins:N or products:2.
func (f *FeatureMap) UnmarshalText(text []byte) error {
	switch *f = FeatureMap(text); *f {
	case Auto:
		return nil
	case "none":
		*f = ""
		return nil
	}
	kind, count := f.split()
	switch {
	case count < 2 || count > maxMapColumns:
		return errFeatureMap
	case kind == format.Fourier || kind == format.Bins || kind == format.Products && count == 2:
		return nil
	}
	return errFeatureMap
}

// MarshalText writes what UnmarshalText takes.
func (f FeatureMap) MarshalText() ([]byte, error) { return []byte(cmp.Or(f, "none")), nil }

// IsAuto reports whether a refit takes the map only where it predicts better.
func (f FeatureMap) IsAuto() bool { return f == Auto }

// IsProducts reports whether the map is that of products.
func (f FeatureMap) IsProducts() bool {
	kind, _ := f.split()
	return kind == format.Products
}

// Tried returns the maps that a refit chooses from for a number of numeric fields, the plainest first: for auto
// several, products among them unless there are more than autoProducts, else the one that is asked for, none without.
func (f FeatureMap) Tried(fields int) []FeatureMap {
	switch _, count := f.split(); {
	case f != Auto && count == 0:
		return nil
	case f != Auto:
		return []FeatureMap{f}
	case format.MapColumns(format.Products, 2, fields) > autoProducts:
		return autoMaps[1:]
	}
	return autoMaps
}

// Map returns the map that is asked for, by no means auto, of fields with the given scaling. values are the numbers of
// each field, for bins; seed is that of fourier.
func (f FeatureMap) Map(scaling []format.MapScaling, values [][]float64, seed uint64) *format.FeatureMap {
	switch kind, count := f.split(); kind {
	case format.Bins:
		return format.NewBins(count, scaling, values)
	case format.Products:
		return format.NewProducts(scaling)
	default:
		return format.NewFourier(count, seed, scaling)
	}
}

func (f FeatureMap) split() (kind string, count int) {
	kind, number, _ := strings.Cut(string(f), ":")
	count, err := strconv.Atoi(number)
	if err != nil {
		return "", 0
	}
	return kind, count
}

// NumColumns returns how many columns the map makes of a number of numeric fields: the most of those that auto tries.
func (f FeatureMap) NumColumns(fields int) int {
	most := 0
	for _, tried := range f.Tried(fields) {
		kind, count := tried.split()
		most = max(most, format.MapColumns(kind, count, fields))
	}
	return most
}

// featureMap checks a map that the configuration asks for.
func (v *validator) featureMap(m *Model, path string) {
	f, fields := m.Train.FeatureMap, len(m.Schema.Numeric)
	if f == "" || f.IsAuto() {
		return
	}
	kind, count := f.split()
	most := min(m.Train.MaxFeatures, maxMapColumns)
	switch columns := f.NumColumns(fields); {
	case fields == 0:
		v.bad(path, f, "none: the schema has no numeric fields to make columns of")
	case m.Train.Refit == "variational":
		v.bad(path, f, "auto or none, or train.refit: output: variational refits have no such columns")
	case columns > most && kind == format.Products:
		v.bad(
			path,
			f,
			fmt.Sprintf("none or fourier:200: it makes %d columns of %d numeric fields, and a map has at most %d",
				columns, fields, most),
		)
	case columns > maxMapColumns:
		v.bad(path, f, fmt.Sprintf("at most %s:%d: it makes %d columns of %d numeric fields, and a map has at most %d",
			kind, max(2, most*count/columns), columns, fields, maxMapColumns))
	case columns > m.Train.MaxFeatures:
		v.bad(
			path,
			f,
			fmt.Sprintf(
				"at most %s:%d, or train.max_features: %d: it makes %d columns of %d numeric fields, and train.max_features "+
					"allows %d",
				kind,
				max(2, most*count/columns),
				columns,
				columns,
				fields,
				m.Train.MaxFeatures,
			),
		)
	}
}
