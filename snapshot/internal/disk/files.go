package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	AliasDir = "aliases"
	NewAlias = ".new" // an alias that is being written
)

func DigestOf(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

func HexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// mostNamed is how many versions an error names.
const mostNamed = 10

func VersionDir(root *os.Root, version int64) (*os.Root, error) {
	name := strconv.FormatInt(version, 10)
	st, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || version < 1 {
		there, _ := NumbersIn(root) // only to say which there are
		newest := strings.Trim(fmt.Sprint(there[max(0, len(there)-mostNamed):]), "[]")
		return nil, fmt.Errorf("%w: no version %d (the newest that there are: %s): it was pruned or never published",
			ErrNotFound, version, newest)
	}
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%w: version %d is not a directory", replaced{}, version)
	}
	dir, err := root.OpenRoot(name)
	return dir, Absent(err)
}

// Absent turns the error for a file that is not there into ErrNotFound.
func Absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the version is incomplete or was just pruned: %w", ErrNotFound, err)
	}
	return err
}

// HeadFile is in the bucket of a model, and another one after each move, renewal and delta: readers without news ask
// for it alone. It says nothing else, so that nothing of it has to be trusted.
const HeadFile = "head"

// RenewalDir has the newest renewal of each alias, in files separate from the aliases: readers that do not know it
// see the alias as it was set.
const RenewalDir = "renewals"

// replaced is the error for something else in the place of a file or directory: no format, and not what was published.
type replaced struct{}

func (replaced) Error() string { return ErrFormat.Error() }

func (replaced) Is(target error) bool { return target == ErrFormat || target == ErrDigest }

func OpenRegular(root *os.Root, name string) (*os.File, error) {
	return OpenRegularAs(root, name, os.O_RDONLY)
}

func OpenRegularAs(root *os.Root, name string, flags int) (*os.File, error) {
	// Looked at before it is opened: opening a pipe would wait for its writer.
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file (%s)", name, replaced{}, st.Mode().Type())
	}
	return root.OpenFile(name, flags, 0)
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAtMost(f, name, limit)
}

// firstRead is the memory taken for a stream before any of it has come.
const firstRead = 64 << 10

// ReadAtMost reads a stream of at most limit bytes; a longer one is ErrDigest. Of a file the size is looked at before
// memory is taken; of another stream, memory grows with what has come, so that nobody is made to allocate what is never
// sent.
func ReadAtMost(r io.Reader, name string, limit int64) ([]byte, error) {
	size := min(limit, firstRead)
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if st.Size() > limit {
			return nil, fmt.Errorf("%s: %w: %d bytes, at most %d expected", name, ErrDigest, st.Size(), limit)
		}
		size = st.Size()
	}
	b := make([]byte, 0, size+1) // one more, to see the end without growing
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("%s: %w: more than the %d bytes expected", name, ErrDigest, limit)
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(2*int64(cap(b)), limit+1))
			copy(grown, b)
			b = grown
		}
	}
}

// The files of a version. The manifest, written last, lists the others but for SignatureFile and ModelSignatureFile.
const (
	ManifestFile   = "manifest.json"
	TensorsFile    = "model.safetensors"
	VocabularyFile = "vocabulary"
	GoldenFile     = "golden.jsonl"
)

// MaxVersion keeps versions exact in JSON numbers of every language.
const MaxVersion = 1<<53 - 1

var ValidName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// StagedFile is a file of a version before it is written.
type StagedFile struct {
	Name    string
	Content []byte
}

// NumbersIn lists the numbers that names in the directory of a model are of, ascending, whatever has them.
func NumbersIn(root *os.Root) ([]int64, error) {
	names, err := List(root, ".")
	return NumbersOf(names), err
}

func NumbersOf(names []string) (numbers []int64) {
	for _, name := range names {
		if v := VersionNumber(name); v > 0 {
			numbers = append(numbers, v)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// IsVersion reports whether a number is that of a directory, which may be whole or not.
func IsVersion(root *os.Root, number int64) bool {
	st, err := root.Lstat(strconv.FormatInt(number, 10))
	return err == nil && st.IsDir()
}

// VersionNumber returns the version that a directory of that name is, 0 if it is none.
func VersionNumber(name string) int64 {
	v, err := strconv.ParseInt(name, 10, 64)
	if err != nil || v < 1 || v > MaxVersion || strconv.FormatInt(v, 10) != name {
		return 0
	}
	return v
}

// List returns the names in a directory.
func List(root *os.Root, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// InModel returns what read finds in the directory of a model.
func InModel[T any](dir, model string, read func(root *os.Root) (T, error)) (found T, err error) {
	root, err := OpenModel(dir, model)
	if err != nil {
		return found, err
	}
	defer root.Close()
	return read(root)
}

// OpenModel opens the directory of a model. Paths below it cannot leave it, by ".." or by symbolic links.
func OpenModel(dir, model string) (*os.Root, error) {
	if !ValidName.MatchString(model) {
		return nil, fmt.Errorf("%w: model %q is not of the form %s", ErrName, model, ValidName)
	}
	store, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no store at %s: check the path (--store)", ErrNotFound, dir)
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	root, err := store.OpenRoot(model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no model %s in %s: check the name (--model), or publish a first version",
			ErrNotFound, model, dir)
	}
	return root, err
}
