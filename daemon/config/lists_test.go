package config

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestListWeights: the weight of a list reaches the decoder's schema and is part of what versions depend on, not of
// what rows do; mean is the same as none.
func TestListWeights(t *testing.T) {
	of := func(multi string) *Model {
		c, problems := parse(t,
			strings.Replace(smallest, "categorical: [user, item]", "categorical: [user, item], multi: "+multi, 1))
		if problems != nil {
			t.Fatal(problems)
		}
		return &c.Models[0]
	}
	plain, mean, root := of("[tags, words]"), of(
		"[{name: tags, weight: mean}, words]"), of("[tags, {name: words, weight: sqrt}]")
	if plain.Hash() != mean.Hash() || plain.SampleHash() != mean.SampleHash() || bytes.Contains(plain.Stored(), []byte(
		"weights")) ||
		!bytes.Equal(plain.Stored(), mean.Stored()) || plain.Schema.Event().MultiWeights != nil ||
		mean.Schema.Event().MultiWeights != nil {
		t.Error("a list of weight mean is not the same as one without")
	}
	if root.Hash() == plain.Hash() || root.SampleHash() != plain.SampleHash() {
		t.Error("the weight sqrt has to change the hash of versions alone")
	}
	stored, err := DecodeStored(root.Stored())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{root, stored} {
		if got := m.Schema.Event(); !slices.Equal(got.MultiWeights, []string{"mean", "sqrt"}) ||
			!slices.Equal(got.Multi, []string{"tags", "words"}) {
			t.Errorf("%q have weights %q", got.Multi, got.MultiWeights)
		}
	}
}
