package guess

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// Options say which file or topic to make a configuration for.
type Options struct {
	Data   string         `xor:"from" required:"" placeholder:"FILE"   help:"Events in CSV with a header, Parquet or JSON Lines; gzip, zstd, bzip2 are detected."`
	Topic  string         `xor:"from" required:"" placeholder:"TOPIC"  help:"Topic with events, in JSON, Avro or Protobuf, of which the newest are looked at, at most 10,000."`
	Format dataset.Format `                       placeholder:"FORMAT" help:"csv, jsonl or parquet; without, the first line decides."                                                   enum:",csv,jsonl,parquet" default:""`
	Label  string         `                       placeholder:"COLUMN" help:"Column with the label. Without, the one with a word such as rating, label or click for its name or in it."`
	Task   string         `                       placeholder:"TASK"   help:"implicit: every row is a choice, without a label."                                                         enum:",implicit"          default:""`
	Model  string         `                       placeholder:"NAME"   help:"Name of the model. Without, that of the file."`
	Output string         `                       placeholder:"FILE"   help:"Configuration to write. Without, NAME.yaml in the working directory."                                                                           short:"o"`

	Outcomes      string `placeholder:"FILE" help:"What came of the events, such as clicks: the label."`
	OutcomesTopic string `name:"outcomes-topic" placeholder:"TOPIC" help:"The same of --topic."`

	BootstrapServers []string `name:"bootstrap-servers" placeholder:"HOST:PORT,…" help:"Brokers of --topic, host:port."`

	SchemaFile string `name:"schema-file" placeholder:"FILE" help:"Schema of the values of --topic, where no registry has it: .avsc, .proto or a descriptor set."`

	Registry config.SchemaRegistry   `kong:"-"` // of the records of Topic; no URL for none
	Look     func() (*Sample, error) `kong:"-"` // at Topic

	LookOutcomes func() (*Sample, error) `kong:"-"` // at OutcomesTopic
}

// profile looks at the events. Of a topic it returns what is known of the records, of which the lines of the profile
// are counted from 1.
func (o *Options) profile() (*dataset.Profile, *Sample, error) {
	switch {
	case o.Topic == "" && len(o.BootstrapServers) > 0:
		return nil, nil, offline.Usage("--bootstrap-servers", "--bootstrap-servers are those of --topic")
	case o.Topic == "" && (o.Registry.URL != "" || o.SchemaFile != ""):
		return nil, nil, offline.Usage("--topic", "--registry and --schema-file are those of --topic")
	case o.Topic == "":
		profile, err := dataset.ReadProfile(o.Data, o.Format, dataset.ProfileRows)
		if err != nil {
			return nil, nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: o.Data}
		}
		return profile, new(Sample), nil
	case o.Format != "" && o.Format != dataset.JSONL:
		return nil, nil, offline.Usage("--format", "--format %s is of files: the records of a topic are JSON", o.Format)
	case len(o.BootstrapServers) == 0:
		return nil, nil, offline.Usage("--bootstrap-servers",
			"--topic needs --bootstrap-servers, host:port of a broker that has it")
	}
	sample, err := o.Look()
	if err != nil {
		return nil, nil, err
	}
	records := sample.Records
	if len(records) == 0 {
		return nil, nil, &report.ExitError{Code: report.ExitUsage, Key: "--topic", Topic: o.Topic,
			Err: fmt.Errorf("offline: %s holds no records: there is nothing to look at", o.Topic)}
	}
	profile := dataset.ProfileOf(func(yield func([]byte, *event.Rejection) bool) {
		for i := range records {
			if !yield(records[i].Value, records[i].Bad) {
				return
			}
		}
	})
	if profile.Rows == 0 {
		first := &profile.Skipped.Causes[0]
		return nil, nil, &report.ExitError{Code: report.ExitUsage, Key: "--topic", Topic: o.Topic,
			Err: fmt.Errorf(
				"offline: none of the %d newest records of %s is %s: %s, first at offset %d of partition %d: "+
					"expected %s, got %s",
				len(records),
				o.Topic,
				sample.noun(),
				first.Reason,
				records[0].Offset,
				records[0].Partition,
				first.Expected,
				first.Got,
			)}
	}
	return profile, sample, nil
}

// Init looks at a file of events, or at the newest of a topic, and writes a configuration for a model of them, with a
// comment for each guess. An existing file is not replaced.
func Init(o Options, out *report.Emitter) error {
	if o.Data == dataset.Stdin {
		return &report.ExitError{Code: report.ExitUsage, Key: "--data",
			Err: errors.New("offline: init looks at a file, which backtest then reads: standard input has no name")}
	}
	profile, sample, err := o.profile()
	if err != nil {
		return err
	}
	if o.Task != "" && o.Label != "" {
		return offline.Usage("--task", "--task %s is of a log without a label: leave --label out", o.Task)
	}
	var g *guess
	if of, with, err := o.outcomes(); err != nil {
		return err
	} else if of != nil {
		g, err = guessJoined(profile, sample, of, with, &o)
		if err != nil {
			return err
		}
	} else if g, err = guessSchema(profile, sample, o.Label, o.Task); err != nil {
		return err
	}
	drops, err := offline.Dropped(&profile.Skipped, cmp.Or(o.Data, o.Topic), sample.Records, out)
	if err != nil {
		return err
	}
	source, key := o.Data, "--data"
	if o.Topic != "" {
		source, key = o.Topic, "--topic"
	}
	if o.Model == "" {
		o.Model = nameOf(source)
		if o.Topic != "" {
			o.Model = asName(o.Topic)
		}
	}
	if o.Output == "" {
		o.Output = o.Model + ".yaml"
	}
	text := g.yaml(&o)
	if len(text) > config.MaxFileBytes {
		return &report.ExitError{Code: report.ExitUsage, Key: key, Path: o.Data, Topic: o.Topic,
			Err: fmt.Errorf("offline: %s has %d columns, and a "+
				"configuration that names each has more than the %d bytes that one may have: leave columns out, or put them "+
				"into a list", source, len(g.fields)+1,
				config.MaxFileBytes)}
	}
	if _, err := config.Parse(o.Output, []byte(text), os.LookupEnv); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: key, Path: o.Data, Topic: o.Topic}
	}
	file, err := os.OpenFile(o.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--output",
			Path: o.Output,
			Err:  fmt.Errorf("offline: %s exists: --output names another", o.Output),
		}
	}
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  "--output",
			Path: o.Output,
			Err:  fmt.Errorf("offline: %w", err),
		}
	}
	next := []string{"refitd", "backtest", "--config.file", o.Output, "--data", o.Data, "--plot", o.Model + ".svg"}
	if g.joined != nil {
		next = append(next, "--outcomes", o.Outcomes)
	}
	if o.Format != "" {
		next = append(next, "--format", string(o.Format))
	}
	if o.Topic != "" {
		next = []string{"refitd", "run", "--config.file", o.Output, "--until", "end"}
	}
	return out.Emit(
		"summary",
		report.InitSummary{
			Config:   o.Output,
			Model:    o.Model,
			Data:     source,
			Format:   string(profile.Format),
			Rows:     int64(profile.Rows),
			Task:     g.schema.Task,
			Label:    g.schema.Label,
			LabelWhy: g.labelWhy,
			Fields:   g.fields,
			Outcomes: g.joined.report(),
			Dropped:  drops,
			Next:     next,
		},
	)
}

var notInName = regexp.MustCompile(`[^a-z0-9_-]+`)

// maxModelName is the longest name of a model.
const maxModelName = 64

// nameOf makes the name of a model of that of a file.
func nameOf(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	return asName(base)
}

// asName makes the name of a model of a text: it has small letters alone, as it is a directory and a part of URLs.
func asName(text string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(text), "-"), "-_")
	return cmp.Or(strings.TrimRight(name[:min(len(name), maxModelName)], "-_"), "model")
}

// yaml writes the configuration.
func (g *guess) yaml(o *Options) string {
	var y yamlText
	servers, topic, why := []string{"127.0.0.1:9092"}, o.Model, "  # where the events will come from; backtest needs none"
	y.line("# yaml-language-server: $schema=%s", config.SchemaID)
	if o.Topic != "" {
		servers, topic, why = o.BootstrapServers, o.Topic, ""
		y.line("# Made of the %d newest events of the topic %s: look at the guesses below. Every other key and its default:",
			g.rows, o.Topic)
	} else {
		name := filepath.Base(o.Data)
		if g.encoding != "" {
			name += ", read as " + g.encoding
		}
		y.line("# Made of the first %d rows of %s: look at the guesses below. Every other key and its default:", g.rows, name)
	}
	y.line("#   refitd check config --config.file THIS --print-defaults")
	y.line("")
	if g.usesRegistry(o) {
		y.line("kafka:\n  bootstrap_servers: %s\n  group_id: refitd-%s", quotedList(servers), o.Model)
		writeRegistry(&y, o)
	} else {
		y.line("kafka: {bootstrap_servers: %s, group_id: refitd-%s}%s", quotedList(servers), o.Model, why)
	}
	y.line("storage: {path: state}")
	y.line("models:")
	y.line("  - name: %s", plainName(o.Model))
	g.writeInput(&y, topic, o)
	y.line("    schema:")
	g.writeLabel(&y)
	for _, use := range []string{"categorical", "numeric", "multi"} {
		g.writeFields(&y, use)
	}
	for _, f := range g.fields {
		switch f.Use {
		case "time":
			y.line("      # time %s: %s", quoted(f.Name), f.Why)
		case leftOut:
			y.line("      # left out %s: %s", quoted(f.Name), f.Why)
		}
	}
	y.line("    sample: {seed: 1}  # the same rows in every run")
	every, events, first := g.schedule()
	if o.Topic == "" {
		y.line("    # A backtest, whose second is 100 events, also refits after each alarm of drift.")
		y.line("    # A daemon may refit more often: 30s is its default.")
	}
	y.line("    # The first refit comes after first_events, each other after as many as before, at most every_events.")
	y.line("    train: {every: %s, every_events: %d, first_events: %d}", every, events, first)
	y.line("    publish: {store: snapshots, deltas: {every: 1s}}  # what was learned reaches consumers each second")
	return y.String()
}

// yamlText is a configuration that is being written.
type yamlText struct{ strings.Builder }

// line writes a line, or several of them.
// line writes a line. A name in a comment may have what ends a line in YAML, or what YAML has not.
func (y *yamlText) line(format string, arguments ...any) {
	for i, argument := range arguments {
		if text, ok := argument.(string); ok {
			arguments[i] = strings.Map(func(r rune) rune {
				if unicode.IsGraphic(r) {
					return r
				}
				return ' '
			}, text)
		}
	}
	fmt.Fprintf(y, format+"\n", arguments...)
}

// writeInput writes the section input of the model.
func (g *guess) writeInput(y *yamlText, topic string, o *Options) {
	var keys []string
	if g.chosen != "" {
		keys = append(keys, fmt.Sprintf("negatives: {of: %s}", quoted(g.chosen)))
	}
	keys = append(keys, g.formats(o)...)
	isMapped := len(g.mapped) > 0 || g.sample.Envelope != ""
	if !isMapped && g.joined == nil {
		keys = slices.Insert(keys, 0, fmt.Sprintf("topics: [%s]", quoted(topic)))
		y.line("    input: {%s}", strings.Join(keys, ", "))
		return
	}
	y.line("    input:\n      topics: [%s]", quoted(topic))
	for _, key := range keys {
		y.line("      %s", key)
	}
	if g.joined != nil {
		of := o.OutcomesTopic
		if of == "" {
			of = nameOf(o.Outcomes)
		}
		g.joined.write(y, of)
	}
	if !isMapped {
		return
	}
	y.line("      mapping:")
	if g.sample.Envelope != "" {
		y.line("        envelope: %s", g.sample.Envelope)
	}
	if len(g.mapped) > 0 {
		y.line("        fields:")
	}
	for _, f := range g.mapped {
		as := ""
		if f.As != "" {
			as = ", as: " + f.As
		}
		y.line("          - {name: %s, path: %s%s}", quoted(f.Name), quoted(f.Path), as)
	}
}

// writeLabel writes what the schema says of the label and the time.
func (g *guess) writeLabel(y *yamlText) {
	s := &g.schema
	if s.Label == "" {
		y.line("      task: %s  # %s", s.Task, g.labelWhy)
	} else {
		y.line("      task: %s  # %s: %s", s.Task, s.Label, g.labelWhy)
		y.line("      label: %s", quoted(s.Label))
	}
	if len(s.EventWeights) > 0 {
		y.line("      event_weights:  # what a choice of each kind counts: more for what says more, such as a purchase")
		for _, w := range s.EventWeights {
			y.line("        - {event: %s, weight: %g}", quoted(w.Event), w.Weight)
		}
	}
	if s.Levels > 0 {
		y.line("      levels: %d", s.Levels)
	}
	if len(s.Classes) > 0 {
		y.line("      classes: %s", quotedList(s.Classes))
	}
	if s.Positive != "" {
		y.line("      positive: %s\n      negative: %s", quoted(s.Positive), quoted(s.Negative))
	}
	if s.LabelMin != s.LabelMax {
		y.line("      label_min: %v\n      label_max: %v", s.LabelMin, s.LabelMax)
	}
	if s.Identity != "" {
		y.line("      identity: %s  # of rows with the same one, the newest counts", quoted(s.Identity))
	}
	if s.Time != "" {
		y.line("      time: %s\n      time_unit: %s", quoted(s.Time), s.TimeUnit)
		y.line("      # Its hour and its day of the week, in UTC, are fields if this says so:")
		y.line("      # derived: [{name: utc_hour, kind: time_bin, unit: hour}, " +
			"{name: utc_weekday, kind: time_bin, unit: weekday}]")
	}
}

// writeFields writes the list of the fields of one use, if there are any.
func (g *guess) writeFields(y *yamlText, use string) {
	first := true
	for _, f := range g.fields {
		if f.Use != use {
			continue
		}
		if first {
			y.line("      %s:", use)
			if use == "multi" {
				y.line("        # weight: sqrt counts each name of a list of n names as 1/√n. " +
					"Where the label follows the mean of what the names say, as it may")
				y.line("        # of the last things that a user liked, mean is better, which counts 1/n.")
			}
			first = false
		}
		entry, why := quoted(f.Name), f.Why
		if f.Optional {
			entry, why = entry+", optional: true", why+", not in every row"
		}
		if use == "multi" {
			entry += ", weight: " + format.WeightSqrt
		}
		if of := g.schema.Of[f.Name]; of != "" {
			entry += ", of: " + quoted(of)
		}
		if entry != quoted(f.Name) {
			entry = "{name: " + entry + "}"
		}
		y.line("        - %s  # %s", entry, why)
	}
}

// A backtest by the schedule that init writes refits about mostRefits times once it is no longer young, refitsOfNames
// where there are no numbers, less often where a refit takes long, and leastRefits at least: its time is in proportion
// to the values of its rows for each output, of which wideValues are as many as mostRefits are made for. Updates follow
// names as well as refits do: half of the refits moved published losses by -0.5 to 0.8 % on six streams, but by up to
// 30 % where numbers move.
const (
	mostRefits    = 20
	refitsOfNames = 10
	leastRefits   = 5
	// fewestEvents come before the first refit of a file with twice as many; a shorter one is refitted in its middle. Of
	// a long file it is mostFirstEvents.
	fewestEvents    = 200
	mostFirstEvents = 500
	wideValues      = 1_000_000
)

// refits returns how often a backtest of the file refits where it does so each train.every_events.
func (g *guess) refits() int {
	s := &g.schema
	rows := min(g.total, config.DefaultModel().Sample.Size)
	values := rows * (len(s.Categorical) + len(s.Numeric) + len(s.Multi)) * max(1, len(s.Classes))
	if s.Task == config.Implicit {
		values *= 5 // a choice and the four names that are drawn with it
	}
	most := mostRefits
	if len(s.Numeric) == 0 {
		most = refitsOfNames
	}
	return min(most, max(leastRefits, mostRefits*wideValues/max(1, values)))
}

// schedule returns train.every, train.every_events and train.first_events by which a backtest of the file refits that
// often.
func (g *guess) schedule() (every time.Duration, events, first int) {
	refits := g.refits()
	events = max(min(fewestEvents, max(1, min(g.total, g.labelled)/2)), (g.total+refits-1)/refits)
	perSecond := int(offline.Clock{}.Rate())
	every = max(30*time.Second, time.Duration((events+perSecond-1)/perSecond)*time.Second)
	return every, events, min(events, mostFirstEvents, max(fewestEvents, g.total/mostRefits))
}

// yamlWord matches what some versions of YAML read as something else than text.
var yamlWord = regexp.MustCompile(`^(?i:null|true|false|yes|no|on|off|y|n|~|)$|^\d+-\d+-\d+$`)

// plainName writes the name of a model without quotes where YAML has it as text.
func plainName(name string) string {
	number := strings.ReplaceAll(name, "_", "")
	_, notNumber := strconv.ParseFloat(number, 64)
	_, notWhole := strconv.ParseInt(number, 0, 64)
	if yamlWord.MatchString(name) || (notNumber == nil || notWhole == nil) && !unicode.IsLetter(rune(name[0])) {
		return quoted(name)
	}
	return name
}

// quoted writes a name as YAML has it, in double quotes, which are JSON's.
func quoted(name string) string { return strconv.QuoteToGraphic(name) }

func quotedList(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = quoted(n)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
