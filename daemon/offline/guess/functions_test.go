package guess

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestInitOfFunctions: fields that are the same in all rows of an item are of it, and so are those of its genre; one
// that is independent, or nearly always the same, is not. An event's ID is its identity.
func TestInitOfFunctions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("event_id,user,item,genre,shelf,price,rare,mood,stars\n")
	for i := range 600 {
		item, rare := random.IntN(40), "no"
		if item == 7 && i < 300 && i%2 == 0 {
			rare = "yes"
		}
		fmt.Fprintf(&text, "e%d,u%d,i%d,g%d,s%d,%d.5,%s,m%d,%d\n", i, random.IntN(30), item, item%5, item%5%2, item%9, rare,
			random.IntN(3), 1+random.IntN(5))
	}
	_, m := guesses(t, "functions.csv", text.String(), Options{})
	if got, want := fmt.Sprint(m.Schema.Of), "map[genre:item price:item shelf:item]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if m.Schema.Identity != "event_id" {
		t.Errorf("identity %q", m.Schema.Identity)
	}
}
