package config

import (
	"slices"
	"strings"
	"testing"
)

const numbersAlone = `
kafka: {bootstrap_servers: ["b:9092"], group_id: g}
storage: {path: state}
models:
  - name: m
    input: {topics: [t]}
    schema: {task: regression, label: y, numeric: [x, z]}
    train: {max_features: 300, feature_map: "MAP", refit: output}
`

func TestFeatureMap(t *testing.T) {
	for _, test := range []struct {
		text   string
		tried  []FeatureMap
		column int
		auto   bool
	}{{"auto", []FeatureMap{"products:2", "fourier:200"}, 200, true}, {"none", nil, 0, false}, {"fourier:50",
		[]FeatureMap{"fourier:50"}, 50, false},
		{"bins:16", []FeatureMap{"bins:16"}, 32, false}, {"products:2", []FeatureMap{"products:2"}, 5, false}} {
		c, problems := parse(t, strings.ReplaceAll(numbersAlone, "MAP", test.text))
		if problems != nil {
			t.Fatalf("%s: %+v", test.text, problems)
		}
		f := c.Models[0].Train.FeatureMap
		text, err := f.MarshalText()
		if err != nil || string(text) != test.text || !slices.Equal(f.Tried(2), test.tried) ||
			f.NumColumns(2) != test.column ||
			f.IsAuto() != test.auto {
			t.Errorf("%s: tries %v, %d columns, auto %t, written as %s (%v)", test.text, f.Tried(2), f.NumColumns(2),
				f.IsAuto(), text, err)
		}
	}
	if tried := FeatureMap(Auto).Tried(24); !slices.Equal(tried, []FeatureMap{"fourier:200"}) {
		t.Errorf("of 24 fields, which have more than %d products, auto tries %v", autoProducts, tried)
	}
}

// A map that cannot be is refused with its place and what to write.
func TestFeatureMapRefused(t *testing.T) {
	names := strings.ReplaceAll(numbersAlone, "numeric: [x, z]", "categorical: [u], numeric: [x]")
	for _, test := range []struct{ config, text, want string }{
		{numbersAlone, "fourier", "write auto, none, fourier:200"},
		{numbersAlone, "fourier:1", "write auto, none, fourier:200"},
		{numbersAlone, "bins:99999999999999999999", "write auto, none, fourier:200"},
		{numbersAlone, "fourier:4001", "write auto, none, fourier:200"},
		{strings.ReplaceAll(numbersAlone, "max_features: 300", "max_features: 9000"), "bins:3000", "at most bins:2000"},
		{numbersAlone, "products:3", "write auto, none, fourier:200"},
		{numbersAlone, "products", "write auto, none, fourier:200"},
		{strings.ReplaceAll(numbersAlone, "max_features: 300", "max_features: 4"), "products:2",
			"it makes 5 columns of 2 numeric fields"},
		{numbersAlone, "wavelets:3", "write auto, none, fourier:200"},
		{numbersAlone, "fourier:301", "at most fourier:300, or train.max_features: 301"},
		{numbersAlone, "bins:151", "at most bins:150, or train.max_features: 302"},
		{strings.ReplaceAll(numbersAlone, "numeric: [x, z]", "categorical: [u]"), "fourier:20", "no numeric fields"},
		{strings.ReplaceAll(names, "refit: output", "refit: auto"), "fourier:20", "train.refit: output"},
	} {
		_, problems := parse(t, strings.ReplaceAll(test.config, "MAP", test.text))
		if len(problems) != 1 || !strings.HasSuffix(problems[0].Key, "train.feature_map") || problems[0].Line != 8 ||
			!strings.Contains(problems[0].Message, test.want) {
			t.Errorf("%s: %+v, want one problem that says %q", test.text, problems, test.want)
		}
	}
	if _, problems := parse(t, strings.ReplaceAll(names, "MAP", "fourier:20")); problems != nil {
		t.Errorf("a map together with names without variational refits: %+v", problems)
	}
}

// A champion of a build without maps is carried over under auto.
func TestFeatureMapHash(t *testing.T) {
	hash := func(text string) string {
		c, problems := parse(t, strings.ReplaceAll(numbersAlone, "MAP", text))
		if problems != nil {
			t.Fatal(problems)
		}
		return c.Models[0].Hash()
	}
	if hash("auto") != hash("none") {
		t.Error("auto and none differ in their hash")
	}
	if hash("auto") == hash("fourier:200") {
		t.Error("auto and a map differ not in their hash")
	}
}
