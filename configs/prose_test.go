package configs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds of the Markdown that people write. A page within them can be read by someone who is tired.
const (
	maxWords         = 45_000 // of all pages that people write, with code and tables
	maxMeanWords     = 20     // of a sentence, on the average over all pages
	longSentence     = 40     // words
	maxLongSentences = 5      // of all pages
)

// tableRow is a line of a table: those of metrics.md are made of metrics.json.
var tableRow = regexp.MustCompile(`(?m)^\|.*\n`)

// aWord is what counts as one: it has a letter or a digit, which the bars of tables have not.
var aWord = regexp.MustCompile(`[\pL\pN]`)

func numWords(text string) (n int) {
	for _, word := range strings.Fields(text) {
		if aWord.MatchString(word) {
			n++
		}
	}
	return n
}

// TestProse: pages that people write are short, and so are their sentences. The figures of each page are logged.
func TestProse(t *testing.T) {
	t.Parallel()
	words, total, sentences, long := 0, 0, 0, 0
	for _, file := range sourcesUnder(t, "..", ".md") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if generatedMark.Match(content) || filepath.Base(file) == "THIRD_PARTY.md" {
			continue
		}
		text, sum, number := string(content), 0, 0
		if filepath.Base(file) == "metrics.md" {
			text = tableRow.ReplaceAllString(text, "")
		}
		for _, sentence := range sentencesOf(text) {
			n := numWords(sentence)
			sum, number = sum+n, number+1
			if n > longSentence {
				long++
				t.Logf("%s: %d words: %s", file, n, sentence)
			}
		}
		t.Logf("%s: %d words, %.1f a sentence", file, numWords(text), float64(sum)/float64(max(number, 1)))
		total, sentences, words = total+sum, sentences+number, words+numWords(text)
	}
	if sentences == 0 {
		t.Fatal("no sentences")
	}
	mean := float64(total) / float64(sentences)
	t.Logf("%d words, %.1f a sentence, %d sentences above %d words", words, mean, long, longSentence)
	if words > maxWords {
		t.Errorf("%d words, at most %d", words, maxWords)
	}
	if mean > maxMeanWords {
		t.Errorf("%.1f words a sentence, at most %d", mean, maxMeanWords)
	}
	if long > maxLongSentences {
		t.Errorf("%d sentences above %d words, at most %d", long, longSentence, maxLongSentences)
	}
}

// TestPagesBegin: each page below docs says first what one can do after reading it.
func TestPagesBegin(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages: ", err)
	}
	for _, file := range pages {
		text := htmlComment.ReplaceAllString(string(mustRead(t, file)), "")
		_, text, _ = strings.Cut(strings.TrimSpace(text), "\n")
		if !strings.HasPrefix(strings.TrimSpace(text), "After this page") {
			t.Errorf("%s does not begin with what one can do after it: %.60q", file, strings.TrimSpace(text))
		}
	}
}

var htmlComment = regexp.MustCompile(`<!--[^>]*-->\n*`)

// TestSentences: blocks of code, tables and headings are no sentences; items of lists are not one with their
// neighbours.
func TestSentences(t *testing.T) {
	t.Parallel()
	text := "# A heading\n\nOne thought\nin two lines. Is `a. b c` one word?\nYes (it is.) Version 0.5 too\n\n" +
		"| a | b |\n|---|---|\n| c. | d |\n\n    code. code.\n\n```\ncode.\n```\n- first, see [a b](c.md#d)\n- second\n" +
		"  and its end\n1. third\n"
	want := []string{"One thought in two lines.", "Is code one word?", "Yes (it is.)", "Version 0.5 too",
		"first, see a b", "second and its end", "third"}
	if n := numWords("| two | *words* | – |\n|---|---|"); n != 2 {
		t.Errorf("%d words, want 2", n)
	}
	if got := sentencesOf(text); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

var (
	listItem      = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	markdownLink  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlTag       = regexp.MustCompile(`<[^>]*>`)
	endOfSentence = regexp.MustCompile(`[.!?]["')*]*\s+`)
)

// sentencesOf returns the sentences of a Markdown text. A span of code is one word, a link the words that one sees.
func sentencesOf(text string) (list []string) {
	var paragraph []string
	end := func() {
		text := strings.Join(paragraph, " ")
		paragraph = nil
		text = htmlTag.ReplaceAllString(markdownLink.ReplaceAllString(text, "$1"), "")
		for _, sentence := range strings.SplitAfter(endOfSentence.ReplaceAllString(text, "$0\x00"), "\x00") {
			if sentence = strings.Trim(sentence, " \x00"); sentence != "" {
				list = append(list, sentence)
			}
		}
	}
	for line := range strings.Lines(prose(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "|"), strings.HasPrefix(line, "#"), line == "---":
			end()
			continue
		case listItem.MatchString(line):
			end()
			line = listItem.ReplaceAllString(line, "")
		}
		paragraph = append(paragraph, line)
	}
	end()
	return list
}
