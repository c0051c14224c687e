package guess

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/daemon/dataset"
)

// words are those of a name: of "user_rating", "Star rating" and "userRating".
var words = regexp.MustCompile(`\p{Lu}?\p{Ll}+|\p{Lu}+`)

// wordsOf returns the words of a name in small letters.
func wordsOf(name string) []string {
	list := words.FindAllString(name, -1)
	for i := range list {
		list[i] = strings.ToLower(list[i])
	}
	return list
}

// ownName is the name that a column has in its object.
func ownName(c *dataset.Column) string {
	if n := len(c.Path); n > 1 && strings.HasPrefix(c.Path[n-1], "$") { // of MongoDB, such as $date
		return c.Path[n-2]
	} else if n > 0 {
		return c.Path[n-1]
	}
	return c.Name
}

// byName is how much the name of a column says that its values are names.
type byName int

const (
	notByName  byName = iota
	maybeNames        // names of kinds, which may be numbers in an order
	surelyNames
)

// Last words of columns with names, and of columns with quantities. A column of the first kind may have words of the
// second before: count_of_user.
var (
	ofNames = strings.Fields(`
		id ids uid guid uuid zip zipcode postcode code country city user item movie product sku customer account
		session store shop isbn asin ean upc ip visitor client member player artist track song book seller merchant
		advertiser campaign publisher article film game restaurant station airport`)
	ofKinds = strings.Fields(`
		app device os channel browser brand category cat type kind group segment cluster region state site domain
		host genre color colour model version gender status department section slot placement carrier`)
	ofQuantities = strings.Fields(`
		age price amount cost count counts qty quantity num total sum duration length size width height weight depth
		income salary balance distance score rate ratio percent mean avg average min max median std hours minutes
		seconds days months years year temp temperature speed volume area population budget revenue level points
		rank lat lon lng latitude longitude altitude elevation pressure humidity bid`)
	countsFirst = []string{"num", "n", "nr", "count", "total", "avg", "mean", "max", "min",
		"sum"} // as first of several words: num_user
	// noIDs end in id without being one.
	noIDs = strings.Fields(`
		bid paid aid acid humid solid fluid liquid lipid rapid valid invalid mid grid hybrid covid void kid lid rid
		did said laid android fid prepaid unpaid avoid`)
)

// nameOfNames says whether the name of a column is that of a column with names: userId, User-ID, visitorid, zip code.
func nameOfNames(name string) byName {
	list := wordsOf(name)
	if len(list) == 0 || nameOfQuantity(name) {
		return notByName
	}
	last := list[len(list)-1]
	switch {
	case slices.Contains(ofNames, last),
		len(last) > 2 && strings.HasSuffix(last, "id") && !slices.Contains(noIDs, last):
		return surelyNames
	case slices.Contains(ofKinds, last):
		return maybeNames
	}
	return notByName
}

// identifies reports whether a column is called as what identifies an event is.
func identifies(name string) bool {
	list := wordsOf(name)
	if len(list) == 0 {
		return false
	}
	last := list[len(list)-1]
	if len(list) == 1 {
		return last == "uuid" || last == "guid"
	}
	return (last == "id" || last == "uuid" || last == "key") && slices.Contains(ofEvents, list[len(list)-2])
}

// ofEvents are words for events, of which an ID identifies one.
var ofEvents = []string{"event", "message", "record", "impression", "request", "transaction"}

// nameOfQuantity reports whether the name of a column is that of a quantity: age, price_usd, num_users.
func nameOfQuantity(name string) bool {
	list := wordsOf(name)
	if len(list) == 0 {
		return false
	}
	first, last := list[0], list[len(list)-1]
	switch {
	case slices.Contains(ofQuantities, last), len(list) > 1 && slices.Contains(countsFirst, first):
		return true
	case slices.Contains(ofNames, last), slices.Contains(ofKinds, last):
		return false
	}
	return slices.Contains(ofQuantities, first) // price_usd
}

// largestNumber is the largest magnitude that a number in an event may have.
const largestNumber = 1e15

// farFromZero is the least number from which on numbers that lie close together, for their size, are taken for those
// that somebody gave things in turn.
const farFromZero = 10_000

// whole decides what a column of whole numbers is, and says why.
func (g *guess) whole(c *dataset.Column, isName byName, isQuantity bool) (use, why string) {
	n, distinct := c.Present, c.Distinct()
	comesBack := distinct <= n/2 || distinct <= fewNumbers
	numbers := fmt.Sprintf("numbers from %g to %g", c.Min, c.Max)
	switch {
	case max(c.Max, -c.Min) > largestNumber && !comesBack && isName == notByName:
		return leftOut, fmt.Sprintf("numbers beyond %g, which events have as names alone, and no name comes back",
			largestNumber)
	case max(c.Max, -c.Min) > largestNumber:
		return "categorical", fmt.Sprintf("%d different numbers beyond %g, which events have as names alone", distinct,
			largestNumber)
	case isName == surelyNames:
		return "categorical", fmt.Sprintf("%d different numbers, which by its name are names", distinct)
	case c.Padded > 0 && !comesBack:
		return leftOut, fmt.Sprintf("%d different codes in %d rows, of which some begin with 0: no name comes back",
			distinct, n)
	case c.Padded > 0:
		return "categorical", fmt.Sprintf("%d different codes: some begin with 0", distinct)
	case c.Pointed == 0 && distinct <= fewNumbers && g.rows >= rowsPerName*distinct:
		return "categorical", fmt.Sprintf("%d different whole numbers", distinct)
	case c.Min < 0 || isQuantity || c.Pointed > 0 || isName == notByName && !comesBack:
		return "numeric", numbers
	}
	t := g.of.tried(c)
	losses := fmt.Sprintf("over %d rows the label's log loss is %.5g by each number and %.5g by those nearby", t.rows,
		t.names, t.numbers)
	switch {
	case t.forNumbers(muchBetter):
		return "numeric", numbers + ": " + losses
	case isName == maybeNames:
		return "categorical", fmt.Sprintf("%d different numbers, which by its name are names", distinct)
	case t.forNames(better):
		return "categorical", fmt.Sprintf("%d different numbers without order: %s", distinct, losses)
	case t.forNumbers(better):
		return "numeric", numbers + ": " + losses
	case c.Min >= farFromZero && c.Max-c.Min <= c.Min:
		return "categorical", fmt.Sprintf("%d different numbers that come back and lie close together far from 0",
			distinct)
	}
	return "numeric", numbers
}

// nearest returns the column whose name is spelt most like a text, a beginning in common counting most: one that may
// be a label, if there are such.
func nearest(text string, columns []*dataset.Column) string {
	best, least := "", 0
	for _, names := range []bool{false, true} {
		for _, c := range columns {
			if !names && nameOfNames(ownName(c)) == surelyNames {
				continue
			}
			a, b := strings.ToLower(text), strings.ToLower(c.Name)
			distance := strictyaml.EditDistance(a, b)
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					break
				}
				distance--
			}
			if best == "" || distance < least {
				best, least = c.Name, distance
			}
		}
		if best != "" {
			return best
		}
	}
	return best
}

// timeWords are words of the names of columns with times.
var timeWords = strings.Fields(`
		ts t time date datetime timestamp created updated modified published posted when at`)

// unitWords are the units of times.
var unitWords = map[string]string{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

// inOrder is the share of numbers not less than the one before from which on they are in the order of the rows, but for
// late ones.
const inOrder = 0.9

// isTime reports whether the numbers of a column are times since 1970: by its name, or by what they are: never the same
// for long, or in their order. In milliseconds or less, of which few other numbers are, a few may be out of order, or
// all are whole seconds. What else comes back in any order is a name, such as the number of a phone or an article.
func isTime(c *dataset.Column, own string) bool {
	unit := timeUnit(c)
	if isTyped(c) {
		return true
	}
	if unit == "" || nameOfNames(own) != notByName {
		return false
	}
	least := 1.0
	if unit != "s" {
		least = inOrder
	}
	return isTimeName(own) || c.Distinct() > c.Present/2 || c.Distinct() > 1 &&
		float64(c.Rises) >= least*float64(c.Present-1) || unit != "s" && areSeconds(c, unit)
}

// areSeconds reports whether all numbers of a unit are whole seconds.
func areSeconds(c *dataset.Column, unit string) bool {
	second := map[string]float64{"ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
	return !slices.ContainsFunc(c.HeadNumbers(), func(v float64) bool { return math.Mod(v, second) != 0 })
}

// isTimeName reports whether a column is called as times are.
func isTimeName(own string) bool {
	return slices.ContainsFunc(wordsOf(own), func(word string) bool {
		return slices.Contains(timeWords, word) || strings.HasSuffix(word, "timestamp") || strings.HasSuffix(word,
			"datetime")
	})
}

// timeless is the share of rows that may lack the time of the events: they are refused.
const timeless = 0.01

// hasTimes reports whether a column has a value in almost every row, as one with times has to.
func (g *guess) hasTimes(c *dataset.Column) bool {
	return float64(g.rows-c.Present-c.Odd) <= timeless*float64(g.rows)
}

// likelyTime returns the column with the time of the events: of several that of which the events are in order, of
// several such the first one that is called so; nil for none.
func (g *guess) likelyTime(columns []*dataset.Column, label *dataset.Column) (best *dataset.Column) {
	most := -1.0
	for _, c := range columns {
		own := ownName(c)
		isWritten := c.Present > 0 && c.Times == c.Present && (g.format != dataset.JSONL || c.Stamps == c.Present)
		if c == label || !g.hasTimes(c) || tooEarly(c) || slices.Contains(ofExport, c.Name) || !isWritten && !isTime(c, own) {
			continue
		}
		if g.format == dataset.JSONL && c.Quoted > 0 {
			continue // an event has no time that is a number in quotes
		}
		score := float64(c.Rises) / float64(c.Present)
		if isTimeName(own) {
			score += 0.5 // less than the order of all events, more than that of a part of them by chance
		}
		if isTyped(c) && c.Leaf.Unit != event.Days {
			score++ // a type says more than a name
		}
		if score > most {
			best, most = c, score
		}
	}
	return best
}

// Columns of a log of choices: who chose, and what.
var (
	whoChose = strings.Fields(`
		user visitor customer client member player account person reader listener viewer session uid`)
	isChosen = strings.Fields(`
		item product movie film track song artist book article game video sku asin isbn restaurant iid`)
	kindWord = strings.Fields(`
		event action behavior behaviour event_type type interaction`)
)

// choices makes the task that of a log of choices, if the columns are those of one: one says who chose, one what, and
// no other may be a label that has another name. It returns the column with the kind of choice, which may be nil. If
// the task is asked for, who and what may be called anything.
func (g *guess) choices(columns []*dataset.Column, asked bool) (kind *dataset.Column, ok bool) {
	var who, what *dataset.Column
	var others []*dataset.Column
	for _, c := range columns {
		list := wordsOf(ownName(c))
		called := func(names []string) bool {
			return slices.ContainsFunc(list, func(word string) bool {
				return slices.Contains(names, word) || slices.Contains(names, strings.TrimSuffix(word, "id")) ||
					slices.Contains(names, strings.TrimSuffix(word, "s"))
			})
		}
		few := c.Present == g.rows && c.Numbers+c.Lists+c.Nested == 0 && c.Distinct() <= fewLevels
		switch comesBack := g.comesBack(c); {
		case who == nil && comesBack && called(whoChose):
			who = c
		case what == nil && comesBack && called(isChosen):
			what = c
		case kind == nil && few && slices.Contains(kindWord, strings.ToLower(ownName(c))):
			kind = c
		default:
			others = append(others, c)
		}
	}
	for _, c := range others {
		switch {
		case !asked && g.mayBeLabel(c):
			return nil, false
		case asked && who == nil && c != what && g.comesBack(c):
			who = c
		case asked && what == nil && g.comesBack(c):
			what = c
		}
	}
	if who == nil || what == nil {
		return nil, false
	}
	s := &g.schema
	s.Task, g.chosen = config.Implicit, what.Name
	g.labelWhy = fmt.Sprintf("each row is taken for a choice of %s by %s, as no column is called as labels are",
		what.Name, who.Name)
	if kind != nil && kind.Distinct() > 1 {
		s.Label = kind.Name
		for _, name := range kind.Values() {
			s.EventWeights = append(s.EventWeights, config.EventWeight{Event: name, Weight: 1})
		}
	}
	return kind, true
}

// comesBack reports whether a column has names in every row, of which at least a tenth have been there before.
func (g *guess) comesBack(c *dataset.Column) bool {
	return c.Present == g.rows && c.Lists+c.Nested+c.Times+c.Literals == 0 && c.Whole == c.Numbers && c.Pointed == 0 &&
		timeUnit(c) == "" && c.Distinct() > 1 &&
		10*c.Distinct() <= 9*c.Present
}

// mayBeLabel reports whether a column that is not called as labels are could be one: it has two values, or numbers
// that are no times and no names.
func (g *guess) mayBeLabel(c *dataset.Column) bool {
	own := ownName(c)
	if c.Present == 0 || c.Distinct() < 2 || isTime(c, own) || nameOfNames(own) != notByName || c.Steps == c.Present-1 {
		return false
	}
	return c.Distinct() == 2 || c.Numbers == c.Present && (c.Quoted == 0 || c.Whole < c.Numbers)
}
