package dataset

import (
	"fmt"
	"testing"
	"time"
)

// TestSpellings: numbers as spreadsheets write them are the numbers that they are, where that is certain.
func TestSpellings(t *testing.T) {
	for cell, want := range map[string][2]string{ // with decimal points, and with decimal commas
		"1,234.50":             {"1234.50", "1234.50"},
		"1.234,50":             {"1234.50", "1234.50"},
		"1,234":                {"1234", "1.234"},
		"1.234":                {"1.234", "1.234"},
		"1,234,567":            {"1234567", "1234567"},
		"1.234.567":            {"1.234.567", "1234567"},
		"1.234.567,5":          {"1234567.5", "1234567.5"},
		"12,5":                 {"12,5", "12.5"},
		"+,5":                  {"+,5", ".5"},
		"1'234.5":              {"1234.5", "1234.5"},
		"1 234,5":              {"1 234,5", "1234.5"},
		"1\u202f234\u202f567":  {"1234567", "1234567"},
		"$1,234.50":            {"1234.50", "1234.50"},
		"-$5":                  {"-5", "-5"},
		"$-5":                  {"-5", "-5"},
		"€ 12":                 {"12", "12"},
		"12,50 €":              {"12,50 €", "12.50"},
		"1.234 €":              {"1.234", "1.234 €"},
		"49%":                  {"49", "49"},
		"-4,5 %":               {"-4,5 %", "-4.5"},
		"(12.5)":               {"-12.5", "-12.5"},
		"($1,234)":             {"-1234", "-1.234"},
		"−5":                   {"-5", "-5"},
		"1e5":                  {"1e5", "1e5"},
		"12,34,5":              {"12,34,5", "12,34,5"},
		"1,23.5":               {"1,23.5", "1,23.5"},
		"1'23":                 {"1'23", "1'23"},
		"()":                   {"()", "()"},
		"10.0.0.1":             {"10.0.0.1", "10.0.0.1"},
		"$":                    {"$", "$"},
		"% %":                  {"% %", "% %"},
		"5 kg":                 {"5 kg", "5 kg"},
		"(555) 1234":           {"(555) 1234", "(555) 1234"},
		"1 234":                {"1 234", "1234"},
		"1,234.567,8":          {"1,234.567,8", "1,234.567,8"},
		"12 345 678 901 2":     {"12 345 678 901 2", "12 345 678 901 2"},
		"100000000000,5 Euros": {"100000000000,5 Euros", "100000000000,5 Euros"},
	} {
		for i, s := range []spelling{decimalPoints, decimalCommas} {
			if got := s.plain(cell); got != want[i] {
				t.Errorf("%q is %q as spelling %d, want %q", cell, got, s, want[i])
			}
		}
		if got := programs.plain(cell); got != cell {
			t.Errorf("%q of a program is %q", cell, got)
		}
	}
}

// TestWrittenTimes: times in many forms are the moment that they say, and those that may be two days are none.
func TestWrittenTimes(t *testing.T) {
	at := time.Date(2024, 3, 5, 16, 7, 8, 0, time.UTC)
	for _, text := range []string{"2024-03-05T16:07:08Z", "2024-03-05t16:07:08z", "2024-03-05 16:07:08",
		"2024/03/05 16:07:08", "2024-3-5 16:07:08", "2024-03-05 16:07:08 GMT", "2024-03-05 16:07:08 UTC",
		"2024-03-05T17:07:08+01:00[Europe/Berlin]", "2024-03-05 4:07:08 pm", "05.03.2024 16:07:08", "5.3.2024 16:07:08",
		"20240305T160708Z", "20240305T170708+0100", "Tue, 05 Mar 2024 16:07:08 GMT", "Tue, 5 Mar 2024 17:07:08 +0100",
		"Tue Mar  5 16:07:08 2024", "Tue Mar 05 16:07:08 +0000 2024", "05/Mar/2024:16:07:08 +0000",
		"5-Mar-2024 16:07:08", "5 Mar 2024 16:07:08", "Mar 5, 2024 16:07:08", "Mar 5, 2024 4:07:08 PM",
		"2024-03-05 16:07:08,000", "2024-03-05T16:07:08.000000Z"} {
		if got, ok := parseTime(text); !ok || !got.Equal(at) || !LooksLikeTime(text) && text[8] != 'T' {
			t.Errorf("%q is %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"03/05/2024", "03/05/2024 16:07", "05-03-2024 16:07", "16:07:08",
		"2024-03-05 16:07:08 CET", "05-MAR-24", "Tue Mar 5 16:07:08 CET 2024", "2024-03-05T24:00:00", "2024-13-05",
		"32.01.2024"} {
		if got, ok := parseTime(text); ok || !LooksLikeTime(text) {
			t.Errorf("%q is %v, or does not look like a time", text, got)
		}
	}
	for _, text := range []string{"", "1.2", "10.0.0.12", "2024", "Mary 2024", "Mars 5", "u-1-2-3", "1704067200",
		"2024-03-05T16:07:08[Europe/Berlin]", "May", "12345678", "12345678T", "1.10.2"} {
		if got, ok := parseTime(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"4.12.1", "10.15.7", "12-34-56", "123-45-6789", "10.0.0.1", "Marvel 12", "Octavia 3",
		"12-abc-34", "192.168.1"} {
		if LooksLikeTime(text) {
			t.Errorf("%q looks like a time", text)
		}
	}
	for i := range 100 { // no text is too short
		_, _ = parseTime(fmt.Sprintf("%0*d", i, 1)[min(1, i):])
	}
}
