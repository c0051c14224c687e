package memory

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
)

func load(t *testing.T, change ...string) (*config.Config, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "configs", "ratings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ratings.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.LoadWith(path, config.Exceptions{Memory: Of})
}

// TestOf: the parts are there and add up, each is positive, and what has to be named is named by configuration.
func TestOf(t *testing.T) {
	c, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	m := Of(c)
	var sum int64
	for part, bytes := range m.Parts {
		if sum += bytes; bytes <= 0 ||
			!strings.HasPrefix(part, c.Models[0].Name+".") && !strings.HasPrefix(part, "web.") &&
				part != config.ProcessPart {
			t.Errorf("%s: %d", part, bytes)
		}
	}
	if sum != m.TotalBytes || len(m.Parts) != 3+15 {
		t.Errorf("%d parts of %d bytes: %+v", len(m.Parts), sum, m)
	}
	c.Models = append(c.Models, c.Models[0])
	c.Models[1].Name = "other"
	c.Models[1].Input.DeadLetter.Topic, c.Models[1].Publish.KeepSample = "rejected", true
	c.Models[1].Publish.Deltas.Every = config.Duration(time.Second)
	if more := Of(c); len(more.Parts) != 3+15+18 || more.Parts["other.deltas"] <= 2*more.Parts["other.models"]/5 ||
		more.TotalBytes <= 2*m.TotalBytes-m.Parts["web.bodies"]-m.Parts["web.connections"]-m.Parts[config.ProcessPart] {
		t.Errorf("%+v", more)
	}
	without := Of(c).Parts["other.models"]
	c.Models[1].Publish.Vectors.To = "postgres://db/shop"
	if with := Of(c).Parts["other.models"]; with <= without {
		t.Errorf("models take %d with a table of vectors, %d without", with, without)
	}
	fixed := []string{"guard", "curves", "batches", config.ProcessPart} // as large with every configuration
	named := func(parts map[string]int64) {
		t.Helper()
		for part := range parts {
			if config.MemoryKey(part) == "" && !slices.Contains(fixed, part[strings.LastIndexByte(part, '.')+1:]) {
				t.Errorf("no key is named that makes %s smaller", part)
			}
		}
	}
	named(Of(c).Parts)
	shard := *c
	shard.Models = []config.Model{c.Models[0]}
	shard.Models[0].Shard = config.Shard{Role: config.RoleShard, LiveTopic: "live"}
	shard.Models[0].Input.Format = "avro"
	of, ratings := Of(&shard).Parts, c.Models[0].Name
	if bytes := of[ratings+".schemas"]; bytes != ingest.SchemasFootprint(&shard.Models[0]) || bytes == 0 ||
		m.Parts[ratings+".schemas"] != 0 {
		t.Errorf("schemas take %d, of JSON %d", bytes, m.Parts[ratings+".schemas"])
	}
	named(of)
	if of[ratings+".forwarded"] < 1<<20 || m.Parts[ratings+".forwarded"] != 0 || of[ratings+".fold_in"] != 0 {
		t.Errorf("a shard that forwards its events: %v", of)
	}
	team := func(s config.Shard) int64 {
		of := *c
		of.Models = []config.Model{c.Models[0]}
		of.Models[0].Shard, of.Shard, of.Role = s, s, s.Role
		named(Of(&of).Parts)
		return Of(&of).Parts[c.Models[0].Name+".waiting_rows"]
	}
	trainer := config.Shard{Role: config.RoleTrainer, Count: 4}
	one := Waiting(&c.Models[0])
	if one < 16<<20+2*int64(c.Models[0].Sample.MaxBytes) {
		t.Errorf("rows of one shard that wait: %d bytes", one)
	}
	for _, w := range []struct {
		of    config.Shard
		times int64
	}{
		{trainer, 4},
		{config.Shard{Role: config.RoleShard, Count: 4, Index: "1"}, 0},
		{config.Shard{Role: config.RoleShard, Count: 4, Index: "1", From: config.From{Topic: "old", Count: 3}}, 3},
		{config.Shard{Role: config.RoleShard, Count: 4, Group: "g"}, 4}, // the last process of a group has all of them
	} {
		if got := team(w.of); got != w.times*one {
			t.Errorf("%+v: rows of %d bytes wait, want %d times %d", w.of, got, w.times, one)
		}
	}
	svm := *c
	svm.Models = []config.Model{c.Models[0]}
	m1 := &svm.Models[0]
	m1.Schema.Task, m1.Schema.Levels, m1.Schema.Classes = "multiclass", 0, []string{"1", "2", "3", "4", "5"}
	before := Of(&svm)
	m1.Choose(config.FrankWolfeSVM, 0)
	m1.Resolve()
	name := m1.Name + ".dual_variables"
	if with := Of(&svm); with.Parts[name] < int64(m1.Sample.Size)*5*8*3 || before.Parts[name] != 0 {
		t.Errorf("dual variables of a support vector machine: %d bytes, of other models %d", with.Parts[name],
			before.Parts[name])
	}
	c.Models[0].Sample.Size, c.Models[0].Train.MaxFeatures, c.Models[0].Train.MaxBasis = math.MaxInt32, math.MaxInt32, 1000
	if large := Of(c); large.TotalBytes <= 0 {
		t.Errorf("%+v", large)
	}
}

// TestBudget: what the complaint about memory_budget proposes suffices, and a megabyte less does not.
func TestBudget(t *testing.T) {
	const key = "models:"
	_, err := load(t, "\n"+key, "\nmemory_budget: 64MiB\n"+key)
	if err == nil || !strings.Contains(err.Error(), "memory_budget") {
		t.Fatalf("error %v", err)
	}
	_, proposed, _ := strings.Cut(err.Error(), "at least ")
	proposed, _, _ = strings.Cut(proposed, ",")
	if _, err := load(t, "\n"+key, "\nmemory_budget: "+proposed+"\n"+key); err != nil {
		t.Errorf("the proposed %q is refused: %v", proposed, err)
	}
}
