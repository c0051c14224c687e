package config

import (
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
		text, kind    string
		count, column int
		auto          bool
	}{{"auto", "fourier", 200, 200, true}, {"none", "", 0, 0, false}, {"fourier:50", "fourier", 50, 50, false}, {"bins:16", "bins", 16, 32, false}} {
		c, problems := parse(t, strings.ReplaceAll(numbersAlone, "MAP", test.text))
		if problems != nil {
			t.Fatalf("%s: %+v", test.text, problems)
		}
		f := c.Models[0].Train.FeatureMap
		kind, count := f.Tried()
		text, err := f.MarshalText()
		if err != nil || string(text) != test.text || kind != test.kind || count != test.count || f.NumColumns(2) != test.column || f.IsAuto() != test.auto {
			t.Errorf("%s: %s:%d with %d columns, auto %t, written as %s (%v)", test.text, kind, count, f.NumColumns(2), f.IsAuto(), text, err)
		}
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
		t.Errorf("a map beside names without variational refits: %+v", problems)
	}
}

// A champion of a build without maps goes on under auto.
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
