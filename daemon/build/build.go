// Package build identifies this build of refitd.
package build

import (
	"fmt"

	"github.com/prometheus/common/version"
)

// Version is the newest one of CHANGELOG.md.
const Version = "0.1.0"

// The metric refitd_build_info shows the variables of that package, which are for builds to set. It finds the commit in
// what the Go command records; a build without that may set it by -ldflags '-X
// github.com/prometheus/common/version.Revision=…'.
func init() { version.Version = Version }

// String returns the version, the commit, "unknown" if nobody recorded it, and the version of Go.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s)", Version, version.GetRevision(), version.GoVersion)
}

// Release returns the version and the commit.
func Release() string { return fmt.Sprintf("%s (commit %s)", Version, version.GetRevision()) }
