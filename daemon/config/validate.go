package config

import (
	"fmt"
	"math"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/solver"
)

// validator checks values once all of them are decoded and resolved. It reports every bad one, with its key, its value
// and what to write; a key whose decoding failed, or that the file has under a wrong name, is not reported twice. It is
// one type: a method for each object of the configuration.
type validator struct {
	*strictyaml.Decoder
	allow       Exceptions
	hasRegistry bool // kafka.schema_registry.url is set
}

// Validate returns every bad value of a resolved model that does not come from a file, such as one built from flags,
// which may leave its classes and topics out. Problems have no line; keys are relative to the model.
func (m *Model) Validate() []strictyaml.Problem {
	v := &validator{Decoder: strictyaml.NewDecoder(reflect.TypeFor[Config](), nil),
		allow: Exceptions{Classes: true, Offline: true}}
	v.model(m, "")
	for i := range v.Problems {
		v.Problems[i].Line, v.Problems[i].Column = 0, 0
	}
	return v.Problems
}

func (v *validator) bad(path string, value any, write string) {
	if v.Suggested[path] {
		return
	}
	for _, p := range v.Problems {
		if p.Key == path || strings.HasPrefix(path, p.Key+".") || strings.HasPrefix(p.Key, path+"[") {
			return
		}
	}
	shown := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		shown = strconv.Quote(strictyaml.UserInfo.ReplaceAllString(s, scalar.Redacted+"@"))
	}
	if value == nil || value == "" {
		shown = "missing"
	}
	v.Add(v.Locate(path), path, fmt.Sprintf("is %s: write %s", shown, write), "")
}

func (v *validator) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.bad(path, value, "one of "+strings.Join(allowed, ", "))
		if s := strictyaml.Nearest(value, allowed); s != "" && value != "" && v.Problems[len(v.Problems)-1].Key == path {
			v.Problems[len(v.Problems)-1].Suggestion = s
		}
	}
}

func (v *validator) between(path string, value, low, high float64) {
	if !(value >= low && value <= high) {
		v.bad(path, value, fmt.Sprintf("a number from %g to %g", low, high))
	}
}

func (v *validator) whole(path string, value, low, high int) {
	if value < low || value > high {
		v.bad(path, value, fmt.Sprintf("a whole number from %d to %d", low, high))
	}
}

func (v *validator) duration(path string, value Duration, low, high time.Duration) {
	if d := value.Std(); d < low || d > high {
		v.bad(path, d, fmt.Sprintf("a duration from %s to %s", low, high))
	}
}

func (v *validator) size(path string, value, low, high Size) {
	if value < low || value > high {
		v.bad(path, value, fmt.Sprintf("a size from %s to %s", low, high))
	}
}

func (v *validator) file(path, name string) {
	if name == "" || v.contents(path, name) {
		return
	}
	st, err := os.Stat(name)
	if err != nil {
		v.bad(path, name, "the path of a file that exists ("+err.Error()+")")
	} else if !st.Mode().IsRegular() {
		v.bad(path, name, "the path of a regular file")
	}
}

// contents reports a value that is not the path of a file but what should be in it, without showing it.
func (v *validator) contents(path, name string) bool {
	if strings.ContainsAny(name, "\r\n") || strictyaml.PrivateKey.MatchString(name) {
		v.Add(v.Locate(path), path, "has several lines or a key itself: write the path of a file that holds it", "")
		return true
	}
	return false
}

// private reads a file with a secret in it and returns its text without the last line end.
func (v *validator) private(path, name string) string {
	if v.contents(path, name) {
		return ""
	}
	text, err := files.ReadPrivate(name)
	if err != nil {
		v.bad(path, name, "the path of a file that only its owner may read ("+err.Error()+")")
	}
	return text
}

func (v *validator) config(c *Config) {
	v.kafka(&c.Kafka)
	if c.Storage.Path == "" {
		v.bad("storage.path", "", "a directory")
	}
	v.web(&c.Web)
	v.tracing(&c.Tracing)
	if len(c.Models) == 0 {
		v.bad("models", nil, "at least one model")
	}
	names, groups := make(map[string]int), map[string]string{c.Kafka.GroupID: "kafka.group_id"}
	for i := range c.Models {
		path := fmt.Sprintf("models[%d]", i)
		v.model(&c.Models[i], path)
		if first, ok := names[c.Models[i].Name]; ok {
			v.bad(path+".name", c.Models[i].Name, fmt.Sprintf("a name that models[%d] does not have", first))
		}
		names[c.Models[i].Name] = i
		v.scoreGroup(c, i, groups)
	}
	v.shard(c)
	v.places(c)
	if len(v.Problems) == 0 && v.allow.Memory != nil {
		v.memory(v.allow.Memory(c))
	}
}

func (v *validator) kafka(k *Kafka) {
	if len(k.BootstrapServers) == 0 && !v.allow.Offline {
		v.bad("kafka.bootstrap_servers", nil, `a list such as ["127.0.0.1:9092"]`)
	}
	loopback := true
	for i, s := range k.BootstrapServers {
		host, port, err := net.SplitHostPort(s)
		if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || numErr != nil || n == 0 {
			v.bad(fmt.Sprintf("kafka.bootstrap_servers[%d]", i), s, "host:port, such as 127.0.0.1:9092")
		}
		loopback = loopback && isLoopback(s)
	}
	if k.GroupID == "" && !v.allow.Offline {
		v.bad("kafka.group_id", "", "the consumer group whose offsets lag tools shall show")
	}
	if k.ClientID == "" {
		v.bad("kafka.client_id", "", "a name, such as refitd")
	}
	v.duration("kafka.fetch_max_wait", k.FetchMaxWait, time.Millisecond, time.Minute)
	v.size("kafka.max_partition_fetch_bytes", k.MaxPartitionFetchBytes, 4<<10, 64<<20)
	v.file("kafka.tls.ca_file", k.TLS.CAFile)
	v.file("kafka.tls.cert_file", k.TLS.CertFile)
	if k.TLS.KeyFile != "" {
		v.private("kafka.tls.key_file", k.TLS.KeyFile)
	}
	if (k.TLS.CertFile == "") != (k.TLS.KeyFile == "") {
		v.bad("kafka.tls.key_file", k.TLS.KeyFile, "cert_file and key_file together")
	}
	if t := k.TLS; !t.Enabled && (t.CAFile != "" || t.CertFile != "" || t.ServerName != "") {
		v.bad("kafka.tls.enabled", false, "true, or leave the other keys of kafka.tls out")
	}
	v.sasl(k, loopback)
	v.registry(&k.SchemaRegistry)
}

func (v *validator) model(m *Model, path string) {
	at := func(key string) string { return strictyaml.Join(path, key) }
	if !isName(m.Name) {
		v.bad(at("name"), m.Name, "1 to 64 small letters, digits, '.', '_' or '-', beginning with a letter or digit")
	}
	v.input(&m.Input, at("input"))
	v.schema(&m.Schema, at("schema"))
	v.tables(m, at("tables"))
	v.implicit(m, path)
	v.outcomes(m, path)
	v.mapping(m, at("input.mapping"))
	v.sample(m, at("sample"))
	v.train(m, at("train"))
	v.whole(at("evaluate.window"), m.Evaluate.Window, 1, 10_000_000)
	v.field(at("evaluate.baseline_by"), m.Evaluate.BaselineBy, m.Schema.Categorical)
	if m.Publish.Store == "" {
		v.bad(at("publish.store"), "", "a directory, s3://bucket/prefix, gs://bucket/prefix or "+
			"azure://account/container/prefix")
	}
	if place := m.Publish.Objects; place != "" {
		if _, err := objects.Open(place); err != nil {
			v.bad(at("publish.store"), place, err.Error())
		}
	}
	v.serve(m, path)
	v.score(m, at("score"))
	v.notify(&m.Notify, at("notify"))
	v.duration(at("publish.update_every"), m.Publish.UpdateEvery, 0, 24*time.Hour)
	v.deltas(&m.Publish, at("publish"))
	v.publishedVectors(m, at("publish.vectors"))
	v.whole(at("publish.keep"), m.Publish.Keep, 1, 1_000_000)
	v.duration(at("publish.keep_for"), m.Publish.KeepFor, 0, 10*365*24*time.Hour)
	v.oneOf(at("publish.tensors"), m.Publish.Tensors, tensorsF64, "f32")
	v.duration(at("publish.renew_every"), m.Publish.RenewEvery, time.Second, 10*time.Minute)
	v.duration(at("publish.expires_after"), m.Publish.ExpiresAfter, 0, 10*365*24*time.Hour)
	v.privateKey(at("publish.signing_key_file"), m.Publish.SigningKeyFile)
	v.privateKey(at("publish.oms_key_file"), m.Publish.OMSKeyFile)
	v.trustedKeys(&m.Publish, at("publish.trusted_keys"))
	v.between(at("publish.gate.tolerance"), m.Publish.Gate.Tolerance, 0, 1)
	v.whole(at("publish.gate.min_rows"), m.Publish.Gate.MinRows, 0, 1_000_000_000)
}

// deltas checks what consumers get between updates: deltas follow updates.
func (v *validator) deltas(p *Publish, path string) {
	d := &p.Deltas
	v.duration(path+".deltas.every", d.Every, 0, time.Hour)
	switch {
	case d.Every > 0 && d.Every.Std() < 10*time.Millisecond:
		v.bad(path+".deltas.every", d.Every, "0s for none, or 10ms to 1h")
	case d.Every > 0 && p.UpdateEvery == 0:
		v.bad(path+".update_every", p.UpdateEvery, "a time, such as 5m: deltas follow updates (publish.deltas.every)")
	case d.Every > 0 && d.Every >= p.UpdateEvery:
		v.bad(path+".deltas.every", d.Every, "less than publish.update_every: deltas come between updates")
	}
	v.whole(path+".deltas.max_rows", d.MaxRows, 1, 10_000_000)
	v.size(path+".deltas.max_bytes", d.MaxBytes, 1<<20, 1<<40)
	if d.Topic != "" && !isTopic(d.Topic) {
		v.bad(path+".deltas.topic", d.Topic, "1 to 249 letters, digits, '.', '_' or '-', or leave it out")
	}
}

// PrivateKey checks the path of a key to sign with, empty for none.
func (v *validator) privateKey(key, path string) {
	if path == "" || v.contents(key, path) {
		return
	}
	if err := files.CheckPrivate(path); err != nil {
		v.bad(key, path, "the path of a key that only its owner may read ("+err.Error()+")")
	}
}

// trustedKeys checks the files of public keys, and that there is a key to sign with: what is published unsigned would
// not be taken back.
func (v *validator) trustedKeys(p *Publish, path string) {
	if len(p.TrustedKeys) > 0 && p.SigningKeyFile == "" {
		v.bad(path, p.TrustedKeys,
			"nothing without publish.signing_key_file: unsigned versions of this daemon's own would be refused")
	}
	for i, file := range p.TrustedKeys {
		if _, err := format.LoadKeys(file); err != nil {
			v.bad(fmt.Sprintf("%s[%d]", path, i), file,
				"a file with public keys in PEM, .pub of refitd keys new ("+err.Error()+")")
		}
	}
}

func (v *validator) input(in *Input, path string) {
	if len(in.Topics) == 0 && !v.allow.Offline {
		v.bad(path+".topics", nil, "a list with at least one topic")
	}
	for i, topic := range in.Topics {
		if !isTopic(topic) {
			v.bad(fmt.Sprintf("%s.topics[%d]", path, i), topic, "1 to 249 letters, digits, '.', '_' or '-'")
		} else if slices.Index(in.Topics, topic) < i {
			v.bad(fmt.Sprintf("%s.topics[%d]", path, i), topic, "each topic once")
		}
	}
	v.formats(in, path)
	v.oneOf(path+".on_gap", in.OnGap, "halt", "record")
	v.oneOf(path+".start", in.Start, "earliest", "latest")
	v.size(path+".max_event_bytes", in.MaxEventBytes, 16, MaxEventBytes)
	v.size(path+".max_id_bytes", in.MaxIDBytes, 1, 64<<10)
	v.whole(path+".max_list_names", in.MaxListNames, 1, 10_000)
	v.duration(path+".max_future_skew", in.MaxFutureSkew, 0, 365*24*time.Hour)
	v.whole(path+".dead_letter.max_rows", in.DeadLetter.MaxRows, 1, 100_000)
	if t := in.DeadLetter.Topic; t != "" && !isTopic(t) {
		v.bad(path+".dead_letter.topic", t, "1 to 249 letters, digits, '.', '_' or '-', or leave it out")
	}
}

// MaxClasses bounds the classes of a model: what grows with their square takes 800 MB then.
const MaxClasses = 10_000

// maxLabelName bounds the names of binary labels, which rejections say.
const maxLabelName = 40

func (v *validator) schema(s *Schema, path string) {
	task := event.Task(s.Task)
	tasks := make([]string, len(event.Tasks))
	for i, t := range event.Tasks {
		tasks[i] = string(t)
	}
	v.oneOf(path+".task", s.Task, append(tasks, Implicit)...)
	if s.Label == "" && s.Task != Implicit {
		v.bad(path+".label", "", "the name of the field with the label")
	}
	if task == event.Ordinal {
		v.whole(path+".levels", s.Levels, 2, 100)
	} else if s.Levels != 0 {
		v.bad(path+".levels", s.Levels, "task: ordinal, or leave levels out")
	}
	if !task.HasClasses() && len(s.Classes) > 0 {
		v.bad(path+".classes", s.Classes, "task: multiclass or multilabel, or leave classes out")
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(s.Classes)))); n != len(s.Classes) {
		v.bad(path+".classes", s.Classes, "each class once")
	}
	if n := len(s.Classes); task.HasClasses() && n > MaxClasses {
		v.refuse(
			path+".classes",
			fmt.Sprintf("has %d classes, and a refit takes %s for what each of them says of each other one: "+
				"list at most %d, or put what they have in common in their place", n, mebibytes(solver.ClassFootprint(n)),
				MaxClasses),
		)
	}
	if n := len(s.Classes); n == 1 || n == 0 && !v.allow.Classes {
		if task.HasClasses() {
			v.bad(path+".classes", s.Classes, "at least two classes: each is an output of the model")
		}
	}
	switch {
	case task != event.Binary && s.Positive+s.Negative != "":
		v.bad(path+".positive", s.Positive, "task: binary, or leave positive and negative out")
	case s.Positive == "" && s.Negative != "":
		v.bad(path+".positive", "", "the name of the label that counts as 1, together with negative")
	case len(s.Positive) > maxLabelName || len(s.Negative) > maxLabelName:
		v.bad(path+".positive", s.Positive, fmt.Sprintf("names of at most %d bytes", maxLabelName))
	case s.Positive != "" && s.Positive == s.Negative:
		v.bad(path+".negative", s.Negative, "another name than positive")
	}
	switch {
	case s.LabelMin == 0 && s.LabelMax == 0:
	case task != event.Regression:
		v.bad(path+".label_min", s.LabelMin, "task: regression, or leave label_min and label_max out")
	case !(s.LabelMin < s.LabelMax):
		v.bad(path+".label_max", s.LabelMax, fmt.Sprintf("a number above label_min, which is %g", s.LabelMin))
	}
	v.between(path+".label_min", s.LabelMin, -event.MaxLabel, event.MaxLabel)
	v.between(path+".label_max", s.LabelMax, -event.MaxLabel, event.MaxLabel)
	v.oneOf(path+".time_unit", s.TimeUnit, "s", "ms", "us", "ns")
	v.fields(s, path)
}

// fields checks that each field of the events has one role.
func (v *validator) fields(s *Schema, path string) {
	categorical, multi := s.GivenFields()
	if len(categorical)+len(s.GivenNumbers())+len(multi) == 0 {
		v.bad(path+".categorical", nil, "at least one feature in categorical, numeric or multi")
	}
	role := make(map[string]string)
	claim := func(key, field string) {
		if field == "" {
			v.bad(key, field, "the name of a field")
		} else if first, ok := role[field]; ok {
			v.bad(key, field, "a field that "+first+" does not use")
		} else {
			role[field] = key
		}
	}
	if s.Label != "" {
		claim(path+".label", s.Label)
	}
	if s.Weight != "" {
		claim(path+".weight", s.Weight)
	}
	for i, f := range categorical {
		claim(fmt.Sprintf("%s.categorical[%d]", path, i), f)
		v.entity(s, fmt.Sprintf("%s.categorical[%d].of", path, i), f)
		v.unweighted(s, fmt.Sprintf("%s.categorical[%d].weight", path, i), f)
	}
	for i, f := range s.GivenNumbers() {
		claim(fmt.Sprintf("%s.numeric[%d]", path, i), f)
		v.entity(s, fmt.Sprintf("%s.numeric[%d].of", path, i), f)
		v.unweighted(s, fmt.Sprintf("%s.numeric[%d].weight", path, i), f)
	}
	for i, f := range multi {
		claim(fmt.Sprintf("%s.multi[%d]", path, i), f)
		v.entity(s, fmt.Sprintf("%s.multi[%d].of", path, i), f)
		if weight, said := s.ListWeights[f]; said {
			v.oneOf(fmt.Sprintf("%s.multi[%d].weight", path, i), weight, format.WeightMean, format.WeightSqrt)
		}
	}
	v.derived(s, path, claim)
	for _, j := range s.Joined {
		claim(fmt.Sprintf("tables: column %s of %s", j.Name, j.Table), j.Name)
	}
	v.crosses(s, path, claim)
	v.present(s, path+".time", s.Time)
	v.present(s, path+".identity", s.Identity)
}

// unweighted refuses the weight of a field that is no list.
func (v *validator) unweighted(s *Schema, path, field string) {
	if weight, said := s.ListWeights[field]; said {
		v.bad(path, weight, "no value: names of lists alone, in multi, have a weight")
	}
}

// present refuses an optional field where every event has to have it.
func (v *validator) present(s *Schema, path, field string) {
	if slices.Contains(s.Optional, field) {
		v.bad(path, field, "a field that every event has: this one is optional in the schema")
	}
}

// field checks an optional reference to a categorical field.
func (v *validator) field(path, name string, categorical []string) {
	if name != "" && !slices.Contains(categorical, name) {
		v.bad(path, name, fmt.Sprintf("one of the categorical fields %q", categorical))
	}
}

func (v *validator) sample(m *Model, path string) {
	s := &m.Sample
	v.whole(path+".size", s.Size, 100, 1_000_000_000)
	v.size(path+".max_bytes", s.MaxBytes, 64<<10, 1<<46)
	v.duration(path+".half_life", s.HalfLife, 0, math.MaxInt64)
	v.between(path+".holdout.fraction", s.Holdout.Fraction, 0, 0.5)
	v.between(path+".holdout.entities", s.Holdout.Entities, 0, 0.2)
	v.field(path+".holdout.by", s.Holdout.By, m.Schema.Categorical)
	v.present(&m.Schema, path+".holdout.by", s.Holdout.By)
	v.present(&m.Schema, path+".cap.by", s.Cap.By)
	v.whole(path+".holdout.size", s.Holdout.Size, 0, 1_000_000_000)
	if s.Holdout.Size == 1 && s.Holdout.Fraction > 0 {
		v.bad(path+".holdout.size", 1, "at least 2, one row to choose on and one for the gate")
	}
	if s.HalfLife > 0 && s.Holdout.HalfLife > s.HalfLife || s.Holdout.HalfLife < 0 {
		v.bad(path+".holdout.half_life", s.Holdout.HalfLife,
			fmt.Sprintf("at most sample.half_life, which is %s", s.HalfLife))
	}
	v.quotas(m, path+".quotas")
	v.cap(m, path+".cap")
}

func (v *validator) train(m *Model, path string) {
	t := &m.Train
	v.duration(path+".every", t.Every, 0, 365*24*time.Hour)
	v.whole(path+".every_events", t.EveryEvents, 0, 1_000_000_000)
	if t.FirstEvents < 0 || t.FirstEvents > t.EveryEvents && t.EveryEvents >= 0 {
		v.bad(path+".first_events", t.FirstEvents, fmt.Sprintf("at most train.every_events, which is %d", t.EveryEvents))
	}
	v.duration(path+".time_budget", t.TimeBudget, 0, 24*time.Hour)
	v.duration(path+".catch_up", Duration(t.CatchUp), 0, 365*24*time.Hour)
	v.whole(path+".max_basis", t.MaxBasis, 0, 1000)
	if n := int(t.Variational); t.MaxBasis >= 0 && n > t.MaxBasis {
		v.bad(path+".variational_basis", n, fmt.Sprintf("auto, or at most train.max_basis, which is %d", t.MaxBasis))
	} else if n > 0 && t.Refit != "variational" {
		v.bad(path+".variational_basis", n, fmt.Sprintf(
			"auto, or train.refit: variational: it is %s, which has no such stage", t.Refit))
	}
	v.whole(path+".new_basis", t.NewBasis, 0, 1000)
	v.whole(path+".max_features", t.MaxFeatures, 1, 100_000_000)
	v.whole(path+".sweeps", t.Sweeps, 1, 1000)
	v.whole(path+".threads", t.Threads, 0, 1024)
	v.oneOf(path+".kernel", t.Kernel, "anova", "homogeneous")
	v.oneOf(path+".penalty", t.Penalty, "l1", "l1l2", "l1linf")
	v.oneOf(path+".solver", t.Solver, "hybrid", "fista", "stochastic", "svrg", "newton")
	v.oneOf(path+".refit", t.Refit, Refits()...)
	if t.Refit == "variational" && !m.variationalPossible() {
		v.bad(path+".refit", t.Refit, "output: the variational refit needs kernel anova")
	}
	v.whole(path+".degree", t.KernelDegree(), 2, 3)
	v.algorithm(m, path)
	v.featureMap(m, path+".feature_map")
	for i, f := range t.FoldIn.By {
		v.field(fmt.Sprintf("%s.fold_in.by[%d]", path, i), f, m.Schema.Categorical)
	}
	v.whole(path+".fold_in.max_rows", t.FoldIn.MaxRows, 1, 100_000_000)
	v.trainCap(m, path+".cap")
}

// isName reports whether s can name a model: it becomes a directory and a path segment of URLs.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '.' || s[0] == '-' || s[0] == '_' {
		return false
	}
	return isTopic(s) && s == strings.ToLower(s)
}

// isTopic reports whether s is a legal Kafka topic name.
func isTopic(s string) bool {
	if s == "" || len(s) > 249 || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return true
}

// isLoopback reports whether the host of host:port is this machine only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
