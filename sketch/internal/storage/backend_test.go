package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMemoryIsInOrder sets, changes and deletes keys at random and reads them in order, whole and by prefix.
func TestMemoryIsInOrder(t *testing.T) {
	m, want, r := NewMemory(), map[string]string{}, rand.New(rand.NewPCG(3, 3))
	for round := range 40 {
		var ops []Op
		for range r.IntN(30) {
			key := fmt.Sprintf("%c%02d", 'a'+rune(r.IntN(3)), r.IntN(40))
			if r.IntN(3) == 0 {
				delete(want, key)
				ops = append(ops, Op{Key: []byte(key)})
				continue
			}
			want[key] = fmt.Sprint(round)
			ops = append(ops, Op{Key: []byte(key), Value: []byte(want[key])})
		}
		if err := m.Commit(ops); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"", "a", "b1", "c", "d"} {
			var keys, values, expected []string
			for key := range want {
				if bytes.HasPrefix([]byte(key), []byte(prefix)) {
					expected = append(expected, key)
				}
			}
			slices.Sort(expected)
			err := m.View(func(c Cut) error {
				return c.Each([]byte(prefix), func(key, value []byte) error {
					keys, values = append(keys, string(key)), append(values, string(value))
					return nil
				})
			})
			if err != nil || !slices.Equal(keys, expected) {
				t.Fatalf("round %d, prefix %q: error %v, keys %v, want %v", round, prefix, err, keys, expected)
			}
			for i, key := range keys {
				if got, err := m.Get([]byte(key)); err != nil || values[i] != want[key] || string(got) != want[key] {
					t.Fatalf("round %d: %s is %q and %q, want %q (error %v)", round, key, values[i], got, want[key],
						err)
				}
			}
		}
	}
}
