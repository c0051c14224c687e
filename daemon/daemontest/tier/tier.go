// Package tier says which tests run. A plain go test runs those that take seconds, in a form that takes seconds; what
// takes more is asked for by name in the environment variable REFITD_TESTS, with commas between the names:
//
//	broker  faults of brokers, networks and machines around the built command; most need a real Apache Kafka (Java 17 and Maven)
//	kills   the built command killed, failing at each durable step, and stopped, under load
//	race    tests of whole processes, killed and started again, under the race detector too
//	load    rates, backlogs, hostile records and other tests that want the machine for themselves
//	long    the long form of every test that has two: 20,000 histories of the sample for 1000, every bit of a file for one of each byte
//
// No name includes another: broker,long asks for the long form of the faults. A test that is not asked for is
// skipped and says which name asks for it. The package imports nothing but the standard library, so that the tests of
// every package may import it.
package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Variable is the environment variable that names the tiers asked for.
const Variable = "REFITD_TESTS"

// A Tier is a group of tests that are asked for together.
type Tier string

const (
	Broker Tier = "broker"
	Kills  Tier = "kills"
	Race   Tier = "race"
	Load   Tier = "load"
	Long   Tier = "long"
)

// Asked reports whether the environment names any of the tiers. It panics where the environment names one that there is
// not.
func Asked(tiers ...Tier) bool {
	names, err := parse(os.Getenv(Variable)) // not once for all: the cache of test results notes what a test reads
	if err != nil {
		panic(err)
	}
	return slices.ContainsFunc(tiers, func(t Tier) bool { return slices.Contains(names, t) })
}

func parse(list string) (names []Tier, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch t := Tier(strings.TrimSpace(name)); t {
		case "":
		case Broker, Kills, Race, Load, Long:
			names = append(names, t)
		default:
			return nil, fmt.Errorf("%s names %q, which is none of %s, %s, %s, %s and %s", Variable, t, Broker, Kills,
				Race, Load, Long)
		}
	}
	return names, nil
}

// Need skips a test whose tier is not asked for.
func Need(t testing.TB, tier Tier) {
	t.Helper()
	if !Asked(tier) {
		t.Skipf("%s=%s asks for it", Variable, tier)
	}
}

// Size is the size of a test that has two forms.
func Size[T any](plain, long T) T {
	if Asked(Long) {
		return long
	}
	return plain
}

// UnderRace reports whether the race detector is in this binary.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// NotUnderRace skips a test of arithmetic in one goroutine, which takes minutes under the race detector.
func NotUnderRace(t testing.TB) {
	t.Helper()
	if UnderRace() {
		t.Skip("the race detector has nothing to find in one goroutine's arithmetic, and takes minutes over it")
	}
}

// OfProcesses skips a test of whole processes under the race detector, which takes a minute over each, unless [Race] is
// asked for: tests in one process show it the same code.
func OfProcesses(t testing.TB) {
	t.Helper()
	if UnderRace() && !Asked(Race) {
		t.Skipf("the race detector has nothing to find that tests in one process do not show it; %s=%s asks for it",
			Variable, Race)
	}
}

// Shared returns a path below the folder shared next to the project, or skips the test where nothing has that path.
func Shared(t testing.TB, parts ...string) string {
	t.Helper()
	name := filepath.Join(append([]string{"..", "shared"}, parts...)...)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			path := filepath.Join(root, name)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("needs %s, which is not part of the project", name)
			}
			return path
		}
	}
	t.Fatal("no go.mod above the test")
	return ""
}
