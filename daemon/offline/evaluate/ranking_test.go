package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
)

// TestPopularity: names chosen most often come first, those alike by name, and without what was seen; ten at most.
func TestPopularity(t *testing.T) {
	set := &dataset.Set{}
	for i, name := range strings.Split("c b a b c b d e f g h i j k l", " ") {
		set.Examples = append(set.Examples,
			dataset.Example{Event: event.Event{Categorical: []string{fmt.Sprint("u", i), name}}})
	}
	p := (&rankEvaluation{field: 1}).popularity(set)
	if got, _ := p.first(nil, &ranked{seen: []string{"b", "e"}}); fmt.Sprint(got) != "[c a d f g h i j k l]" {
		t.Errorf("without what was seen %v", got)
	}
	if got, _ := p.first(nil, &ranked{}); fmt.Sprint(got) != "[b c a d e f g h i j]" {
		t.Errorf("%v", got)
	}
	if score := p.scoring(nil); score("b") != 3 || score("z") != 0 {
		t.Errorf("b was chosen %g times, z %g", score("b"), score("z"))
	}
}
