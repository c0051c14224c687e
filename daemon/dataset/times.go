package dataset

import (
	"regexp"
	"strings"
	"time"
)

// timeLayouts are the ways in which Table reads a written time whose year is first: RFC 3339, also with a space as
// pandas and databases have it, without seconds, zone or clock, and with fewer digits.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05",
	time.DateTime,
	time.DateOnly,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05Z07",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05Z0700",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02T15:04Z07:00",
	"2006-1-2",
	"2006-1-2 15:04",
	"2006-1-2 15:04:05",
	"2006-1-2 3:04:05 PM",
}

// dottedLayouts have the day first, as all do that write dots.
var dottedLayouts = []string{"2.1.2006", "2.1.2006 15:04", "2.1.2006 15:04:05"}

// namedLayouts have the name of a month, so that the day is known: of mail, C, Twitter, web servers, Oracle and people.
var namedLayouts = []string{
	"Mon, 2 Jan 2006 15:04:05 Z0700",
	"Mon Jan _2 15:04:05 2006",
	"Mon Jan _2 15:04:05 Z0700 2006",
	"02/Jan/2006:15:04:05 Z0700",
	"2-Jan-2006",
	"2-Jan-2006 15:04",
	"2-Jan-2006 15:04:05",
	"2 Jan 2006",
	"2 Jan 2006 15:04",
	"2 Jan 2006 15:04:05",
	"Jan 2, 2006",
	"Jan 2, 2006 15:04",
	"Jan 2, 2006 15:04:05",
	"Jan 2, 2006 3:04 PM",
	"Jan 2, 2006 3:04:05 PM",
}

// compactLayout is that of ISO 8601 without separators.
const compactLayout = "20060102T150405Z0700"

// maxTimeText is more than the length of the longest written time.
const maxTimeText = 64

var (
	// monthName finds the names of months, in English.
	monthName = regexp.MustCompile(`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`)
	// zoneName is what Java writes behind an offset.
	zoneName = regexp.MustCompile(`(Z|[+-]\d\d:\d\d)\[[A-Za-z_]+(/[A-Za-z_]+)*\]$`)
)

// parseTime reads a written time whose day, month and zone are certain, in UTC where no zone is written. Times such as
// 03/04/2024 are none: the day may be either number.
func parseTime(text string) (time.Time, bool) {
	if len(text) < len("2006-1-2") || len(text) > maxTimeText {
		return time.Time{}, false
	}
	isDigit := func(i int) bool { return '0' <= text[i] && text[i] <= '9' }
	switch dot := strings.IndexByte(text[:3], '.'); {
	case isDigit(0) && isDigit(3) && (text[4] == '-' || text[4] == '/'):
		return parseOneOf(timeLayouts, tidyTime(text))
	case isDigit(0) && dot > 0:
		return parseOneOf(dottedLayouts, text)
	case isDigit(0) && text[min(len("20060102"), len(text)-1)] == 'T':
		return parseOneOf([]string{compactLayout}, text)
	case isNamed(text):
		return parseOneOf(namedLayouts, withOffset(text))
	}
	return time.Time{}, false
}

// isNamed reports whether a text has the name of a month where namedLayouts have it, without a look at all of a text
// that begins with a digit or a small letter.
func isNamed(text string) bool {
	switch {
	case '0' <= text[0] && text[0] <= '9':
		return strings.ContainsAny(text[1:3], " -/") && monthName.MatchString(text[:min(len(text), len("02/Jan"))])
	case text[0] < 'A' || 'Z' < text[0]:
		return false
	}
	return strings.ContainsAny(text, "0123456789") && monthName.MatchString(text)
}

func parseOneOf(layouts []string, text string) (time.Time, bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// tidyTime writes a time whose year is first as timeLayouts have it: with hyphens, capital letters, and the offset
// alone where a zone is named behind it.
func tidyTime(text string) string {
	if text[4] == '/' {
		text = strings.Replace(text, "/", "-", 2)
	}
	if text[len(text)-1] == ']' {
		text = zoneName.ReplaceAllString(text, "$1")
	}
	return withOffset(strings.ToUpper(text))
}

// withOffset returns a time with an offset for UTC and GMT, which are the zones whose name says it.
func withOffset(text string) string {
	for _, zone := range []string{" UTC", " GMT"} {
		if strings.Contains(text, zone) {
			return strings.Replace(text, zone, " Z", 1)
		}
	}
	return text
}

// likeTime matches what looks like a time that parseTime may not read. Three numbers are a day where one of them is a
// year, or slashes are between them: 4.12.1 is a version, and 12-34-56 a code.
var likeTime = regexp.MustCompile(`^\d{1,2}[/.-](\d{1,2}|[A-Za-z]{3,9})[/.-]\d{4}([ Tt:]|$)|` +
	`^\d{4}[/.-](\d{1,2}|[A-Za-z]{3,9})[/.-]\d{1,2}([ Tt:]|$)|^\d{1,2}/\d{1,2}/\d\d([ ,]|$)|^\d{1,2}:\d\d(:\d\d)?\b|` +
	`^\d{1,2}[/.-](?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[/.-]\d\d([ Tt:]|$)|` +
	`\b(Jan(uary)?|Feb(ruary)?|Mar(ch)?|Apr(il)?|May|June?|July?|Aug(ust)?|Sept?(ember)?|Oct(ober)?|Nov(ember)?|` +
	`Dec(ember)?)\b.*\d`)

// LooksLikeTime reports whether a text seems to be a time, in whatever form.
func LooksLikeTime(text string) bool { return len(text) <= maxTimeText && likeTime.MatchString(text) }
