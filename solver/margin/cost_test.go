package margin

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestReadCost(t *testing.T) {
	want := [][]float64{{0, 1, 2.5}, {0.5, 0, 1}, {3, 1e2, 0}}
	for _, c := range []struct {
		text  string
		names []string
	}{
		{"0,1,2.5\n0.5,0,1\n3,1e2,0\n", nil},
		{"\ufeffa, b ,\"c,d\"\r\n\r\n0,1, 2.5\r\n0.5,0,1\r\n3,1e2,0", []string{"a", "b", "c,d"}},
	} {
		cost, names, err := ReadCost(strings.NewReader(c.text))
		if err != nil || !reflect.DeepEqual(cost, want) || !reflect.DeepEqual(names, c.names) {
			t.Errorf("%q: %v, %v, %v", c.text, cost, names, err)
		}
	}
	for text, word := range map[string]string{
		"":                                 "0 rows of 0 columns",
		"a,b\n":                            "0 rows of 2 columns",
		"0,1\n1,0\n1,1\n":                  "line 3 is row 3 of a matrix of 2 columns",
		"0,1,1\n1,0,1\n":                   "2 rows of 3 columns",
		"0,1\n1\n":                         "line 2 has 1 columns, the first 2",
		"0,x\n1,0\n":                       `line 1, column 2: "x" is not a number`,
		"a,b\n0,1\n1,\n":                   `line 3, column 2: "" is not a number`,
		"0,-1\n1,0\n":                      "line 1, column 2: a cost of -1",
		"0,NaN\n1,0\n":                     "line 1, column 2: a cost of NaN",
		"0,1\n1,0.5\n":                     "line 2, column 2: 0.5 on the diagonal",
		"0,1e300\n1,0\n":                   "line 1, column 2: a cost of 1e+300",
		"0,\"1\n1,0\n":                     "line 1",
		strings.Repeat("0,", MaxClasses+1): "more than 10000",
	} {
		if _, _, err := ReadCost(strings.NewReader(text)); !errors.Is(err, ErrCost) ||
			!strings.Contains(err.Error(), word) {
			t.Errorf("%.20q: %v, want %q", text, err, word)
		}
	}
}
