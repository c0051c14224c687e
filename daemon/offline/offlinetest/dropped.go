package offlinetest

import (
	"fmt"
	"strings"
)

func JsonRatings(n int) []string {
	lines := Ratings(n, 1)
	for i, l := range lines {
		c := strings.Split(l, "\t")
		lines[i] = fmt.Sprintf(`{"user":%q,"item":%q,"rating":%s,"ts":%s}`, c[0], c[1], c[2], c[3])
	}
	return lines
}
