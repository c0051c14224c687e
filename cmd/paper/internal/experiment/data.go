package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/solver"
)

// ErrNoData is wrapped by the error about a file that is not in the data directory.
var ErrNoData = errors.New("paper: no such data set: --data names the directory with one folder for each set")

// missing wraps an error of reading a file, with ErrNoData if it is not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoData, err)
	}
	return fmt.Errorf("paper: %w", err)
}

// classSet is a multi-class set: rows with a constant first column, and the class of each.
type classSet struct {
	x       *solver.Rows
	class   []int
	classes int // m
}

// readClasses reads a LIBSVM file of classes. Classes are numbered in the order of their numbers.
func readClasses(path string) (*classSet, error) {
	set, err := dataset.Read(
		path,
		dataset.Options{Format: dataset.LIBSVM, Schema: event.Schema{Task: event.Multiclass}},
	)
	if err != nil {
		return nil, missing(err)
	}
	if text := set.Skipped.String(); text != "" {
		return nil, fmt.Errorf("paper: %s: %s", path, text)
	}
	numbers := make(map[string]int)
	for i := range set.Examples {
		name := set.Examples[i].Classes[0]
		if numbers[name], err = strconv.Atoi(name); err != nil {
			return nil, fmt.Errorf("paper: %s:%d: class %q is not a whole number", path, set.Examples[i].Line, name)
		}
	}
	names := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	s := &classSet{
		x:       solver.NewRows(set.NumFeatures+1, len(set.Examples), (set.NumFeatures+1)*len(set.Examples)),
		classes: len(names),
	}
	index, value := make([]int32, 0, set.NumFeatures+1), make([]float64, 0, set.NumFeatures+1)
	for i := range set.Examples {
		index, value = append(index[:0], 0), append(value[:0], 1)
		for _, e := range set.Examples[i].Sparse {
			index, value = append(index, int32(e.Index+1)), append(value, e.Value)
		}
		s.x.Append(index, value)
		s.class = append(s.class, slices.Index(names, set.Examples[i].Classes[0]))
	}
	return s, nil
}

// problem is multinomial logistic regression on the given rows.
func (s *classSet) problem(rows []int) *solver.Problem {
	targets := make([]float64, len(rows)*s.classes)
	for i, row := range rows {
		targets[i*s.classes+s.class[row]] = 1
	}
	return &solver.Problem{
		X:       s.x.Select(rows),
		Targets: targets,
		Outputs: s.classes,
		Loss:    solver.MultinomialLogistic{},
	}
}

// accuracy is the share of the given rows whose largest output is that of their class, in percent.
func (s *classSet) accuracy(m *solver.Model, rows []int) float64 {
	outputs, work := make([]float64, m.NumOutputs), make([]float64, 2*m.NumBasis)
	right := 0
	for _, row := range rows {
		index, value := s.x.Row(row)
		m.Predict(outputs, work, index, value)
		best := 0
		for c, o := range outputs {
			if o > outputs[best] {
				best = c
			}
		}
		if best == s.class[row] {
			right++
		}
	}
	return 100 * float64(right) / float64(len(rows))
}

// numLevels is L of MovieLens: ratings are 1 to 5.
const numLevels = 5

// ratingSet is a set of ratings: rows of one user and one item, in the order of the file.
type ratingSet struct {
	x            *solver.Rows
	user         []string
	level        []float64
	users, items int
}

// readRatings reads a MovieLens file. Users and items are numbered in the order of their first ratings, items after all
// users.
func readRatings(path string) (*ratingSet, error) {
	model, err := fit.ModelOf("", dataset.MovieLens, "", path)
	if err != nil {
		return nil, missing(err)
	}
	set, err := offline.ReadEvents(model, path, dataset.MovieLens, offline.TableOptions{}, nil)
	if err != nil {
		return nil, missing(err)
	}
	if text := set.Skipped.String(); text != "" {
		return nil, fmt.Errorf("paper: %s: %s", path, text)
	}
	var numbers [2]map[string]int32
	for field := range numbers {
		numbers[field] = make(map[string]int32)
		for i := range set.Examples {
			if name := set.Examples[i].Categorical[field]; numbers[field][name] == 0 {
				numbers[field][name] = int32(len(numbers[field]) + 1) // 0 means no name
			}
		}
	}
	s := &ratingSet{users: len(numbers[0]), items: len(numbers[1])}
	s.x = solver.NewRows(s.users+s.items, len(set.Examples), 2*len(set.Examples))
	for i := range set.Examples {
		ev := &set.Examples[i].Event
		s.x.Append(
			[]int32{numbers[0][ev.Categorical[0]] - 1, int32(s.users) + numbers[1][ev.Categorical[1]] - 1},
			[]float64{1, 1},
		)
		s.user = append(s.user, ev.Categorical[0])
		s.level = append(s.level, ev.Label)
	}
	return s, nil
}

// problem is McRank on the given rows, or squared loss on one output.
func (s *ratingSet) problem(rows []int, ordinal bool) *solver.Problem {
	p := &solver.Problem{
		X:         s.x.Select(rows),
		Outputs:   1,
		Loss:      solver.Squared{},
		NumFields: 2,
		Field:     make([]int32, s.users+s.items),
	}
	for j := s.users; j < len(p.Field); j++ {
		p.Field[j] = 1
	}
	if ordinal {
		p.Outputs, p.Loss = numLevels-1, solver.BinaryLogistic{}
	}
	p.Targets = make([]float64, len(rows)*p.Outputs)
	for i, row := range rows {
		if ordinal {
			solver.EncodeLevel(p.Targets[i*p.Outputs:(i+1)*p.Outputs], int(s.level[row]))
		} else {
			p.Targets[i] = s.level[row]
		}
	}
	return p
}

// file returns the path of a file of a set.
func (o *Options) file(parts ...string) string {
	return filepath.Join(append([]string{o.Data}, parts...)...)
}
