package report

import "regexp"

// packagePrefixes are names of packages that errors carry for those who read the code, at the beginning of a text, of a
// line or behind another cause. Words that texts use otherwise, such as model and event, are none.
var packagePrefixes = regexp.MustCompile(
	`(^|\n|: )(?:(?:sketch|consumer|solver|snapshot|offline|dataset|ingest|cycle|choices|publish|announce|` +
		`statedir|cluster|produce|shard|scoring|export|diff|reproduce|plot|curves|deadletter|web|daemon): )+`,
)

// withoutPackages returns the text of an error for people: without the names of packages before its parts.
func withoutPackages(text string) string { return packagePrefixes.ReplaceAllString(text, "$1") }
