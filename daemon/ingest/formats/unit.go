package formats

// The years in which events of a log happen: a time of another unit lies in them.
const (
	year1980 = 315532800000  // in milliseconds since 1970
	year2100 = 4102444800000 // in milliseconds since 1970
)

// TrueUnit returns the unit that a time seems to be of, if the unit of the schema makes it a day of 1970: "s", "ms" or
// "us". It returns "" for a time that may be what it says. A unit that is too large makes times that are refused, after
// the year 9999.
func TrueUnit(unit string, at int64) string {
	if at <= 0 || at >= year1980/10 {
		return ""
	}
	larger := []string{"us", "ms", "s"} // each 1,000 times as long as the one before
	switch unit {
	case "ns":
	case "us":
		larger = larger[1:]
	case "s":
		return ""
	default:
		larger = larger[2:]
	}
	for _, name := range larger {
		if at *= 1000; at >= year1980 && at < year2100 {
			return name
		}
	}
	return ""
}
