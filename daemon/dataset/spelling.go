package dataset

import (
	"regexp"
	"strings"
)

// spelling is how the numbers of a file are written. The zero value is that of programs: with a point, and nothing
// else.
type spelling uint8

const (
	programs      spelling = iota
	decimalPoints          // as in 1,234.50
	decimalCommas          // as in 1.234,50 or 1234.5
)

// Numbers as people write them. One group of three digits behind the mark of the other spelling may be a fraction, so
// that 1.234 is a fraction everywhere, and 1,234 where commas are decimal.
var (
	grouped = map[spelling]*regexp.Regexp{
		decimalPoints: regexp.MustCompile(`^\d{1,3}(,\d{3})+(\.\d+)?$|^\d{1,3}(['’\x{a0}\x{202f}]\d{3})+(\.\d+)?$`),
		decimalCommas: regexp.MustCompile(`^\d{1,3}(\.\d{3})+,\d+$|^\d{1,3}(\.\d{3}){2,}$|` +
			`^\d{1,3}([ '’\x{a0}\x{202f}]\d{3})+([.,]\d+)?$`),
	}
	// american are numbers with a decimal point that are certain where commas are decimal.
	american = regexp.MustCompile(`^\d{1,3}(,\d{3})+\.\d+$|^\d{1,3}(,\d{3}){2,}$`)
	// german are numbers with a decimal comma that are certain where points are decimal.
	german = regexp.MustCompile(`^\d{1,3}(\.\d{3})+,\d+$`)
	// decimalComma matches a number with one.
	decimalComma = regexp.MustCompile(`^[0-9]*,[0-9]+$`)
	// bare matches a number without groups and signs.
	bare = regexp.MustCompile(`^\d+(\.\d+)?$`)
	// thousand is a number that may be a fraction or more than a thousand.
	thousand = regexp.MustCompile(`^\d{1,3}\.\d{3}$`)

	groupMarks = strings.NewReplacer(" ", "", "'", "", "’", "", "\u00a0", "", "\u202f", "")
)

// The signs that money and shares have, before or behind the number.
const (
	moneySigns = "$€£¥₹₽₩"
	spaces     = " \u00a0\u202f"
)

// maxNumberText is more than the length of a number that people write.
const maxNumberText = 40

// plain returns a number as programs write it, and any other cell as it is. It reads groups of thousands, a decimal
// comma, signs of money and per cent, which divides nothing, and a negative number in brackets.
func (s spelling) plain(cell string) string {
	if s == programs || len(cell) < 2 || len(cell) > maxNumberText || isPlain(cell) {
		return cell
	}
	text, sign := strings.ReplaceAll(cell, "−", "-"), ""
	if inner, ok := strings.CutPrefix(text, "("); ok && strings.HasSuffix(inner, ")") {
		text, sign = inner[:len(inner)-1], "-"
	}
	money := strings.Trim(text, moneySigns+spaces+"%")
	if sign == "" && len(money) > 0 && (money[0] == '-' || money[0] == '+') {
		sign, money = money[:1], money[1:]
	} else if sign == "" && len(text) > 0 && text[0] == '-' { // -$5
		sign, money = "-", strings.Trim(text[1:], moneySigns+spaces+"%")
	}
	money = strings.Trim(money, moneySigns+spaces)
	switch {
	case decimalComma.MatchString(money) && s == decimalCommas:
		money = strings.Replace(money, ",", ".", 1)
	case german.MatchString(money), s == decimalCommas && grouped[s].MatchString(money):
		if money = groupMarks.Replace(money); strings.Contains(money, ",") || strings.Count(money, ".") > 1 {
			money = strings.Replace(strings.ReplaceAll(money, ".", ""), ",", ".", 1)
		}
	case american.MatchString(money), s == decimalPoints && grouped[s].MatchString(money):
		money = strings.ReplaceAll(groupMarks.Replace(money), ",", "")
	case s == decimalCommas && thousand.MatchString(money) && text != money:
		return cell // 1.234 € is both
	case !bare.MatchString(money):
		return cell
	}
	return strings.TrimPrefix(sign, "+") + money
}

// isPlain reports whether a cell has nothing but what programs write in numbers, or letters. What begins with a letter
// is no number.
func isPlain(cell string) bool {
	if b := cell[0] | 0x20; 'a' <= b && b <= 'z' {
		return true
	}
	for i := range len(cell) {
		if b := cell[i]; b >= 0x80 || strings.IndexByte(" '(),%$", b) >= 0 {
			return false
		}
	}
	return strings.Count(cell, ".") < 2
}

// Numbers with a mark that groups thousands for certain, and those with the same mark once, by the mark.
var marks = []struct{ groups, once *regexp.Regexp }{
	{regexp.MustCompile(`^\D*\d{1,3}((\.\d{3}){2,}(,\d+)?|(\.\d{3})+,\d+)\D*$`),
		regexp.MustCompile(`^\D*[1-9]\d{0,2}\.\d{3}\D*$`)},
	{regexp.MustCompile(`^\D*\d{1,3}((,\d{3}){2,}(\.\d+)?|(,\d{3})+\.\d+)\D*$`),
		regexp.MustCompile(`^\D*[1-9]\d{0,2},\d{3}\D*$`)},
}

// TwoMarks returns two numbers of a file of text whose mark groups thousands in one and is read as a decimal one in the
// other, which is a thousand times too small then: 1.234.567 and 1.234. They are empty without such.
func (c *Column) TwoMarks() (grouped, once string) {
	if c.profile.spelling == programs {
		return "", ""
	}
	for _, m := range marks {
		grouped, once = "", ""
		for value := range c.values {
			if number := c.profile.plain(value); m.groups.MatchString(value) && number != value {
				grouped = max(grouped, value)
			} else if m.once.MatchString(value) && strings.Contains(number, ".") {
				once = max(once, value)
			}
		}
		if grouped != "" && once != "" {
			return grouped, once
		}
	}
	return "", ""
}
