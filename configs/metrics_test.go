package configs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/configs"
)

// TestMetricsPage: the tables of metrics.md, below its introduction, are those of metrics.json.
func TestMetricsPage(t *testing.T) {
	var sections []struct {
		Title   string
		Metrics []struct {
			Name, Type, Help string
			Labels           []string
		}
	}
	decoder := json.NewDecoder(strings.NewReader(configs.Metrics))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&sections); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	introduction, _, _ := bytes.Cut(old, []byte("\n## "))
	page := bytes.NewBuffer(bytes.Clone(introduction))
	seen := make(map[string]bool)
	for _, s := range sections {
		fmt.Fprintf(page, "\n## %s\n\n| metric | type | meaning |\n|---|---|---|\n", s.Title)
		for _, m := range s.Metrics {
			labels := ""
			if len(m.Labels) > 0 {
				labels = "{" + strings.Join(m.Labels, ",") + "}"
			}
			fmt.Fprintf(page, "| `%s%s` | %s | %s |\n", m.Name, labels, m.Type, m.Help)
			if seen[m.Name] || m.Help == "" || m.Type != "counter" && m.Type != "gauge" && m.Type != "histogram" {
				t.Errorf("%+v: twice, without help or of no type", m)
			}
			seen[m.Name] = true
		}
	}
	same(t, "docs/metrics.md", page.Bytes())
}
