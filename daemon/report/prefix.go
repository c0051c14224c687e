package report

import "regexp"

// packagePrefixes are names of packages that errors carry for those who read the code, at the beginning of a text, of a
// line or behind another cause.
var packagePrefixes = regexp.MustCompile(
	`(^|\n|: )(?:(?:sketch|consumer|solver|margin|posterior|snapshot|kafkasource|objects|signin|offline|dataset|ingest|` +
		`cycle|choices|quality|publish|announce|statedir|state|cluster|produce|shard|scoring|export|diff|reproduce|replay|verify|` +
		`topic|quickstart|broker|plot|curves|crash|traces|notify|deadletter|config|report|model|web|daemon|tables|` +
		`vectors): )+`,
)

// WithoutPackages returns the text of an error for people: without the names of packages before its parts.
func WithoutPackages(text string) string { return packagePrefixes.ReplaceAllString(text, "$1") }
